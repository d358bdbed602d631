/* refusal.c - findings for a request that was refused for reasons of its own.
 *
 * A limit below what the card had is named whatever the verdict is: it can be raised, and then all
 * is well. Whether that is enough is replayed, on what the process held and the device had free.
 *
 * Where a limit was set, where one request is larger than everything, or where the device refused
 * although it had the memory, what was alive at the time is beside the point: the remedy is
 * elsewhere. Each of these verdicts gets a finding that says where. (What to do about a run that
 * simply needs more is the peak's finding.) */
#include "doctor/doctor.h"

#include <string.h>

#include "base/checked_math.h"
#include "base/error.h"
#include "doctor/settings.h" /* vw__doctor_enough */
#include "remedy/remedy.h"
#include "settings/trials.h"

static void add_request_line(const vw__doctor_facts *facts, vw__doctor_result *result,
                             vw__diagnosis_finding *finding)
{
    if (facts->failure.event < facts->trace->event_count)
        vw__diagnosis_where(finding, "%s",
                            vw__doctor_place(facts, result->draft,
                                             facts->trace->events[facts->failure.event].context));
}

/* What the recorded settings come to on a card of all that there was. */
static vw_status try_without_limit(const vw__doctor_input *input, vw__doctor_facts *facts,
                                   vw_enough *out)
{
    const vw_memory_numbers *numbers = &facts->failure.numbers;
    vw_replay_result result = {.policy = NULL};
    uint64_t room_bytes;
    *out = VW_ENOUGH_UNKNOWN;
    VW__TRY(vw__doctor_open_trials(input, facts));
    if (facts->trials == NULL || numbers->reserved_bytes == VW_UNKNOWN ||
        !vw__add_u64(numbers->reserved_bytes, numbers->free_bytes, &room_bytes))
        return VW_OK;
    const char *conf = vw__trials_recorded_conf(facts->trials);
    if (strstr(conf, "per_process_memory_fraction") != NULL)
        return VW_OK; /* the limit is one of the settings that would be replayed */
    vw__replay_work plain = facts->trials->work; /* shares everything */
    plain.followed_count = 0;
    vw_status status = vw__replay_run(&plain, vw__replay_recorded_setting(&plain),
                                      vw__replay_card_of(room_bytes), false, NULL, &result);
    if (status == VW_OK)
        *out = vw__doctor_enough(facts, result.is_complete);
    return vw__trials_are_impossible(status) ? VW_OK : status;
}

static vw_status add_capped(const vw__doctor_input *input, vw__doctor_facts *facts,
                            vw__doctor_result *result)
{
    vw_enough enough;
    VW__TRY(try_without_limit(input, facts, &enough));
    const vw__doctor_failure *failure = &facts->failure;
    const vw_memory_numbers *numbers = &failure->numbers;
    vw__diagnosis_finding *finding =
        vw__diagnosis_add(result->draft, "capped", numbers->free_bytes,
                          "A limit was set, while the device had $free free.");
    add_request_line(facts, result, finding);
    if (failure->limit_most_bytes != 0)
        vw__diagnosis_evidence(
            finding,
            "It lies between %s, the most that was granted, and %s, the least that was refused.",
            VW__DOCTOR_SIZE(failure->limit_least_bytes),
            VW__DOCTOR_SIZE(failure->limit_most_bytes));
    const vw__remedy *raise = vw__remedy_of(VW__REMEDY_RAISE_LIMIT);
    if (vw__recording_is_of_a_pool(facts->model))
        vw__diagnosis_remedy(finding, raise->action, vw__diagnosis_saves(numbers->free_bytes),
                             VW_BASIS_MEASURED, raise->cost, "vw_pool_set_fraction(pool, 0.95);");
    else
        vw__diagnosis_known_remedy(finding, VW__REMEDY_RAISE_LIMIT,
                                   &(vw__remedy_words){.fraction = "0.95"},
                                   vw__diagnosis_saves(numbers->free_bytes), VW_BASIS_MEASURED);
    vw__diagnosis_enough(finding, enough);
    return VW_OK;
}

/* A limit was concluded, and without it there was room. */
static bool is_limit_in_the_way(const vw_memory_numbers *numbers)
{
    return numbers->allowed_bytes != VW_UNKNOWN && numbers->free_bytes != VW_UNKNOWN &&
           numbers->free_bytes >= numbers->tried_bytes;
}

static void add_too_large(const vw__doctor_facts *facts, vw__doctor_result *result)
{
    uint64_t tried = facts->failure.numbers.tried_bytes;
    vw__diagnosis_finding *finding =
        vw__diagnosis_add(result->draft, "too-large", tried,
                          "One request asks for %s: %llu million numbers of 4 bytes.",
                          VW__DOCTOR_SIZE(tried), (unsigned long long)(tried / 4 / 1000000));
    add_request_line(facts, result, finding);
    vw__diagnosis_advice(
        finding, "look at the shape that is asked for: is it the one you meant?", "none",
        "print(x.shape, y.shape)     # before that line; a broadcast of (n, 1) and\n"
        "                            # (1, n) makes n * n numbers");
    vw__diagnosis_known_remedy(finding, VW__REMEDY_COMPUTE_IN_CHUNKS, NULL,
                               (vw__diagnosis_savings){tried / 2, tried}, VW_BASIS_COMPUTED);
}

static void add_refused(const vw__doctor_facts *facts, vw__doctor_result *result)
{
    vw__diagnosis_finding *finding =
        vw__diagnosis_add(result->draft, "refused", facts->failure.numbers.tried_bytes,
                          "The device had $free free and refused $tried.");
    add_request_line(facts, result, finding);
    vw__diagnosis_evidence(finding, "No limit explains it: more was granted at another time.");
    vw__diagnosis_advice(
        finding, "see what the machine refuses: host memory, commit or address limits", "none",
        "ulimit -v; free -g; cat /proc/sys/vm/overcommit_memory\n"
        "nvidia-smi                  # MIG slices, other processes");
}

vw_status vw__doctor_refusal(const vw__doctor_input *input, vw__doctor_facts *facts,
                             vw__doctor_result *result, vw_verdict verdict)
{
    if (verdict == VW_VERDICT_TOO_LARGE)
        add_too_large(facts, result);
    else if (verdict == VW_VERDICT_REFUSED)
        add_refused(facts, result);
    if (verdict == VW_VERDICT_CAPPED || is_limit_in_the_way(&facts->failure.numbers))
        return add_capped(input, facts, result);
    return VW_OK;
}
