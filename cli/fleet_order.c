/* fleet_order.c - see fleet_order.h. */
#include "fleet_order.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "arguments.h"
#include "command.h"
#include "recording_command.h"
#include "safe_print.h"

int fleet_order_check_sources(const char *command_name, const fleet_order *order)
{
    if (order->is_merge && order->source_count == 0)
        return arguments_refuse(command_name, "--merge: expected the states of all shares");
    if (order->source_count != 1 && !order->is_merge)
        return arguments_refuse(command_name, "expected one folder, not %zu", order->source_count);
    for (size_t i = 0; i < order->source_count; i++)
        if (order->sources[i][0] == '\0') /* as an unset variable in a script leaves it */
            return arguments_refuse(command_name, "the name of the folder is empty");
    return EXIT_DONE;
}

bool fleet_order_is_about_jobs(const fleet_order *order)
{
    return order->state_folder != NULL || order->share != NULL || order->is_merge ||
           strcmp(order->sources[0], "-") == 0;
}

/* "3/16". */
static bool read_share(const char *text, unsigned *share, unsigned *shares)
{
    char first[16];
    uint64_t one, all;
    const char *slash = strchr(text, '/');
    if (slash == NULL || (size_t)(slash - text) >= sizeof first)
        return false;
    memcpy(first, text, (size_t)(slash - text));
    first[slash - text] = '\0';
    if (!arguments_read_number(first, &one) || !arguments_read_number(slash + 1, &all) ||
        one == 0 || one > all || all > VW_FLEET_MOST_SHARES)
        return false;
    *share = (unsigned)one;
    *shares = (unsigned)all;
    return true;
}

int fleet_order_check(const char *command_name, const fleet_order *order, bool has_output,
                      vw_fleet_options *options)
{
    *options = (vw_fleet_options){.struct_size = sizeof *options,
                                  .torch_version = order->torch_version,
                                  .state_folder = order->state_folder};
    if (order->is_merge &&
        (order->state_folder != NULL || order->share != NULL || order->torch_version != NULL))
        return arguments_refuse(command_name, "--merge reads states; --share, --state and --torch "
                                              "are for making them");
    if (order->state_folder != NULL && order->state_folder[0] == '\0')
        return arguments_refuse(command_name, "--state: the name of the folder is empty");
    if (order->share == NULL)
        return EXIT_DONE;
    if (!read_share(order->share, &options->share, &options->shares))
        return arguments_refuse(
            command_name, "--share: expected K/N, with K from 1 to N, found '%s'", order->share);
    if (order->state_folder == NULL)
        return arguments_refuse(command_name, "--share: expected --state DIR for what it finds");
    if (has_output)
        return arguments_refuse(command_name, "a share has no report: --merge makes it of all");
    return EXIT_DONE;
}

int fleet_order_fail(const char *command_name, const fleet_order *order, vw_status status)
{
    return recording_command_fail(command_name, order->is_merge ? NULL : order->sources[0], status);
}

int fleet_order_show_share(const fleet_order *order, const fleet_order_share *share)
{
    fprintf(stderr, "share %s: %zu of %zu units, %zu examined now; in ", order->share,
            share->share_count, share->unit_count, share->examined_count);
    safe_print(stderr, order->state_folder);
    fputc('\n', stderr);
    return EXIT_DONE;
}
