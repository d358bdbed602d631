/* text_kinds.c - programs and libraries whose messages the rule for numbers does not fit.
 *
 * Three ways out. Some messages say by themselves what they are: a fraction that was set, a request
 * beyond any card. Some have numbers of their own, and the same comparisons are made with those:
 * vLLM's cache, Apple's unified memory, CuPy's limit. For all others the verdict is unknown, and
 * what is worth something is to say whose memory it was, outside whose pool, and which two commands
 * would tell more. */
#include "doctor/text_parts.h"

#include <string.h>

#include "base/checked_math.h" /* vw__add_u64 */
#include "remedy/remedy.h"

/* No device has so much: a shape is wrong, whatever the card. */
#define BEYOND_ANY_CARD_BYTES (UINT64_C(16) << 40)
#define EXBIBYTE (UINT64_C(1) << 60)

typedef struct advice {
    const char *action, *cost, *how;
} advice;

/* The remedy of the table, for a module of torch. */
#define EMPTY_CACHE_OF(module)                                                                     \
    {                                                                                              \
        NULL, NULL, module                                                                         \
    }

static void add_advice(vw__diagnosis_finding *finding, const advice *items, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const vw__remedy_words words = {.module = items[i].how};
        if (items[i].action == NULL)
            vw__diagnosis_known_remedy(finding, VW__REMEDY_EMPTY_CACHE, &words,
                                       VW__DIAGNOSIS_SAVES_UNKNOWN, VW_BASIS_RULE);
        else
            vw__diagnosis_advice(finding, items[i].action, items[i].cost,
                                 strstr(items[i].how, "$variable") != NULL
                                     ? vw__diagnosis_fill(finding->draft, items[i].how)
                                     : items[i].how);
    }
}

/* ---- advice for each kind -------------------------------------------------------------------- */

static const advice for_library[] = {
    {"leave the library room: PyTorch has taken everything", "PyTorch has that much less",
     "torch.cuda.set_per_process_memory_fraction(0.95)"},
    {"let the library start first, while the card is empty", "one line at the start",
     "torch.ones(8, 8, device=\"cuda\") @ torch.ones(8, 8, device=\"cuda\")"},
    EMPTY_CACHE_OF("cuda"),
    {"make sure that it is memory: a wrong index can look the same", "one slow run",
     "CUDA_LAUNCH_BLOCKING=1 python train.py"},
};

static const advice for_nccl[] = {
    {"leave NCCL room: its buffers are outside PyTorch's pool", "PyTorch has that much less",
     "torch.cuda.set_per_process_memory_fraction(0.9)"},
    {"see what NCCL asked for", "a longer log", "export NCCL_DEBUG=INFO"},
    {"smaller buffers, fewer channels", "slower collectives",
     "export NCCL_BUFFSIZE=1048576 NCCL_MAX_NCHANNELS=8"},
    {"one card for each rank", "one line",
     "torch.cuda.set_device(int(os.environ[\"LOCAL_RANK\"]))"},
};

static const advice for_raw_cuda[] = {
    {"use a card that is free", "none, where there is one",
     "CUDA_VISIBLE_DEVICES=1 python train.py"},
    {"see what PyTorch holds, if it is in this process", "one line",
     "print(torch.cuda.memory_summary())"},
};

static const advice for_jax[] = {
    {"see who holds the memory", "two lines",
     "jax.profiler.save_device_memory_profile(\"memory.prof\")\npprof -top memory.prof"},
    {"JAX takes three quarters of the card in advance: let it take more, or only what it needs",
     "taking as needed can fragment",
     "export XLA_PYTHON_CLIENT_MEM_FRACTION=0.95\n"
     "# or, where others share the card:\n"
     "export XLA_PYTHON_CLIENT_PREALLOCATE=false"},
    {"let inputs be overwritten by outputs, recompute activations", "a change of the code",
     "jax.jit(step, donate_argnums=0)\njax.checkpoint(block)"},
    {"a smaller batch", "more steps", "batch_size //= 2"},
};

