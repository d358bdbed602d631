/* fleet_order.h - what the commands on many jobs take alike: a folder, a list or the states of
 * shares; --state, --share and --merge. */
#ifndef VRAMWISE_CLI_FLEET_ORDER_H
#define VRAMWISE_CLI_FLEET_ORDER_H

#include <stdbool.h>
#include <stddef.h>

#include "vramwise/fleet.h"

typedef struct fleet_order {
    const char *const *sources; /* one; of a merge, the states */
    size_t source_count;
    bool is_merge;
    const char *state_folder, *share; /* NULL: none */
    const char *torch_version;
} fleet_order;

/* One source that has a name, or several states. EXIT_DONE, or the message is on standard error. */
int fleet_order_check_sources(const char *command_name, const fleet_order *order);

/* Do the options say that it is about many jobs? */
bool fleet_order_is_about_jobs(const fleet_order *order);

/* Checks that the options go together, and fills in the library's. `has_output`: something is asked
 * for that a share does not have. EXIT_DONE, or the message is on standard error. */
int fleet_order_check(const char *command_name, const fleet_order *order, bool has_output,
                      vw_fleet_options *options);

/* Says why the library's call failed; how the program ends. */
int fleet_order_fail(const char *command_name, const fleet_order *order, vw_status status);

/* What became of a share. */
typedef struct fleet_order_share {
    size_t share_count, unit_count, examined_count;
} fleet_order_share;

/* Says so on standard error. EXIT_DONE. */
int fleet_order_show_share(const fleet_order *order, const fleet_order_share *share);

#endif /* VRAMWISE_CLI_FLEET_ORDER_H */
