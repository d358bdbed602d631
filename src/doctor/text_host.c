/* text_host.c - when it is the machine's memory that ran out, not the GPU's.
 *
 * There are four kinds of it, and each has a remedy that does nothing for the others: an allocation
 * that failed, a process that was killed, /dev/shm, and pinned memory. */
#include "doctor/text_parts.h"

static void add_less_memory(vw__finding_draft *finding)
{
    vw__finding_advice(finding, "fewer loader processes: each has its own copy of the dataset",
                       "loading is slower",
                       "DataLoader(dataset, num_workers=2, prefetch_factor=2)");
    vw__finding_advice(finding, "read the data piece by piece, instead of holding it",
                       "a change of the dataset",
                       "numpy.load(path, mmap_mode=\"r\")\n"
                       "datasets.load_dataset(name, streaming=True)");
    vw__finding_advice(finding, "load weights without a second copy in the host's memory", "none",
                       "torch.load(path, map_location=\"cuda\", mmap=True)\n"
                       "AutoModel.from_pretrained(name, low_cpu_mem_usage=True)");
}

static void add_look(vw__finding_draft *finding)
{
    vw__finding_advice(finding, "see what the machine has, and who was killed", "none",
                       "free -g\nsudo dmesg -T | grep -i -E \"killed process|out of memory\"");
}

static void judge_allocator(const vw__text_case *given)
{
    uint64_t tried = given->numbers.tried_bytes;
    bool is_known = vw__doctor_knows(tried);
    vw__diagnosis_reason(given->draft,
                         "An allocation in the host's memory failed%s%s; the GPU is not involved.",
                         is_known ? ": " : "", is_known ? VW__DOCTOR_SIZE(tried) : "");
    vw__diagnosis_conclude(
        given->draft, VW_VERDICT_HOST, vw__text_confidence(given, VW_CONFIDENCE_HIGH),
        "Host memory: the machine's RAM, not the GPU's, could not give %s%s.",
        is_known ? VW__DOCTOR_SIZE(tried) : "what was asked for", is_known ? " in one piece" : "");
    vw__finding_draft *finding = vw__diagnosis_add(
        given->draft, "host", tried, "An allocation of %s in the host's memory failed.",
        is_known ? VW__DOCTOR_SIZE(tried) : "unknown size");
    vw__finding_evidence(
        finding,
        "It fails when RAM and swap are promised away, or at a limit of the container or shell.");
    vw__finding_advice(finding, "look at the line that asked: is that size meant?", "none",
                       "print(array.shape, array.dtype)");
    add_less_memory(finding);
    vw__finding_advice(finding, "lift the limits of shell and container",
                       "none, where the machine has the memory",
                       "free -g; ulimit -v unlimited\ndocker run --memory=64g ...");
}

static void judge_killed(const vw__text_case *given)
{
    bool is_worker = given->report->kind == VW__ERROR_HOST_WORKER;
    const char *who = is_worker ? "a DataLoader worker" : "the process";
    const char *by = vw__text_has(given, "slurm") || vw__text_has(given, "cgroup") ||
                             vw__text_has(given, "memcg") || vw__text_has(given, "OOMKilled")
                         ? "the limit of its container or job (a cgroup)"
                     : vw__text_has(given, "memory monitor") || vw__text_has(given, "raylet")
                         ? "a watch on the machine's memory (Ray)"
                         : "the kernel, when RAM was used up";
    if (given->report->is_ambiguous) {
        vw__diagnosis_reason(
            given->draft,
            "Signal 9 came from outside, and no reason is in the text: mostly it is the kernel, "
            "out of memory, but a person or a scheduler can send it too.");
        vw__diagnosis_conclude(given->draft, VW_VERDICT_HOST, VW_CONFIDENCE_LOW,
                               "Host memory, probably: %s was killed from outside, as the kernel "
                               "does when the machine's RAM is used up.",
                               who);
    } else {
        vw__diagnosis_reason(given->draft, "%s was killed by %s. The GPU is not involved.",
                             is_worker ? "A DataLoader worker" : "The process", by);
        vw__diagnosis_conclude(
            given->draft, VW_VERDICT_HOST,
            vw__text_confidence(given, is_worker ? VW_CONFIDENCE_MEDIUM : VW_CONFIDENCE_HIGH),
            "Host memory: %s was killed by %s; the GPU's memory is not meant.", who, by);
    }
    vw__finding_draft *finding =
        vw__diagnosis_add(given->draft, "host", VW_UNKNOWN, "%s was killed for the host's memory.",
                          is_worker ? "A DataLoader worker" : "The process");
    add_look(finding);
    add_less_memory(finding);
    vw__finding_advice(finding, "more memory for the job", "a longer queue, a larger machine",
                       "sbatch --mem=64G ...\ndocker run --memory=64g ...\n"
                       "resources: {limits: {memory: 64Gi}}  # Kubernetes");
}

