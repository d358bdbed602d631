/* run_leak_rule.h - when a leak is certain enough to speak up while the job runs. */
#ifndef VRAMWISE_CLI_RUN_LEAK_RULE_H
#define VRAMWISE_CLI_RUN_LEAK_RULE_H

#include <stdbool.h>

#include "vramwise/watch.h"

/* Is there a leak that is firm, and that matters? Then `*out` is its outlook. Depends on nothing
 * but the device's steps and numbers. Without host memory: no. */
bool run_leak_is_firm(const vw_job_device *device, vw_job_outlook *out);

#endif /* VRAMWISE_CLI_RUN_LEAK_RULE_H */
