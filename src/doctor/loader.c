/* loader.c - advice on DataLoaders, both ways. */
#include "doctor/loader.h"

#include <inttypes.h>

#include "vramwise/watch.h" /* VW_JOB_INPUT_BOUND_SHARE */

/* ---- waiting for input ----------------------------------------------------------------------- */

static void say_what_is_set(vw__diagnosis_finding *finding, uint64_t workers, uint64_t pins)
{
    if (vw__doctor_knows(workers))
        vw__diagnosis_evidence(finding, "Its data loader has %" PRIu64 " worker%s%s.", workers,
                               workers == 1 ? "" : "s",
                               workers == 0 ? ": batches are made between the steps" : "");
    if (vw__doctor_knows(pins))
        vw__diagnosis_evidence(finding, pins != 0
                                            ? "Its batches are in pinned memory."
                                            : "Its batches are not in pinned memory: copies to "
                                              "the device cannot overlap with computation.");
}

void vw__loader_add_waiting(vw__diagnosis_draft *draft, double share, uint64_t workers,
                            uint64_t pins)
{
    enum { USUAL_WORKERS = 4, MOST_WORKERS = 64 };
    if (!(share > VW_JOB_INPUT_BOUND_SHARE))
        return;
    vw__diagnosis_finding *finding = vw__diagnosis_add(
        draft, "input-bound", VW_UNKNOWN, "The job spends %s of its step time waiting for input.",
        vw__diagnosis_share(draft, share));
    bool is_doubled = vw__doctor_knows(workers) && workers > 1 && workers < MOST_WORKERS;
    say_what_is_set(finding, workers, pins);
    vw__diagnosis_advice(
        finding, "let more workers make batches ahead",
        "memory of the host, for each worker and what it has made ahead",
        vw__diagnosis_text(draft,
                           "DataLoader(dataset, num_workers=%" PRIu64 ",\n"
                           "           persistent_workers=True, prefetch_factor=4, ...)",
                           is_doubled ? 2 * workers : USUAL_WORKERS));
    if (!vw__doctor_knows(pins) || pins == 0)
        vw__diagnosis_advice(finding, "pin the batches, and copy them without waiting",
                             "page-locked memory of the host",
                             "DataLoader(dataset, pin_memory=True, ...)\n"
                             "batch = batch.to(device, non_blocking=True)");
}

/* ---- memory of the host ---------------------------------------------------------------------- */

void vw__loader_advise_host(vw__diagnosis_finding *finding)
{
    vw__diagnosis_advice(finding, "fewer loader processes: each has its own copy of the dataset",
                         "loading is slower",
                         "DataLoader(dataset, num_workers=2, prefetch_factor=2)");
}

void vw__loader_advise_shared(vw__diagnosis_finding *finding)
{
    vw__diagnosis_advice(finding, "fewer workers, fewer batches in advance", "loading is slower",
                         "DataLoader(dataset, num_workers=2, prefetch_factor=1)");
}

void vw__loader_advise_pinned(vw__diagnosis_finding *finding)
{
    vw__diagnosis_advice(finding, "do not pin, or pin less", "slower copies to the GPU",
                         "DataLoader(dataset, pin_memory=False)\n"
                         "\"pin_memory\": false  # DeepSpeed's offload");
}

void vw__loader_advise_growth(vw__diagnosis_finding *finding)
{
    vw__diagnosis_advice(finding,
                         "let workers end with the epoch: what they have gathered goes with them",
                         "workers start again with every epoch",
                         "DataLoader(dataset, num_workers=2, persistent_workers=False)");
}