static const advice for_jax_tpu[] = {
    {"see who holds the memory", "two lines",
     "jax.profiler.save_device_memory_profile(\"memory.prof\")\npprof -top memory.prof"},
    {"let inputs be overwritten by outputs, recompute activations", "a change of the code",
     "jax.jit(step, donate_argnums=0)\njax.checkpoint(block)"},
    {"spread weights and optimizer state over the chips", "a change of the code",
     "jax.device_put(params, NamedSharding(mesh, PartitionSpec(\"data\")))"},
    {"a smaller batch", "more steps", "batch_size //= 2"},
};

static const advice for_tensorflow[] = {
    {"take memory as it is needed, not all at the start", "can fragment",
     "export TF_FORCE_GPU_ALLOW_GROWTH=true"},
    {"an allocator that joins free pieces", "none known",
     "export TF_GPU_ALLOCATOR=cuda_malloc_async"},
    {"a smaller batch", "more steps", "batch_size //= 2"},
};

static const advice for_cupy[] = {
    {"give the pool's idle blocks back", "the next arrays are slower",
     "cupy.get_default_memory_pool().free_all_blocks()"},
    {"see what the pool holds, and its limit", "one line",
     "pool = cupy.get_default_memory_pool()\n"
     "print(pool.used_bytes(), pool.total_bytes(), pool.get_limit())"},
    {"work in pieces", "a loop", "for part in numpy.array_split(data, 8): ..."},
};

static const advice for_ggml[] = {
    {"fewer layers on the GPU", "slower: the others run on the CPU", "llama-cli -ngl 20 ..."},
    {"a shorter context", "less is remembered", "llama-cli -c 4096 ..."},
    {"a smaller cache: eight bits", "a little accuracy",
     "llama-cli -fa on -ctk q8_0 -ctv q8_0 ..."},
    {"a smaller quantisation of the model", "accuracy", "Q4_K_M instead of Q8_0"},
};

static const advice for_ollama[] = {
    {"see which models are loaded, and unload others", "they load again when they are asked for",
     "ollama ps\nollama stop MODEL"},
    {"fewer layers on the GPU", "slower: the others run on the CPU",
     "/set parameter num_gpu 20\n# or in the Modelfile: PARAMETER num_gpu 20"},
    {"a shorter context", "less is remembered",
     "/set parameter num_ctx 4096\n# or for all models: export OLLAMA_CONTEXT_LENGTH=4096"},
    {"a smaller cache: eight bits", "a little accuracy",
     "export OLLAMA_FLASH_ATTENTION=1 OLLAMA_KV_CACHE_TYPE=q8_0\n# then restart: ollama serve"},
    {"one request and one model at a time", "others wait",
     "export OLLAMA_NUM_PARALLEL=1 OLLAMA_MAX_LOADED_MODELS=1"},
    {"a smaller quantisation of the model", "accuracy", "ollama run MODEL:8b-q4_K_M"},
};

static const advice for_vllm[] = {
    {"a shorter longest request", "longer ones are refused",
     "vllm serve MODEL --max-model-len 8192"},
    {"a larger share of the card for vLLM", "less for everything else on it",
     "vllm serve MODEL --gpu-memory-utilization 0.95"},
    {"a cache of eight bits", "a little accuracy", "vllm serve MODEL --kv-cache-dtype fp8"},
    {"no CUDA graphs, fewer requests at once", "slower",
     "vllm serve MODEL --enforce-eager --max-num-seqs 16"},
    {"more cards", "their price", "vllm serve MODEL --tensor-parallel-size 2"},
};

static const advice for_mps[] = {
    EMPTY_CACHE_OF("mps"),
    {"close other programs: the memory is the machine's own", "none", "top -o mem"},
    {"a smaller batch, or half precision", "more steps; fewer digits",
     "batch_size //= 2\nmodel.half()"},
    {"take the limit away, as the last resort", "the machine swaps, and may come to a halt",
     "export PYTORCH_MPS_HIGH_WATERMARK_RATIO=0.0"},
};

