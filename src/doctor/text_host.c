/* text_host.c - when it is the machine's memory that ran out, not the GPU's.
 *
 * There are four kinds of it, and each has a remedy that does nothing for the others: an allocation
 * that failed, a process that was killed, /dev/shm, and pinned memory. */
#include "doctor/text_parts.h"

#include "doctor/loader.h"

/* Ways to need less, for most kinds. */
static const vw__doctor_advice for_all[] = {
    {"read the data piece by piece, instead of holding it", "a change of the dataset",
     "numpy.load(path, mmap_mode=\"r\")\n"
     "datasets.load_dataset(name, streaming=True)"},
    {"load weights without a second copy in the host's memory", "none",
     "torch.load(path, map_location=\"cuda\", mmap=True)\n"
     "AutoModel.from_pretrained(name, low_cpu_mem_usage=True)"},
};

static const vw__doctor_advice look = {
    "see what the machine has, and who was killed", "none",
    "free -g\nsudo dmesg -T | grep -i -E \"killed process|out of memory\""};
static const vw__doctor_advice look_at_line = {"look at the line that asked: is that size meant?",
                                               "none", "print(array.shape, array.dtype)"};
static const vw__doctor_advice lift_limits = {
    "lift the limits of shell and container", "none, where the machine has the memory",
    "free -g; ulimit -v unlimited\ndocker run --memory=64g ..."};
static const vw__doctor_advice more_memory = {"more memory for the job",
                                              "a longer queue, a larger machine",
                                              "sbatch --mem=64G ...\ndocker run --memory=64g ...\n"
                                              "resources: {limits: {memory: 64Gi}}  # Kubernetes"};

static const vw__doctor_advice for_shared[] = {
    {"a larger /dev/shm", "a restart of the container",
     "df -h /dev/shm\ndocker run --shm-size=8g ...  # or --ipc=host\n"
     "sudo mount -o remount,size=8G /dev/shm"},
    {"share through files instead", "slower",
     "torch.multiprocessing.set_sharing_strategy(\"file_system\")"},
};

static const vw__doctor_advice for_pinned[] = {
    {"lift the limit on locked memory", "none, where the machine has the memory",
     "ulimit -l unlimited\ndocker run --ulimit memlock=-1 ...\n"
     "# WSL: memory= in .wslconfig; half of it can be pinned"},
};

/* The first row whose kind and certainty fit is taken; a worker is killed as a process is. */
static const struct {
    vw__error_text_kind kind; /* NONE: any other */
    bool is_ambiguous;        /* only where it could be something else */
    const char *reason, *sentence, *title;
    const char *evidence;            /* or NULL */
    const vw__doctor_advice *advice; /* first, */
    size_t advice_count;
    void (*advise_loader)(vw__diagnosis_finding *finding); /* then about the loader, */
    bool is_for_all;                                       /* then that for all, */
    const vw__doctor_advice *last;                         /* then this; or NULL */
} kinds[] = {
    {VW__ERROR_TEXT_HOST_SHARED, false,
     "Processes hand each other data through /dev/shm, which in a container is 64 MB unless set "
     "otherwise.",
     "Host memory: /dev/shm, through which processes share data, is too small; the GPU's memory is "
     "not meant.",
     "Shared memory (/dev/shm) ran out.", NULL, for_shared, 1, vw__loader_advise_shared, false,
     &for_shared[1]},
    {VW__ERROR_TEXT_HOST_PINNED, false,
     "Pinned memory is host memory that the driver locks in place; the error names CUDA all the "
     "same.",
     "Host memory: $piece of pinned memory could not be had; that is the machine's RAM, not the "
     "GPU's.",
     "$first_piece of pinned host memory could not be had.", NULL, for_pinned, 1,
     vw__loader_advise_pinned, false, &look},
    {VW__ERROR_TEXT_HOST_KILLED, true,
     "Signal 9 came from outside, and no reason is in the text: mostly it is the kernel, out of "
     "memory, but a person or a scheduler can send it too.",
     "Host memory, probably: $victim was killed from outside, as the kernel does when the "
     "machine's RAM is used up.",
     "$first_victim was killed for the host's memory.", NULL, &look, 1, vw__loader_advise_host,
     true, &more_memory},
    {VW__ERROR_TEXT_HOST_KILLED, false,
     "$first_victim was killed by $killer. The GPU is not involved.",
     "Host memory: $victim was killed by $killer; the GPU's memory is not meant.",
     "$first_victim was killed for the host's memory.", NULL, &look, 1, vw__loader_advise_host,
     true, &more_memory},
    {VW__ERROR_TEXT_NONE, false,
     "An allocation in the host's memory failed$colon_size; the GPU is not involved.",
     "Host memory: the machine's RAM, not the GPU's, could not give $wanted.",
     "An allocation of $size in the host's memory failed.",
     "It fails when RAM and swap are promised away, or at a limit of the container or shell.",
     &look_at_line, 1, vw__loader_advise_host, true, &lift_limits},
};

