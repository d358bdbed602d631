/* device_contract.h - the suite every device must pass, and its vocabulary for other tests.
 *
 * It asks for what include/headroom/device.h promises, sentence by sentence. A device of your own
 * begins by making this suite fail. Checks that a device cannot be put to (no virtual memory, no
 * bytes, nobody to script a driver's failures) are skipped, and say why. */
#ifndef HR_TESTS_DEVICE_CONTRACT_H
#define HR_TESTS_DEVICE_CONTRACT_H

#include <stdbool.h>

#include "headroom/device.h"
#include "support/cmocka_here.h"

/* Makes a fresh device on which nothing is held, at least 64 MiB of it free. */
typedef struct hr_test_device_factory {
    const char *name; /* of the device, for the report */
    hr_status (*make)(void *context, hr_device **out);
    void *context; /* the first argument of make() */
} hr_test_device_factory;

/* Runs every check, each on a device of its own. The number of checks that failed. */
int hr_test_device_contract(const hr_test_device_factory *factory);

/* Parts of it, included in the above: memory for other processes; memory of the host; what devices
 * that tests can script promise besides (mistakes, scripted failures, sweeps), held streams among
 * it. */
int hr_test_sharing_contract(const hr_test_device_factory *factory);
int hr_test_host_handles_contract(const hr_test_device_factory *factory);
int hr_test_stand_in_contract(const hr_test_device_factory *factory);
int hr_test_held_streams_contract(const hr_test_device_factory *factory);

/* ---- vocabulary ------------------------------------------------------------------------------ */

/* Fails the test, with the text of hr_last_error(), where a call did not answer as expected. */
#define assert_status(expected, expression)                                                        \
    hr_test_check_status((expected), (expression), #expression, __FILE__, __LINE__)
#define assert_ok(expression) assert_status(HR_OK, expression)

void hr_test_check_status(hr_status expected, hr_status found, const char *expression,
                          const char *file, int line);

/* Fails the test where hr_last_error() does not contain `part`. */
#define assert_last_error_has(part) hr_test_check_last_error((part), __FILE__, __LINE__)

void hr_test_check_last_error(const char *part, const char *file, int line);

/* Ends the test here unless `condition` holds, and says why. */
#define need(condition, reason)                                                                    \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            print_message("  skipped: %s\n", (reason));                                            \
            skip();                                                                                \
        }                                                                                          \
    } while (0)

/* Can calls be counted and scripted, as on the simulated and the host device? */
bool hr_test_is_scripted(const hr_device *device);

/* cmocka's setup and teardown, for tests that want a device of the factory in use. */
int hr_test_make_device(void **state);
int hr_test_end_device(void **state);
void hr_test_use_factory(const hr_test_device_factory *factory);

#endif /* HR_TESTS_DEVICE_CONTRACT_H */