static const advice for_async[] = {
    {"PyTorch's own allocator, whose messages say more", "none known",
     "export $variable=backend:native"},
};

static const advice for_other_program[] = {
    {"a smaller batch, shorter or smaller inputs", "more steps", "batch_size=1"},
    {"a limit or share that the program takes in advance: look in its settings", "none",
     "CUDA_VISIBLE_DEVICES=1 ...  # or another card"},
};

static const advice for_xpu[] = {
    {"allow single allocations of more than 4 GiB, where the card refuses them",
     "some kernels are slower", "export UR_L0_ENABLE_RELAXED_ALLOCATION_LIMITS=1"},
};

#define ADVICE(table) table, sizeof table / sizeof *table

static bool is_on_tpu(const vw__text_case *given)
{
    return strcmp(vw__text_device_of(given)->name, "TPU") == 0;
}

/* Its own words around those of ggml. */
static bool is_ollama(const vw__text_case *given)
{
    return vw__text_has(given, "ollama") || vw__text_has(given, "llama runner process") ||
           vw__text_has(given, "llama server");
}

/* The first row that fits is taken. For kinds without a row PyTorch's own tools show most. */
static const struct {
    vw__error_text_kind kind;
    bool (*fits)(const vw__text_case *given); /* or NULL */
    const char *explanation;
    const advice *items;
    size_t count;
} explanations[] = {
    {VW__ERROR_TEXT_CUBLAS, NULL,
     "cuBLAS takes handles and workspaces from the card itself, outside PyTorch's pool: mostly "
     "PyTorch has taken the whole card before.",
     ADVICE(for_library)},
    {VW__ERROR_TEXT_CUDNN, NULL,
     "cuDNN takes handles and workspaces from the card itself, outside the framework's pool: "
     "mostly the framework has taken the whole card before.",
     ADVICE(for_library)},
    {VW__ERROR_TEXT_CUSOLVER, NULL,
     "cuSOLVER takes handles and workspaces from the card itself, outside PyTorch's pool: mostly "
     "PyTorch has taken the whole card before.",
     ADVICE(for_library)},
    {VW__ERROR_TEXT_NCCL, NULL,
     "NCCL's buffers, some MiB for each channel and peer, are outside PyTorch's pool: mostly "
     "PyTorch has taken the whole card before, or several ranks share it.",
     ADVICE(for_nccl)},
    {VW__ERROR_TEXT_CUDA_RAW, NULL,
     "The driver or runtime was out of memory in a call of its own: starting a context, loading "
     "kernels, or an allocation without a pool.",
     ADVICE(for_raw_cuda)},
    {VW__ERROR_TEXT_JAX, is_on_tpu,
     "XLA asks for what a whole compiled program needs at once, so one layer or batch too many "
     "fails before the first step.",
     ADVICE(for_jax_tpu)},
    {VW__ERROR_TEXT_JAX, NULL,
     "XLA asks for what a whole compiled program needs at once; JAX takes three quarters of the "
     "card in advance and cannot use the rest.",
     ADVICE(for_jax)},
    {VW__ERROR_TEXT_TENSORFLOW, NULL,
     "TensorFlow takes nearly the whole card at the start and divides it by itself, so nvidia-smi "
     "shows it full from then on.",
     ADVICE(for_tensorflow)},
    {VW__ERROR_TEXT_CUPY, NULL, "CuPy has a pool of its own, beside PyTorch's.", ADVICE(for_cupy)},
    {VW__ERROR_TEXT_GGML, is_ollama,
     "Weights, the cache for the context and a buffer for computing are each asked for in one "
     "piece.",
     ADVICE(for_ollama)},
    {VW__ERROR_TEXT_GGML, NULL,
     "Weights, the cache for the context and a buffer for computing are each asked for in one "
     "piece.",
     ADVICE(for_ggml)},
    {VW__ERROR_TEXT_VLLM, NULL,
     "vLLM takes a share of the card, loads the weights, measures one step, and what is left of "
     "the share is the cache: it must hold one request of the longest length.",
     ADVICE(for_vllm)},
    {VW__ERROR_TEXT_TORCH_MPS, NULL, "The memory is the machine's own, shared with every program.",
     ADVICE(for_mps)},
    {VW__ERROR_TEXT_CUDA_ASYNC, NULL,
     "cudaMallocAsync keeps its pool in the driver; its messages do not say what lies idle there.",
     ADVICE(for_async)},
    {VW__ERROR_TEXT_TORCH_XPU, NULL,
     "Many Intel GPUs refuse single allocations of more than 4 GiB, however much is free.",
     ADVICE(for_xpu)},
    {VW__ERROR_TEXT_OTHER_GPU, NULL, "The program has an allocator of its own.",
     ADVICE(for_other_program)},
};

