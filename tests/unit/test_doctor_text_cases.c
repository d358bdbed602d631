/* test_doctor_text_cases.c - errors in texts, of PyTorch, other programs and the host, and what the
 * doctor makes of each: one table. */
#include "support/diagnosed_text.h"

#include <stddef.h> /* offsetof */
#include <stdio.h>

/* ---- cases ----------------------------------------------------------------------------------- */

#define G(value) ((uint64_t)((value)*1073741824.0 + 0.5)) /* gib(), as a constant */
#define NO_NUMBERS                                                                                 \
    {                                                                                              \
        NONE, NONE, NONE, NONE, NONE                                                               \
    }
#define SET(field, bytes)                                                                          \
    {                                                                                              \
        offsetof(vw__error_text_report, field##_bytes), (bytes)                                    \
    }

enum { AMBIGUOUS = 1, CUT = 2, CAPPED = 4, EXPANDABLE = 8, A_WARNING = 16 }; /* as it says */

typedef struct text_case {
    const char *what;
    vw__error_text_kind kind;
    uint64_t sizes[5]; /* tried, total, free, allocated, reserved */
    vw_verdict verdict;
    struct {
        size_t offset; /* 0: no more */
        uint64_t bytes;
    } sets[3];
    unsigned says;
    const char *excerpt;
    uint64_t card_bytes;
    int confidence_or_any;  /* plus 1; 0: any */
    const char *sentence;   /* a part of it */
    const char *reason;     /* a part of one */
    const char *has[3];     /* in the code of the first finding's remedies */
    const char *lacks[2];   /* there */
    const char *beside;     /* another finding */
    uint64_t finding_bytes; /* of the first one; 0: any */
} text_case;

#define TORCH VW__ERROR_TEXT_TORCH_CUDA
#define SURE(confidence) (VW_CONFIDENCE_##confidence + 1)

static const text_case text_cases[] = {
    {"idle bytes, expandable segments off",
     TORCH,
     {700 * MIB, G(24), 100 * MIB, G(18), G(21)},
     VW_VERDICT_FRAGMENTATION,
     .has = {"expandable_segments:True"}},
    {"expandable segments are on",
     TORCH,
     {700 * MIB, G(24), 100 * MIB, G(18), G(21)},
     VW_VERDICT_FRAGMENTATION,
     .says = EXPANDABLE,
     .lacks = {"expandable_segments:True"}},
    {"AMD's variable",
     VW__ERROR_TEXT_TORCH_HIP,
     {700 * MIB, G(24), 100 * MIB, G(18), G(21)},
     VW_VERDICT_FRAGMENTATION,
     .has = {"PYTORCH_HIP_ALLOC_CONF=expandable"}},
    {"60 MiB idle: the cache is not worth emptying",
     TORCH,
     {20 * MIB, 512 * MIB, 10 * MIB, 400 * MIB, 460 * MIB},
     VW_VERDICT_FRAGMENTATION,
     .lacks = {"empty_cache()"}},
    {"65 MiB idle: it is",
     TORCH,
     {20 * MIB, 512 * MIB, 10 * MIB, 400 * MIB, 465 * MIB},
     VW_VERDICT_FRAGMENTATION,
     .has = {"empty_cache()"}},
    {"others hold enough, beside a genuine cause",
     TORCH,
     {100 * MIB, G(24), 50 * MIB, G(21.5), G(21.6)},
     VW_VERDICT_GENUINE,
     .beside = "outside"},
    {"what is free is not said",
     TORCH,
     {G(2), G(15.56), NONE, G(13.6), G(13.93)},
     VW_VERDICT_GENUINE,
     .sentence = "the card has 15.56 GiB, and how much of it was free is not said"},
    {"refused: what else can run out",
     TORCH,
     {G(1), G(24), G(20), G(2), G(2)},
     VW_VERDICT_REFUSED,
     .has = {"ulimit -v unlimited", "page file", "set_per_process_memory_fraction"}},
    {"refused at a limit, the likelier cause",
     TORCH,
     {512 * MIB, G(140), G(20), G(118), G(118.6)},
     VW_VERDICT_REFUSED,
     .sets = {SET(allowed, G(119))},
     .beside = "capped"},
    {"too large",
     TORCH,
     {G(60), G(24), G(20), G(1), G(1)},
     VW_VERDICT_TOO_LARGE,
     .has = {"x.shape", "x.chunk(16)"}},
    {"a message that breaks off",
     TORCH,
     {G(60), G(24), G(20), G(1), G(1)},
     VW_VERDICT_TOO_LARGE,
     .says = CUT,
     .confidence_or_any = SURE(MEDIUM)},
    {"free blocks of private pools",
     TORCH,
     {20 * MIB, G(48), MIB, G(47), G(47.1)},
     VW_VERDICT_STRANDED,
     .sets = {SET(private_pool, G(12))},
     .finding_bytes = G(12)},
    {"too few of them to be the cause",
     TORCH,
     {20 * MIB, G(48), MIB, G(47), G(47.1)},
     VW_VERDICT_GENUINE,
     .sets = {SET(private_pool, G(1))}},
    {"more held than the card has",
     TORCH,
     {G(1), G(8), 0, G(17), G(19)},
     VW_VERDICT_UNKNOWN,
     .sentence = "moved memory to the host",
     .has = {"Sysmem Fallback"}},

    {"served on a larger card",
     TORCH,
     {G(2), G(24), G(1), G(22), G(22)},
     VW_VERDICT_HEALTHY,
     .card_bytes = G(48),
     .sentence = "23.00 GiB to spare"},
    {"not on a card a little larger",
     TORCH,
     {G(2), G(24), G(1), G(22), G(22)},
     VW_VERDICT_GENUINE,
     .card_bytes = G(24.9)},
    {"capped",
     TORCH,
     {G(2), G(140), G(119.5), G(19.5), G(20)},
     VW_VERDICT_CAPPED,
     .sets = {SET(allowed, G(20))}},
    {"on a card as large as the limit",
     TORCH,
     {G(2), G(140), G(119.5), G(19.5), G(20)},
     VW_VERDICT_GENUINE,
     .sets = {SET(allowed, G(20))},
     .card_bytes = G(20)},
    {"on a card too small for what is in use",
     TORCH,
     {G(2), G(24), G(1), G(20), G(22)},
     VW_VERDICT_GENUINE,
     .card_bytes = G(16),
     .sentence = "20.00 GiB in use do not fit on a card of 16.00 GiB"},
    {"there idle memory is given back first",
     TORCH,
     {G(2), G(24), G(1), G(10), G(22)},
     VW_VERDICT_FRAGMENTATION,
     .card_bytes = G(16)},
    {"refused on a larger card, too",
     TORCH,
     {G(1), G(24), G(20), G(2), G(2)},
     VW_VERDICT_REFUSED,
     .card_bytes = G(48)},

    {"vLLM finds its share taken",
     VW__ERROR_TEXT_VLLM,
     {NONE, G(24), G(21), NONE, NONE},
     VW_VERDICT_UNKNOWN,
     .has = {"--gpu-memory-utilization 0.87"}},
    {"vLLM finds most of the card taken",
     VW__ERROR_TEXT_VLLM,
     {NONE, G(24), G(6), NONE, NONE},
     VW_VERDICT_OUTSIDE,
     .finding_bytes = G(18)},
    {"Apple's memory is in use",
     VW__ERROR_TEXT_TORCH_MPS,
     {G(1), NONE, NONE, G(17.5), NONE},
     VW_VERDICT_GENUINE,
     .sets = {SET(other, G(0.25)), SET(allowed, G(18))},
     .has = {"torch.mps.empty_cache()"}},
    {"others have Apple's memory",
     VW__ERROR_TEXT_TORCH_MPS,
     {G(1), NONE, NONE, G(5), NONE},
     VW_VERDICT_OUTSIDE,
     .sets = {SET(other, G(12.75)), SET(allowed, G(18))},
     .confidence_or_any = SURE(LOW)},
    {"Apple's message contradicts itself",
     VW__ERROR_TEXT_TORCH_MPS,
     {G(1), NONE, NONE, G(5), NONE},
     VW_VERDICT_UNKNOWN,
     .sets = {SET(other, G(2)), SET(allowed, G(18))}},
    {"a complete message of Apple's is not cut",
     VW__ERROR_TEXT_TORCH_MPS,
     {G(1), NONE, NONE, G(8), NONE},
     VW_VERDICT_GENUINE,
     .sets = {SET(other, G(0.5)), SET(allowed, G(9.07))},
     .says = CUT,
     .confidence_or_any = SURE(MEDIUM),
     .finding_bytes = G(8.5)},
    {"the message names a fraction",
     TORCH,
     {G(3), NONE, NONE, NONE, NONE},
     VW_VERDICT_CAPPED,
     .says = CAPPED,
     .excerpt = "would exceed per_process_memory_fraction limit. Requested size: 3.00 GiB",
     .has = {"set_per_process_memory_fraction(1.0)"}},
    {"CuPy's limit",
     VW__ERROR_TEXT_CUPY,
     {G(2), NONE, NONE, G(7), NONE},
     VW_VERDICT_CAPPED,
     .sets = {SET(allowed, G(8))},
     .has = {"set_limit"}},
    {"cudaMallocAsync's limit",
     VW__ERROR_TEXT_CUDA_ASYNC,
     {G(1.27), G(24), G(12.3), G(9.84), NONE},
     VW_VERDICT_CAPPED,
     .sets = {SET(allowed, G(10))},
     .confidence_or_any = SURE(HIGH),
     .reason = "in use 9.84 GiB + request 1.27 GiB, and 10.00 GiB are allowed: over",
     .has = {"set_per_process_memory_fraction(0.4630)"}},
    {"beyond any card",
     VW__ERROR_TEXT_OTHER_GPU,
     {UINT64_C(1) << 62, NONE, NONE, NONE, NONE},
     VW_VERDICT_TOO_LARGE,
     .says = 0},
    {"beyond any card or host",
     VW__ERROR_TEXT_HOST_ALLOCATOR,
     {UINT64_C(1) << 62, NONE, NONE, NONE, NONE},
     VW_VERDICT_TOO_LARGE,
     .says = AMBIGUOUS},
    {"PyTorch's words for it", TORCH, NO_NUMBERS, VW_VERDICT_TOO_LARGE,
     .excerpt = "CUDA out of memory. Tried to allocate more than 1EB memory."},
    {"users of Ollama hear what Ollama understands", VW__ERROR_TEXT_GGML, NO_NUMBERS,
     VW_VERDICT_UNKNOWN,
     .excerpt = "llama runner process has terminated: CUDA error: out of memory",
     .has = {"num_ctx"}, .lacks = {"llama-cli"}},
    {"users of llama.cpp do not", VW__ERROR_TEXT_GGML, NO_NUMBERS, VW_VERDICT_UNKNOWN,
     .excerpt = "ggml_backend_cuda_buffer_type_alloc_buffer: allocating 100 MiB failed",
     .has = {"llama-cli"}},
    {"a warning is not a failure",
     VW__ERROR_TEXT_TENSORFLOW,
     {G(2), NONE, NONE, NONE, NONE},
     VW_VERDICT_UNKNOWN,
     .says = A_WARNING,
     .sentence = "a warning, not a failure"},
    {"a request for nothing",
     VW__ERROR_TEXT_TENSORFLOW,
     {0, NONE, NONE, NONE, NONE},
     VW_VERDICT_UNKNOWN,
     .says = 0},
    {"killed, and nobody says why", VW__ERROR_TEXT_HOST_KILLED, NO_NUMBERS, VW_VERDICT_HOST,
     .says = AMBIGUOUS, .confidence_or_any = SURE(LOW), .sentence = "probably"},
    {"another error is called what it is", VW__ERROR_TEXT_NOT_OOM, NO_NUMBERS, VW_VERDICT_NOT_OOM,
     .excerpt = "CUDA error: an illegal memory access was encountered",
     .sentence = "outside its memory", .reason = "an illegal memory access was encountered"},
    {"another error without words", VW__ERROR_TEXT_NOT_OOM, NO_NUMBERS, VW_VERDICT_NOT_OOM,
     .says = 0},
    {"no error", VW__ERROR_TEXT_NONE, NO_NUMBERS, VW_VERDICT_NOT_OOM, .reason = "Looked for in"},
};

static vw__error_text_summary summary_of_case(const text_case *one)
{
    vw__error_text_summary made = summary_of(one->kind);
    vw__error_text_report *first = &made.first;
    uint64_t *const sizes[] = {&first->tried_bytes, &first->total_bytes, &first->free_bytes,
                               &first->allocated_bytes, &first->reserved_bytes};
    for (size_t i = 0; i < 5; i++)
        *sizes[i] = one->sizes[i];
    for (size_t i = 0; i < 3 && one->sets[i].offset != 0; i++)
        memcpy((char *)first + one->sets[i].offset, &one->sets[i].bytes, sizeof(uint64_t));
    first->is_ambiguous = (one->says & AMBIGUOUS) != 0;
    first->is_truncated = (one->says & CUT) != 0;
    first->says_capped = (one->says & CAPPED) != 0;
    first->says_expandable = (one->says & EXPANDABLE) != 0;
    first->is_warning = (one->says & A_WARNING) != 0;
    if (one->excerpt != NULL)
        (void)snprintf(first->excerpt, sizeof first->excerpt, "%s", one->excerpt);
    return made;
}

/* What is wrong with the diagnosis; NULL: nothing. */
static const char *fault_of(const text_case *one, const vw_diagnosis *got)
{
    if (got->verdict != one->verdict)
        return vw_verdict_name(got->verdict);
    if (one->confidence_or_any != 0 && (int)got->confidence + 1 != one->confidence_or_any)
        return vw_confidence_name(got->confidence);
    if (one->sentence != NULL && strstr(got->sentence, one->sentence) == NULL)
        return got->sentence;
    if (one->reason != NULL && !says(got, one->reason))
        return "the reason is missing";
    for (size_t i = 0; i < 3 && one->has[i] != NULL; i++)
        if (remedy_with(&got->findings[0], one->has[i]) == NULL)
            return one->has[i];
    for (size_t i = 0; i < 2 && one->lacks[i] != NULL; i++)
        if (remedy_with(&got->findings[0], one->lacks[i]) != NULL)
            return one->lacks[i];
    if (one->beside != NULL && finding_of(got, one->beside) == NULL)
        return one->beside;
    return one->finding_bytes != 0 && got->findings[0].bytes != one->finding_bytes
               ? "the bytes of the finding"
               : NULL;
}

static void every_case_has_its_verdict_and_its_remedies(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof text_cases / sizeof *text_cases; i++) {
        const text_case *one = &text_cases[i];
        vw__error_text_summary summary = summary_of_case(one);
        vw_diagnosis *got = diagnose_on(&summary, one->card_bytes);
        const char *fault = fault_of(one, got);
        if (fault != NULL)
            fail_msg("%s: %s", one->what, fault);
        vw_diagnosis_free(got);
    }
}

