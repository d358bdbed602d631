/* device_contract.h - the suite every device must pass, and its vocabulary for other tests.
 *
 * It asks for what include/vramwise/device.h promises, sentence by sentence. A device of your own
 * begins by making this suite fail. Checks that a device cannot be put to (no virtual memory, no
 * bytes, nobody to script a driver's failures) are skipped, and say why. */
#ifndef VW_TESTS_DEVICE_CONTRACT_H
#define VW_TESTS_DEVICE_CONTRACT_H

#include <stdbool.h>

#include "vramwise/device.h"
#include "support/cmocka_here.h"

/* Makes a fresh device on which nothing is held, at least 64 MiB of it free. */
typedef struct vw_test_device_factory {
    const char *name; /* of the device, for the report */
    vw_status (*make)(void *context, vw_device **out);
    void *context; /* the first argument of make() */
} vw_test_device_factory;

/* Runs every check, each on a device of its own. The number of checks that failed. */
int vw_test_device_contract(const vw_test_device_factory *factory);

/* Parts of it, included in the above: memory for other processes; memory of the host; what devices
 * that tests can script promise besides (mistakes, scripted failures, sweeps), held streams among
 * it. */
int vw_test_sharing_contract(const vw_test_device_factory *factory);
int vw_test_host_handles_contract(const vw_test_device_factory *factory);
int vw_test_stand_in_contract(const vw_test_device_factory *factory);
int vw_test_held_streams_contract(const vw_test_device_factory *factory);

/* ---- vocabulary ------------------------------------------------------------------------------ */

/* Fails the test, with the text of vw_last_error(), where a call did not answer as expected. */
#define assert_status(expected, expression)                                                        \
    vw_test_check_status((expected), (expression), #expression, __FILE__, __LINE__)
#define assert_ok(expression) assert_status(VW_OK, expression)

void vw_test_check_status(vw_status expected, vw_status found, const char *expression,
                          const char *file, int line);

/* Fails the test where vw_last_error() does not contain `part`. */
#define assert_last_error_has(part) vw_test_check_last_error((part), __FILE__, __LINE__)

void vw_test_check_last_error(const char *part, const char *file, int line);

/* Ends the test here unless `condition` holds, and says why. */
#define need(condition, reason)                                                                    \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            print_message("  skipped: %s\n", (reason));                                            \
            skip();                                                                                \
        }                                                                                          \
    } while (0)

/* Can calls be counted and scripted, as on the simulated and the host device? */
bool vw_test_is_scripted(const vw_device *device);

/* cmocka's setup and teardown, for tests that want a device of the factory in use. */
int vw_test_make_device(void **state);
int vw_test_end_device(void **state);
void vw_test_use_factory(const vw_test_device_factory *factory);

#endif /* VW_TESTS_DEVICE_CONTRACT_H */