static void add_explanation(const vw__text_case *given, vw__diagnosis_finding *finding)
{
    for (size_t i = 0; i < sizeof explanations / sizeof *explanations; i++) {
        if (explanations[i].kind != given->report->kind ||
            (explanations[i].fits != NULL && !explanations[i].fits(given)))
            continue;
        vw__diagnosis_evidence(finding, "%s", explanations[i].explanation);
        add_advice(finding, explanations[i].items, explanations[i].count);
        return;
    }
}

/* ---- unknown --------------------------------------------------------------------------------- */

static void add_known_numbers(const vw__text_case *given, vw__diagnosis_finding *finding)
{
    const vw_memory_numbers *said = &given->numbers;
    const struct {
        uint64_t size_bytes;
        const char *what;
    } known[] = {
        {said->tried_bytes, "asked for"},   {said->total_bytes, "on the card"},
        {said->free_bytes, "free"},         {said->allocated_bytes, "in use"},
        {said->reserved_bytes, "reserved"}, {said->allowed_bytes, "allowed"},
    };
    const char *text = "";
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (vw__doctor_knows(known[i].size_bytes))
            text = vw__diagnosis_text(given->draft, "%s%s%s %s", text, text[0] != '\0' ? ", " : "",
                                      VW__DOCTOR_SIZE(known[i].size_bytes), known[i].what);
    if (text[0] != '\0')
        vw__diagnosis_evidence(finding, "Known: %s.", text);
}

static void explain_oversubscribed(const vw__text_case *given)
{
    const vw_memory_numbers *said = &given->numbers;
    uint64_t held =
        vw__doctor_knows(said->reserved_bytes) && said->reserved_bytes > said->total_bytes
            ? said->reserved_bytes
            : said->allocated_bytes;
    vw__diagnosis_finding *finding = vw__diagnosis_add(
        given->draft, "unknown", held - said->total_bytes,
        "PyTorch holds %s more than the card has.", VW__DOCTOR_SIZE(held - said->total_bytes));
    add_known_numbers(given, finding);
    vw__diagnosis_evidence(finding,
                           "With more held than the card has, every step already waits for "
                           "the host's memory: it has to need less, whatever the verdict.");
    vw__diagnosis_advice(finding, "let the driver refuse instead of moving memory to the host",
                         "it fails sooner, and says why",
                         "# NVIDIA Control Panel, CUDA - Sysmem Fallback Policy:\n"
                         "Prefer No Sysmem Fallback");
    vw__text_add_diet(given, finding);
}

