/* run_leak_rule.c - one rule, between a warning that is too late and one that cries wolf.
 *
 * The doctor's rule for a log of steps is made for logs that have ended. Here the same log is asked
 * every second, from its first steps on, and a cache that has only begun to fill looks like a leak.
 * So more is wanted, all of it:
 *
 *   certain      the rule says leak, with high confidence
 *   for long     it said so when the log was half as long, too
 *   at its pace  the pace has not fallen since. What fills a cache slows down: growth as the
 *                logarithm or the root of the steps has 1/2 or 0.7 of its pace left after as many
 *                steps again
 *   it matters   a tenth of the way to the end of the memory has been gone. A leak that has not
 *                come so far has nine times as long to live as it has been watched
 *
 * A leak may begin late, after the first evaluation say: the later half of the log and its last
 * quarter are asked as well, each by itself. What grows evenly for sixty steps and more and stops
 * by itself later (a buffer of experiences that fills, a long epoch sorted by length) cannot be
 * told from a leak by anybody who sees bytes only; it is spared where it stays below a tenth of the
 * room.
 */
#include "run_leak_rule.h"

#define LEAST_PACE 0.85 /* of the pace when the log was half as long */
#define TELLING_SHARE 10

/* Of the first `count` steps of a device. */
static bool is_certain(const vw_job_device *device, size_t count, vw_job_outlook *out)
{
    vw_job_device part = *device;
    part.step_count = count;
    return vw_job_outlook_find(&part, out) == VW_OK && out->is_leak &&
           out->confidence == VW_CONFIDENCE_HIGH;
}

/* Has it used up a tenth of what it could grow by? Where nobody knows that: of what was there. */
static bool does_matter(const vw_job_device *device, const vw_job_outlook *outlook)
{
    const vw_job_step *first = &device->steps[0];
    if (outlook->last_step <= first->step)
        return false; /* steps that are no count */
    double grown = outlook->bytes_per_step * (double)(outlook->last_step - first->step);
    double whole = outlook->room_bytes != VW_LIVE_UNKNOWN ? grown + (double)outlook->room_bytes
                                                          : (double)first->live_bytes;
    return TELLING_SHARE * grown >= whole;
}

bool run_leak_is_firm(const vw_job_device *device, vw_job_outlook *out)
{
    for (size_t left = device->step_count; left >= device->step_count / 4 && left > 1; left /= 2) {
        vw_job_device part = *device;
        vw_job_outlook half, whole;
        part.steps = device->steps + (device->step_count - left);
        part.step_count = left;
        if (is_certain(&part, left, &whole) && is_certain(&part, left / 2, &half) &&
            whole.bytes_per_step >= LEAST_PACE * half.bytes_per_step &&
            does_matter(&part, &whole)) {
            *out = whole;
            return true;
        }
    }
    return false;
}