static void name_words(const vw__text_case *given)
{
    vw__diagnosis_draft *draft = given->draft;
    bool is_known = vw__doctor_knows(given->numbers.tried_bytes);
    bool is_worker = given->report->kind == VW__ERROR_TEXT_HOST_WORKER;
    const char *killer = vw__text_has(given, "slurm") || vw__text_has(given, "cgroup") ||
                                 vw__text_has(given, "memcg") || vw__text_has(given, "OOMKilled")
                             ? "the limit of its container or job (a cgroup)"
                         : vw__text_has(given, "memory monitor") || vw__text_has(given, "raylet")
                             ? "a watch on the machine's memory (Ray)"
                             : "the kernel, when RAM was used up";
    const struct {
        const char *name, *text;
    } words[] = {
        {"piece", is_known ? "$tried" : "a piece"},
        {"first_piece", is_known ? "$tried" : "A piece"},
        {"size", is_known ? "$tried" : "unknown size"},
        {"colon_size", is_known ? ": $tried" : ""},
        {"wanted", is_known ? "$tried in one piece" : "what was asked for"},
        {"victim", is_worker ? "a DataLoader worker" : "the process"},
        {"first_victim", is_worker ? "A DataLoader worker" : "The process"},
        {"killer", killer},
    };
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        vw__diagnosis_name_text(draft, words[i].name, vw__diagnosis_fill(draft, words[i].text));
}

void vw__text_judge_host(const vw__text_case *given)
{
    vw__diagnosis_draft *draft = given->draft;
    const vw__error_text_report *report = given->report;
    bool is_worker = report->kind == VW__ERROR_TEXT_HOST_WORKER;
    vw__error_text_kind kind = is_worker ? VW__ERROR_TEXT_HOST_KILLED : report->kind;
    size_t i = 0;
    while (kinds[i].kind != VW__ERROR_TEXT_NONE &&
           (kinds[i].kind != kind || (kinds[i].is_ambiguous && !report->is_ambiguous)))
        i++;
    bool has_size =
        kinds[i].kind == VW__ERROR_TEXT_NONE || kinds[i].kind == VW__ERROR_TEXT_HOST_PINNED;
    vw_confidence confidence =
        vw__text_confidence(given, is_worker ? VW_CONFIDENCE_MEDIUM : VW_CONFIDENCE_HIGH);
    name_words(given);
    vw__diagnosis_reason(draft, "%s", vw__diagnosis_fill(draft, kinds[i].reason));
    vw__diagnosis_conclude(draft, VW_VERDICT_HOST, confidence, "%s",
                           vw__diagnosis_fill(draft, kinds[i].sentence));
    vw__diagnosis_finding *finding =
        vw__diagnosis_add(draft, "host", has_size ? given->numbers.tried_bytes : VW_UNKNOWN, "%s",
                          vw__diagnosis_fill(draft, kinds[i].title));
    if (kinds[i].evidence != NULL)
        vw__diagnosis_evidence(finding, "%s", kinds[i].evidence);
    vw__diagnosis_advise(finding, kinds[i].advice, kinds[i].advice_count);
    kinds[i].advise_loader(finding);
    if (kinds[i].is_for_all)
        VW__DOCTOR_ADVISE(finding, for_all);
    if (kinds[i].last != NULL)
        vw__diagnosis_advise(finding, kinds[i].last, 1);
}