void vw__text_explain_unknown(const vw__text_case *given)
{
    vw__error_text_kind kind = given->report->kind;
    if (given->judged.is_oversubscribed) {
        explain_oversubscribed(given);
        return;
    }
    uint64_t tried = given->numbers.tried_bytes;
    vw__diagnosis_finding *finding =
        vw__doctor_knows(tried)
            ? vw__diagnosis_add(
                  given->draft, "unknown", tried,
                  "The message does not say why %s could not be had; these would tell.",
                  VW__DOCTOR_SIZE(tried))
            : vw__diagnosis_add(given->draft, "unknown", VW_UNKNOWN,
                                "The message does not say enough; these would tell.");
    add_known_numbers(given, finding);
    bool has_recordings = vw__text_is_torch(kind) && kind != VW__ERROR_TEXT_TORCH_MPS &&
                          kind != VW__ERROR_TEXT_CUDA_ASYNC;
    bool has_own_tool = kind == VW__ERROR_TEXT_JAX || kind == VW__ERROR_TEXT_CUPY;
    if (!has_own_tool)
        vw__text_add_process_list(given, finding);
    if (has_recordings)
        vw__text_add_recording(given, finding);
    else if (vw__text_is_of_library(given))
        vw__diagnosis_advice(finding, "see what PyTorch holds at that moment",
                             "one line, in the process, where it fails",
                             "print(torch.cuda.memory_summary())");
    add_explanation(given, finding);
    if (has_own_tool)
        vw__text_add_process_list(given, finding);
}

/* ---- messages that say it themselves --------------------------------------------------------- */

bool vw__text_judge_beyond_any_card(const vw__text_case *given)
{
    uint64_t tried = given->numbers.tried_bytes;
    bool is_said = vw__text_has(given, "more than 1EB");
    if (!is_said && (!vw__doctor_knows(tried) || tried < BEYOND_ANY_CARD_BYTES))
        return false;
    const char *size = is_said || tried >= EXBIBYTE ? "more than an exbibyte"
                                                    : vw__diagnosis_size(given->draft, tried);
    vw__diagnosis_reason(
        given->draft,
        "One request for %s: an absurd size, which no device has, whatever card this is.", size);
    vw__diagnosis_conclude(
        given->draft, VW_VERDICT_TOO_LARGE, VW_CONFIDENCE_HIGH,
        "Too large: one request for %s, more than any device has: a shape is wrong.", size);
    vw__diagnosis_finding *finding =
        vw__diagnosis_add(given->draft, "too-large", VW_UNKNOWN,
                          "A tensor of an absurd size is asked for: %s.", size);
    vw__diagnosis_evidence(
        finding, "Negative or unfilled sizes look like this: they are read as huge numbers.");
    vw__diagnosis_advice(finding, "check the shapes that go into the line that failed", "none",
                         "print(x.shape, x.dtype)  # before the line that failed");
    return true;
}

static bool judge_said_limit(const vw__text_case *given)
{
    bool is_fraction = vw__text_has(given, "per_process_memory_fraction");
    if (!given->report->says_capped && !vw__text_has(given, "maximum pool size exceeded"))
        return false;
    bool has_size = vw__doctor_knows(given->numbers.tried_bytes);
    const char *limit =
        is_fraction ? "the share of the card that PyTorch may use (per_process_memory_fraction)"
                    : "the limit set for its pool";
    vw__diagnosis_reason(given->draft,
                         "The message says so itself: the limit refused, not the card.");
    vw__diagnosis_conclude(
        given->draft, VW_VERDICT_CAPPED, vw__text_confidence(given, VW_CONFIDENCE_HIGH),
        "Capped: %s would have gone beyond %s.",
        has_size ? VW__DOCTOR_SIZE(given->numbers.tried_bytes) : "the request", limit);
    vw__diagnosis_finding *finding = vw__diagnosis_add(given->draft, "capped", VW_UNKNOWN,
                                                       "A limit was set, and it was reached.");
    const vw__remedy *raise = vw__remedy_of(VW__REMEDY_RAISE_LIMIT);
    if (is_fraction)
        vw__diagnosis_known_remedy(finding, VW__REMEDY_RAISE_LIMIT, NULL,
                                   VW__DIAGNOSIS_SAVES_UNKNOWN, VW_BASIS_RULE);
    else
        vw__diagnosis_advice(finding, raise->action, raise->cost,
                             "# with RMM:\n"
                             "rmm.reinitialize(pool_allocator=True, maximum_pool_size=None)");
    if (is_fraction)
        vw__text_add_smaller_batch(given, finding);
    return true;
}