static void judge_shared(const vw__text_case *given)
{
    vw__diagnosis_reason(given->draft, "Processes hand each other data through /dev/shm, which in "
                                       "a container is 64 MB unless set otherwise.");
    vw__diagnosis_conclude(given->draft, VW_VERDICT_HOST,
                           vw__text_confidence(given, VW_CONFIDENCE_HIGH),
                           "Host memory: /dev/shm, through which processes share data, is too "
                           "small; the GPU's memory is not meant.");
    vw__finding_draft *finding =
        vw__diagnosis_add(given->draft, "host", VW_UNKNOWN, "Shared memory (/dev/shm) ran out.");
    vw__finding_advice(finding, "a larger /dev/shm", "a restart of the container",
                       "df -h /dev/shm\ndocker run --shm-size=8g ...  # or --ipc=host\n"
                       "sudo mount -o remount,size=8G /dev/shm");
    vw__finding_advice(finding, "fewer workers, fewer batches in advance", "loading is slower",
                       "DataLoader(dataset, num_workers=2, prefetch_factor=1)");
    vw__finding_advice(finding, "share through files instead", "slower",
                       "torch.multiprocessing.set_sharing_strategy(\"file_system\")");
}

static void judge_pinned(const vw__text_case *given)
{
    uint64_t tried = given->numbers.tried_bytes;
    bool is_known = vw__doctor_knows(tried);
    vw__diagnosis_reason(given->draft, "Pinned memory is host memory that the driver locks in "
                                       "place; the error names CUDA all the same.");
    vw__diagnosis_conclude(given->draft, VW_VERDICT_HOST,
                           vw__text_confidence(given, VW_CONFIDENCE_HIGH),
                           "Host memory: %s of pinned memory could not be had; that is the "
                           "machine's RAM, not the GPU's.",
                           is_known ? VW__DOCTOR_SIZE(tried) : "a piece");
    vw__finding_draft *finding =
        vw__diagnosis_add(given->draft, "host", tried, "%s of pinned host memory could not be had.",
                          is_known ? VW__DOCTOR_SIZE(tried) : "A piece");
    vw__finding_advice(finding, "do not pin, or pin less", "slower copies to the GPU",
                       "DataLoader(dataset, pin_memory=False)\n"
                       "\"pin_memory\": false  # DeepSpeed's offload");
    vw__finding_advice(finding, "lift the limit on locked memory",
                       "none, where the machine has the memory",
                       "ulimit -l unlimited\ndocker run --ulimit memlock=-1 ...\n"
                       "# WSL: memory= in .wslconfig; half of it can be pinned");
    add_look(finding);
}

void vw__text_judge_host(const vw__text_case *given)
{
    switch (given->report->kind) {
    case VW__ERROR_HOST_SHARED:
        judge_shared(given);
        break;
    case VW__ERROR_HOST_PINNED:
        judge_pinned(given);
        break;
    case VW__ERROR_HOST_KILLED:
    case VW__ERROR_HOST_WORKER:
        judge_killed(given);
        break;
    default:
        judge_allocator(given);
        break;
    }
}