/* ---- other programs, devices and the host -----------------------------------------------------
 */

static void without_numbers_every_kind_explains_itself_and_names_what_would_tell(void **state)
{
    (void)state;
    static const struct {
        vw__error_text_kind kind;
        const char *how, *other_how;
    } cases[] = {
        {VW__ERROR_TEXT_TORCH_CUDA, "nvidia-smi", "vramwise run"},
        {VW__ERROR_TEXT_TORCH_HIP, "rocm-smi", "vramwise run"},
        {VW__ERROR_TEXT_TORCH_XPU, "xpu-smi", "UR_L0_ENABLE_RELAXED_ALLOCATION_LIMITS"},
        {VW__ERROR_TEXT_TORCH_MPS, "top -o mem", "PYTORCH_MPS_HIGH_WATERMARK_RATIO"},
        {VW__ERROR_TEXT_TORCH_OTHER, "collect_env", "torch.accelerator.memory_stats()"},
        {VW__ERROR_TEXT_CUDA_ASYNC, "nvidia-smi", "backend:native"},
        {VW__ERROR_TEXT_CUBLAS, "memory_summary()", "set_per_process_memory_fraction"},
        {VW__ERROR_TEXT_CUDNN, "memory_summary()", "set_per_process_memory_fraction"},
        {VW__ERROR_TEXT_CUSOLVER, "memory_summary()", "set_per_process_memory_fraction"},
        {VW__ERROR_TEXT_NCCL, "memory_summary()", "NCCL_BUFFSIZE"},
        {VW__ERROR_TEXT_CUDA_RAW, "nvidia-smi", "memory_summary()"},
        {VW__ERROR_TEXT_JAX, "save_device_memory_profile", "XLA_PYTHON_CLIENT_MEM_FRACTION"},
        {VW__ERROR_TEXT_TENSORFLOW, "nvidia-smi", "TF_FORCE_GPU_ALLOW_GROWTH"},
        {VW__ERROR_TEXT_CUPY, "free_all_blocks", "get_limit"},
        {VW__ERROR_TEXT_GGML, "-ngl", "-c 4096"},
        {VW__ERROR_TEXT_VLLM, "--max-model-len", "--gpu-memory-utilization"},
        {VW__ERROR_TEXT_OTHER_GPU, "nvidia-smi", "batch_size=1"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        vw__error_text_summary summary = summary_of(cases[i].kind);
        vw_diagnosis *got = diagnose(&summary);
        assert_int_equal(got->verdict, VW_VERDICT_UNKNOWN);
        assert_int_equal(got->finding_count, 1);
        assert_non_null(remedy_with(&got->findings[0], cases[i].how));
        assert_non_null(remedy_with(&got->findings[0], cases[i].other_how));
        vw_diagnosis_free(got);
    }
}

static void a_cache_of_vllm_that_does_not_fit_is_genuine(void **state)
{
    (void)state;
    vw__error_text_summary summary = summary_of(VW__ERROR_TEXT_VLLM);
    summary.first.needed_bytes = gib(16);
    summary.first.available_bytes = gib(4);
    vw_diagnosis *got = diagnose(&summary);
    assert_int_equal(got->verdict, VW_VERDICT_GENUINE);
    assert_string_equal(got->findings[0].remedies[0].action, "a shorter longest request");
    assert_int_equal(got->findings[0].remedies[0].saves_bytes, gib(12));
    assert_int_equal(got->findings[0].remedies[0].enough, VW_ENOUGH_YES);
    assert_int_equal(got->findings[0].remedies[1].enough, VW_ENOUGH_NO); /* half of 16 */
    assert_int_equal(got->numbers.free_bytes, NONE); /* the cache's room is not the card's */
    vw_diagnosis_free(got);
}

static void an_absurd_size_is_called_so_and_not_counted_out(void **state)
{
    (void)state;
    const uint64_t cards[] = {0, gib(80)};
    vw__error_text_summary summary =
        torch_summary(UINT64_C(1) << 63, gib(24), gib(22), gib(1), gib(1.1));
    for (size_t i = 0; i < 2; i++) {
        vw_diagnosis *got = diagnose_on(&summary, cards[i]);
        assert_int_equal(got->verdict, VW_VERDICT_TOO_LARGE);
        assert_non_null(strstr(got->sentence, "more than an exbibyte"));
        assert_true(says(got, "an absurd size"));
        assert_null(strstr(got->sentence, "8589934592"));
        assert_int_equal(got->findings[0].bytes, NONE);
        vw_diagnosis_free(got);
    }
    summary.first.tried_bytes = UINT64_C(20) << 40;
    vw_diagnosis *got = diagnose(&summary);
    assert_non_null(strstr(got->sentence, "20.00 TiB"));
    vw_diagnosis_free(got);
}

static void other_makers_devices_get_their_own_names_and_tools(void **state)
{
    (void)state;
    static const struct {
        vw__error_text_kind kind;
        const char *excerpt, *name, *how;
    } cases[] = {
        {VW__ERROR_TEXT_TORCH_OTHER, "RuntimeError: NPU out of memory.", "NPU", "npu-smi info"},
        {VW__ERROR_TEXT_TORCH_OTHER, "RuntimeError: HPU out of memory.", "HPU", "hl-smi"},
        {VW__ERROR_TEXT_JAX, "RESOURCE_EXHAUSTED: XLA:TPU compile error. Ran out of memory", "TPU",
         "tpu-info"},
        {VW__ERROR_TEXT_JAX, "RESOURCE_EXHAUSTED: no room for INPUT and OUTPUT", "GPU",
         "nvidia-smi"},
        {VW__ERROR_TEXT_TORCH_HIP, "HIP out of memory.", "GPU", "rocm-smi"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        vw__error_text_summary summary = summary_of(cases[i].kind);
        (void)snprintf(summary.first.excerpt, sizeof summary.first.excerpt, "%s", cases[i].excerpt);
        vw_diagnosis *got = diagnose(&summary);
        assert_int_equal(got->verdict, VW_VERDICT_UNKNOWN);
        assert_non_null(strstr(got->sentence, cases[i].name));
        assert_non_null(remedy_with(&got->findings[0], cases[i].how));
        bool is_nvidia = strcmp(cases[i].how, "nvidia-smi") == 0;
        assert_true(is_nvidia || remedy_with(&got->findings[0], "nvidia-smi") == NULL);
        assert_true(is_nvidia || remedy_with(&got->findings[0], "XLA_PYTHON_CLIENT") == NULL);
        vw_diagnosis_free(got);
    }
    vw__error_text_summary summary = torch_summary(gib(2), gib(29.5), gib(1.1), gib(26), gib(27));
    summary.first.kind = VW__ERROR_TEXT_TORCH_OTHER;
    (void)snprintf(summary.first.excerpt, sizeof summary.first.excerpt, "NPU out of memory");
    vw_diagnosis *got = diagnose(&summary);
    for (size_t i = 0; i < got->findings[0].remedy_count; i++) {
        assert_null(strstr(got->findings[0].remedies[i].how, "cuda"));
        assert_null(strstr(got->findings[0].remedies[i].how, "CUDA"));
    }
    vw_diagnosis_free(got);
}

static void host_memory_says_which_and_what_to_type(void **state)
{
    (void)state;
    static const struct {
        vw__error_text_kind kind;
        const char *how;
        vw_confidence confidence;
    } cases[] = {
        {VW__ERROR_TEXT_HOST_ALLOCATOR, "num_workers", VW_CONFIDENCE_HIGH},
        {VW__ERROR_TEXT_HOST_KILLED, "dmesg", VW_CONFIDENCE_HIGH},
        {VW__ERROR_TEXT_HOST_WORKER, "num_workers", VW_CONFIDENCE_MEDIUM},
        {VW__ERROR_TEXT_HOST_SHARED, "--shm-size=8g", VW_CONFIDENCE_HIGH},
        {VW__ERROR_TEXT_HOST_PINNED, "pin_memory=False", VW_CONFIDENCE_HIGH},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        vw__error_text_summary summary = summary_of(cases[i].kind);
        vw_diagnosis *got = diagnose(&summary);
        assert_int_equal(got->verdict, VW_VERDICT_HOST);
        assert_int_equal(got->confidence, cases[i].confidence);
        assert_string_equal(got->findings[0].kind, "host");
        assert_non_null(remedy_with(&got->findings[0], cases[i].how));
        vw_diagnosis_free(got);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_case_has_its_verdict_and_its_remedies),
        cmocka_unit_test(without_numbers_every_kind_explains_itself_and_names_what_would_tell),
        cmocka_unit_test(a_cache_of_vllm_that_does_not_fit_is_genuine),
        cmocka_unit_test(an_absurd_size_is_called_so_and_not_counted_out),
        cmocka_unit_test(other_makers_devices_get_their_own_names_and_tools),
        cmocka_unit_test(host_memory_says_which_and_what_to_type),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