/* ---- messages with numbers of their own ------------------------------------------------------ */

static bool judge_vllm_cache(const vw__text_case *given)
{
    uint64_t needed = given->report->needed_bytes, available = given->report->available_bytes;
    if (given->report->kind != VW__ERROR_TEXT_VLLM || !VW__DOCTOR_KNOWS_ALL(needed, available) ||
        needed <= available)
        return false;
    const char *needed_text = vw__diagnosis_size(given->draft, needed);
    const char *available_text = vw__diagnosis_size(given->draft, available);
    const char *missing_text = vw__diagnosis_size(given->draft, needed - available);
    vw__diagnosis_reason(given->draft,
                         "The cache for one request of the longest length needs %s, and %s are "
                         "left of vLLM's share of the card: %s too little.",
                         needed_text, available_text, missing_text);
    vw__diagnosis_conclude(
        given->draft, VW_VERDICT_GENUINE, vw__text_confidence(given, VW_CONFIDENCE_MEDIUM),
        "Genuine: vLLM's cache needs %s for one request of full length, and %s are left for it.",
        needed_text, available_text);
    vw__diagnosis_finding *finding =
        vw__diagnosis_add(given->draft, "genuine", needed - available,
                          "vLLM's cache lacks %s for the longest request.", missing_text);
    vw__diagnosis_evidence(
        finding, "The cache grows evenly with the length: %s of the longest length would fit.",
        vw__diagnosis_share(given->draft, (double)available / (double)needed));
    vw__diagnosis_remedy(finding, "a shorter longest request",
                         vw__diagnosis_saves(needed - available), VW_BASIS_COMPUTED,
                         "longer ones are refused",
                         vw__diagnosis_text(given->draft,
                                            "# at most %.0f %% of what it is:\n"
                                            "vllm serve MODEL --max-model-len N",
                                            100.0 * (double)available / (double)needed - 0.5));
    vw__diagnosis_enough(finding, VW_ENOUGH_YES); /* the cache grows evenly with the length */
    vw__diagnosis_remedy(finding, "a cache of eight bits", vw__diagnosis_saves(needed / 2),
                         VW_BASIS_COMPUTED, "a little accuracy",
                         "vllm serve MODEL --kv-cache-dtype fp8");
    vw__diagnosis_enough(finding, vw__remedy_enough(VW_BASIS_COMPUTED,
                                                    (vw__remedy_range){needed / 2, needed / 2},
                                                    needed - available));
    add_advice(finding, for_vllm + 1, 1);
    add_advice(finding, for_vllm + 3, 2);
    return true;
}

/* Before it loads anything, vLLM wants its share of the card free: whatever is not is another's. */
static bool judge_vllm_start(const vw__text_case *given)
{
    uint64_t total = given->numbers.total_bytes, free_bytes = given->numbers.free_bytes;
    if (given->report->kind != VW__ERROR_TEXT_VLLM ||
        vw__doctor_knows(given->numbers.tried_bytes) || !VW__DOCTOR_KNOWS_ALL(total, free_bytes) ||
        free_bytes >= total)
        return false;
    uint64_t held = total - free_bytes;
    bool is_outside =
        held > VW__NUMBERS_CONTEXT_BYTES && held - VW__NUMBERS_CONTEXT_BYTES >= total / 5;
    const char *held_text = vw__diagnosis_size(given->draft, held),
               *total_text = vw__diagnosis_size(given->draft, total);
    vw__diagnosis_reason(given->draft,
                         "At the start %s of the card's %s are free, less than the share that vLLM "
                         "is to have; others hold %s, %s.",
                         VW__DOCTOR_SIZE(free_bytes), total_text, held_text,
                         is_outside ? "a fifth of the card and more beyond what a context takes"
                                    : "which is not much: the share may simply be too large");
    vw__diagnosis_conclude(
        given->draft, is_outside ? VW_VERDICT_OUTSIDE : VW_VERDICT_UNKNOWN,
        vw__text_confidence(given, is_outside ? VW_CONFIDENCE_MEDIUM : VW_CONFIDENCE_LOW),
        "%s: before vLLM loads anything, others hold %s of the card's %s, and what is free is less "
        "than the share it wants.",
        is_outside ? "Outside" : "Unknown", held_text, total_text);
    vw__diagnosis_finding *finding =
        vw__diagnosis_add(given->draft, is_outside ? "outside" : "unknown", held,
                          "%s are held by others at the start.", held_text);
    vw__text_add_process_list(given, finding);
    vw__diagnosis_remedy(
        finding, "a share that is free", VW__DIAGNOSIS_SAVES_UNKNOWN, VW_BASIS_COMPUTED,
        "a smaller cache: shorter or fewer requests",
        vw__diagnosis_text(given->draft, "vllm serve MODEL --gpu-memory-utilization %.2f",
                           (double)(int)(100.0 * (double)free_bytes / (double)total) / 100.0));
    vw__diagnosis_remedy(finding, "end what is left over of earlier runs",
                         vw__diagnosis_saves(held), VW_BASIS_MEASURED, "that work is lost",
                         "kill PID  # from the list");
    return true;
}

/* Unified memory: what is allowed takes the place of the card. What PyTorch calls its own includes
 * what it keeps idle, and "other" includes what Metal keeps for it, so a verdict is not sure. */
static bool judge_mps(vw__text_case *given)
{
    const vw__error_text_report *report = given->report;
    const vw_memory_numbers *said = &given->numbers;
    uint64_t other = report->other_bytes;
    if (report->kind != VW__ERROR_TEXT_TORCH_MPS ||
        !VW__DOCTOR_KNOWS_ALL(said->tried_bytes, said->allocated_bytes, said->allowed_bytes, other))
        return false;
    vw_memory_numbers moved = *said;
    uint64_t held;
    if (!vw__add_u64(said->allocated_bytes, other, &held) || !vw__doctor_knows(held))
        return false;
    moved.total_bytes = said->allowed_bytes;
    moved.allowed_bytes = VW_UNKNOWN;
    moved.free_bytes = said->allowed_bytes > held ? said->allowed_bytes - held : 0;
    moved.reserved_bytes = said->allocated_bytes;
    vw__numbers_verdict judged = vw__numbers_judge_printed(&moved, NULL);
    bool is_outside = judged.verdict == VW_VERDICT_OUTSIDE;
    if (!is_outside && judged.verdict != VW_VERDICT_GENUINE &&
        judged.verdict != VW_VERDICT_TOO_LARGE)
        return false;

    const char *tried = vw__diagnosis_size(given->draft, said->tried_bytes);
    const char *own = vw__diagnosis_size(given->draft, said->allocated_bytes);
    const char *others = vw__diagnosis_size(given->draft, other);
    const char *allowed = vw__diagnosis_size(given->draft, said->allowed_bytes);
    vw__diagnosis_reason(given->draft,
                         "PyTorch $in_use + other allocations %s + request $tried, and $allowed "
                         "are allowed of the machine's memory.",
                         others);
    if (is_outside)
        vw__diagnosis_reason(
            given->draft, "The others hold more than the request, and a fifth of what is allowed.");
    if (judged.verdict == VW_VERDICT_TOO_LARGE)
        vw__diagnosis_conclude(
            given->draft, VW_VERDICT_TOO_LARGE, vw__text_confidence(given, judged.confidence),
            "Too large: one request of $tried, where $allowed are allowed in all.");
    else
        vw__diagnosis_conclude(
            given->draft, judged.verdict,
            vw__text_confidence(given, is_outside ? VW_CONFIDENCE_LOW : VW_CONFIDENCE_MEDIUM),
            is_outside ? "Outside: of the %s allowed, %s are held by others than PyTorch's "
                         "tensors; those have %s, and %s more were asked for."
                       : "Genuine: of the %s allowed, others hold %s and PyTorch's tensors %s, and "
                         "%s more were asked for.",
            allowed, others, own, tried);
    given->judged = judged;
    vw__diagnosis_finding *finding = vw__diagnosis_add(
        given->draft, vw_verdict_name(judged.verdict), held,
        "$allowed of the machine's memory may be used, and %s are.", VW__DOCTOR_SIZE(held));
    vw_part parts[] = {{"PyTorch", said->allocated_bytes},
                       {"other allocations of this process", other}};
    vw__text_add_parts(finding, parts, sizeof parts / sizeof *parts);
    add_explanation(given, finding);
    return true;
}

static bool judge_cupy_limit(const vw__text_case *given)
{
    const vw_memory_numbers *said = &given->numbers;
    if (given->report->kind != VW__ERROR_TEXT_CUPY ||
        !VW__DOCTOR_KNOWS_ALL(said->allowed_bytes, said->tried_bytes) ||
        said->tried_bytes > said->allowed_bytes || !vw__doctor_knows(said->allocated_bytes) ||
        said->allocated_bytes <= said->allowed_bytes - said->tried_bytes)
        return false;
    vw__diagnosis_reason(
        given->draft,
        "CuPy's pool has $in_use, and $tried more would be beyond its limit of $allowed.");
    vw__diagnosis_conclude(given->draft, VW_VERDICT_CAPPED,
                           vw__text_confidence(given, VW_CONFIDENCE_HIGH),
                           "Capped: CuPy's pool, at $in_use of the $allowed it is allowed, was "
                           "asked for $tried more.");
    vw__diagnosis_finding *finding =
        vw__diagnosis_add(given->draft, "capped", VW_UNKNOWN, "CuPy's pool has a limit.");
    vw__diagnosis_advice(finding, "raise the limit", "others on the card have less",
                         "cupy.get_default_memory_pool().set_limit(size=0)  # none\n"
                         "env | grep CUPY_GPU_MEMORY_LIMIT");
    add_explanation(given, finding);
    return true;
}

/* cudaMallocAsync has nothing reserved to compare: PyTorch holds what is in use against the limit,
 * and the driver joins what is idle. */
static bool judge_async_limit(const vw__text_case *given)
{
    const vw_memory_numbers *said = &given->numbers;
    if (given->report->kind != VW__ERROR_TEXT_CUDA_ASYNC ||
        !VW__DOCTOR_KNOWS_ALL(said->allowed_bytes, said->tried_bytes) ||
        said->tried_bytes > said->allowed_bytes || !vw__doctor_knows(said->allocated_bytes) ||
        vw__doctor_knows(said->reserved_bytes) ||
        said->allocated_bytes <= said->allowed_bytes - said->tried_bytes ||
        !vw__doctor_knows(said->free_bytes) || said->free_bytes < said->tried_bytes ||
        !vw__doctor_knows(said->total_bytes) || said->free_bytes > said->total_bytes ||
        said->allocated_bytes > said->total_bytes)
        return false;
    vw__diagnosis_reason(given->draft,
                         "The limit: in use $in_use + request $tried, and $allowed are allowed: "
                         "over it, while the card itself had $free free.");
    vw__diagnosis_conclude(given->draft, VW_VERDICT_CAPPED,
                           vw__text_confidence(given, VW_CONFIDENCE_HIGH),
                           "Capped: PyTorch uses $in_use of the $allowed it is allowed and asked "
                           "for $tried more, while the card had $free free.");
    vw__text_add_findings(given, VW_VERDICT_CAPPED);
    return true;
}

bool vw__text_judge_by_kind(vw__text_case *given)
{
    return judge_said_limit(given) || judge_vllm_cache(given) || judge_vllm_start(given) ||
           judge_mps(given) || judge_cupy_limit(given) || judge_async_limit(given);
}
