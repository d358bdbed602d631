/* test_doctor_text_kinds.c - messages of other programs and libraries, of the host, and errors that
 * are not about memory. */
#include "support/diagnosed_text.h"

#include <stdio.h>

/* ---- other programs and libraries ------------------------------------------------------------ */

static void without_numbers_every_kind_explains_itself_and_names_what_would_tell(void **state)
{
    (void)state;
    static const struct {
        vw__error_kind kind;
        const char *how, *other_how;
    } cases[] = {
        {VW__ERROR_TORCH_CUDA, "nvidia-smi", "vramwise run"},
        {VW__ERROR_TORCH_HIP, "rocm-smi", "vramwise run"},
        {VW__ERROR_TORCH_XPU, "xpu-smi", "UR_L0_ENABLE_RELAXED_ALLOCATION_LIMITS"},
        {VW__ERROR_TORCH_MPS, "top -o mem", "PYTORCH_MPS_HIGH_WATERMARK_RATIO"},
        {VW__ERROR_TORCH_OTHER, "collect_env", "torch.accelerator.memory_stats()"},
        {VW__ERROR_CUDA_ASYNC, "nvidia-smi", "backend:native"},
        {VW__ERROR_CUBLAS, "memory_summary()", "set_per_process_memory_fraction"},
        {VW__ERROR_CUDNN, "memory_summary()", "set_per_process_memory_fraction"},
        {VW__ERROR_CUSOLVER, "memory_summary()", "set_per_process_memory_fraction"},
        {VW__ERROR_NCCL, "memory_summary()", "NCCL_BUFFSIZE"},
        {VW__ERROR_CUDA_RAW, "nvidia-smi", "memory_summary()"},
        {VW__ERROR_JAX, "save_device_memory_profile", "XLA_PYTHON_CLIENT_MEM_FRACTION"},
        {VW__ERROR_TENSORFLOW, "nvidia-smi", "TF_FORCE_GPU_ALLOW_GROWTH"},
        {VW__ERROR_CUPY, "free_all_blocks", "get_limit"},
        {VW__ERROR_GGML, "-ngl", "-c 4096"},
        {VW__ERROR_VLLM, "--max-model-len", "--gpu-memory-utilization"},
        {VW__ERROR_OTHER_GPU, "nvidia-smi", "batch_size=1"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        vw__error_summary summary = summary_of(cases[i].kind);
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
    vw__error_summary summary = summary_of(VW__ERROR_VLLM);
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

static void vllm_that_finds_its_share_taken_says_how_much_is_free(void **state)
{
    (void)state;
    vw__error_summary summary = summary_of(VW__ERROR_VLLM);
    summary.first.total_bytes = gib(24);
    summary.first.free_bytes = gib(21);
    vw_diagnosis *got = diagnose(&summary);
    assert_int_equal(got->verdict, VW_VERDICT_UNKNOWN);
    assert_non_null(remedy_with(&got->findings[0], "--gpu-memory-utilization 0.87"));
    vw_diagnosis_free(got);

    summary.first.free_bytes = gib(6);
    got = diagnose(&summary);
    assert_int_equal(got->verdict, VW_VERDICT_OUTSIDE);
    assert_int_equal(got->findings[0].bytes, gib(18));
    vw_diagnosis_free(got);
}

static void apple_memory_is_judged_by_what_is_allowed(void **state)
{
    (void)state;
    vw__error_summary summary = summary_of(VW__ERROR_TORCH_MPS);
    summary.first.tried_bytes = gib(1);
    summary.first.allocated_bytes = gib(17.5);
    summary.first.other_bytes = gib(0.25);
    summary.first.allowed_bytes = gib(18);
    vw_diagnosis *got = diagnose(&summary);
    assert_int_equal(got->verdict, VW_VERDICT_GENUINE);
    assert_non_null(remedy_with(&got->findings[0], "torch.mps.empty_cache()"));
    vw_diagnosis_free(got);

    summary.first.allocated_bytes = gib(5);
    summary.first.other_bytes = gib(12.75);
    got = diagnose(&summary);
    assert_int_equal(got->verdict, VW_VERDICT_OUTSIDE);
    assert_int_equal(got->confidence, VW_CONFIDENCE_LOW);
    vw_diagnosis_free(got);

    summary.first.other_bytes = gib(2); /* it would fit: the message contradicts itself */
    got = diagnose(&summary);
    assert_int_equal(got->verdict, VW_VERDICT_UNKNOWN);
    vw_diagnosis_free(got);
}

static void a_limit_that_the_message_names_is_capped(void **state)
{
    (void)state;
    vw__error_summary summary = summary_of(VW__ERROR_TORCH_CUDA);
    summary.first.says_capped = true;
    summary.first.tried_bytes = gib(3);
    (void)snprintf(summary.first.excerpt, sizeof summary.first.excerpt,
                   "Allocation was preemptively rejected because it would exceed "
                   "per_process_memory_fraction limit. Requested size: 3.00 GiB");
    vw_diagnosis *got = diagnose(&summary);
    assert_int_equal(got->verdict, VW_VERDICT_CAPPED);
    assert_non_null(remedy_with(&got->findings[0], "set_per_process_memory_fraction(1.0)"));
    vw_diagnosis_free(got);

    summary = summary_of(VW__ERROR_CUPY);
    summary.first.tried_bytes = gib(2);
    summary.first.allocated_bytes = gib(7);
    summary.first.allowed_bytes = gib(8);
    got = diagnose(&summary);
    assert_int_equal(got->verdict, VW_VERDICT_CAPPED);
    assert_non_null(remedy_with(&got->findings[0], "set_limit"));
    vw_diagnosis_free(got);
}

static void a_request_beyond_any_card_is_too_large_on_every_card(void **state)
{
    (void)state;
    vw__error_summary summary = summary_of(VW__ERROR_OTHER_GPU);
    summary.first.tried_bytes = UINT64_C(1) << 62;
    vw_diagnosis *got = diagnose(&summary);
    assert_int_equal(got->verdict, VW_VERDICT_TOO_LARGE);
    vw_diagnosis_free(got);

    summary.first.kind = VW__ERROR_HOST_ALLOCATOR; /* an arena that could be on either side */
    summary.first.is_ambiguous = true;
    got = diagnose(&summary);
    assert_int_equal(got->verdict, VW_VERDICT_TOO_LARGE);
    vw_diagnosis_free(got);

    summary = summary_of(VW__ERROR_TORCH_CUDA);
    (void)snprintf(summary.first.excerpt, sizeof summary.first.excerpt,
                   "CUDA out of memory. Tried to allocate more than 1EB memory.");
    got = diagnose(&summary);
    assert_int_equal(got->verdict, VW_VERDICT_TOO_LARGE);
    vw_diagnosis_free(got);
}

static void an_absurd_size_is_called_so_and_not_counted_out(void **state)
{
    (void)state;
    const uint64_t cards[] = {0, gib(80)};
    vw__error_summary summary =
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

static void a_limit_of_cuda_malloc_async_is_compared_with_what_is_in_use(void **state)
{
    (void)state;
    vw__error_summary summary = summary_of(VW__ERROR_CUDA_ASYNC);
    summary.first.tried_bytes = gib(1.27);
    summary.first.total_bytes = gib(24);
    summary.first.free_bytes = gib(12.3);
    summary.first.allocated_bytes = gib(9.84);
    summary.first.allowed_bytes = gib(10);
    vw_diagnosis *got = diagnose(&summary);
    assert_int_equal(got->verdict, VW_VERDICT_CAPPED);
    assert_int_equal(got->confidence, VW_CONFIDENCE_HIGH);
    assert_true(says(got, "in use 9.84 GiB + request 1.27 GiB, and 10.00 GiB are allowed: over"));
    assert_false(says(got, "how near it was is not said"));
    assert_non_null(remedy_with(&got->findings[0], "set_per_process_memory_fraction(0.4630)"));
    vw_diagnosis_free(got);
}

static void a_complete_message_of_apple_is_not_called_cut(void **state)
{
    (void)state;
    vw__error_summary summary = summary_of(VW__ERROR_TORCH_MPS);
    summary.first.tried_bytes = gib(1);
    summary.first.allocated_bytes = gib(8);
    summary.first.other_bytes = gib(0.5);
    summary.first.allowed_bytes = gib(9.07);
    summary.first.is_truncated = true; /* no card, nothing reserved: there never is */
    vw_diagnosis *got = diagnose(&summary);
    assert_int_equal(got->verdict, VW_VERDICT_GENUINE);
    assert_false(says(got, "breaks off"));
    assert_int_equal(got->findings[0].bytes, gib(8.5));
    vw_diagnosis_free(got);
}

static void other_makers_devices_get_their_own_names_and_tools(void **state)
{
    (void)state;
    static const struct {
        vw__error_kind kind;
        const char *excerpt, *name, *how;
    } cases[] = {
        {VW__ERROR_TORCH_OTHER, "RuntimeError: NPU out of memory.", "NPU", "npu-smi info"},
        {VW__ERROR_TORCH_OTHER, "RuntimeError: HPU out of memory.", "HPU", "hl-smi"},
        {VW__ERROR_JAX, "RESOURCE_EXHAUSTED: XLA:TPU compile error. Ran out of memory", "TPU",
         "tpu-info"},
        {VW__ERROR_JAX, "RESOURCE_EXHAUSTED: no room for INPUT and OUTPUT", "GPU", "nvidia-smi"},
        {VW__ERROR_TORCH_HIP, "HIP out of memory.", "GPU", "rocm-smi"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        vw__error_summary summary = summary_of(cases[i].kind);
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
    vw__error_summary summary = torch_summary(gib(2), gib(29.5), gib(1.1), gib(26), gib(27));
    summary.first.kind = VW__ERROR_TORCH_OTHER;
    (void)snprintf(summary.first.excerpt, sizeof summary.first.excerpt, "NPU out of memory");
    vw_diagnosis *got = diagnose(&summary);
    for (size_t i = 0; i < got->findings[0].remedy_count; i++) {
        assert_null(strstr(got->findings[0].remedies[i].how, "cuda"));
        assert_null(strstr(got->findings[0].remedies[i].how, "CUDA"));
    }
    vw_diagnosis_free(got);
}

static void users_of_ollama_are_told_what_ollama_understands(void **state)
{
    (void)state;
    vw__error_summary summary = summary_of(VW__ERROR_GGML);
    (void)snprintf(summary.first.excerpt, sizeof summary.first.excerpt,
                   "llama runner process has terminated: CUDA error: out of memory");
    vw_diagnosis *got = diagnose(&summary);
    assert_non_null(remedy_with(&got->findings[0], "num_ctx"));
    assert_null(remedy_with(&got->findings[0], "llama-cli"));
    vw_diagnosis_free(got);

    (void)snprintf(summary.first.excerpt, sizeof summary.first.excerpt,
                   "ggml_backend_cuda_buffer_type_alloc_buffer: allocating 100 MiB failed");
    got = diagnose(&summary);
    assert_non_null(remedy_with(&got->findings[0], "llama-cli"));
    vw_diagnosis_free(got);
}

static void a_warning_is_not_called_a_failure(void **state)
{
    (void)state;
    vw__error_summary summary = summary_of(VW__ERROR_TENSORFLOW);
    summary.first.is_warning = true;
    summary.first.tried_bytes = gib(2);
    summary.report_count = 0;
    vw_diagnosis *got = diagnose(&summary);
    assert_int_equal(got->verdict, VW_VERDICT_UNKNOWN);
    assert_non_null(strstr(got->sentence, "a warning, not a failure"));
    assert_int_equal(got->error_count, 0);
    vw_diagnosis_free(got);
}

/* ---- host memory, other errors --------------------------------------------------------------- */

static void host_memory_says_which_and_what_to_type(void **state)
{
    (void)state;
    static const struct {
        vw__error_kind kind;
        const char *how;
        vw_confidence confidence;
    } cases[] = {
        {VW__ERROR_HOST_ALLOCATOR, "num_workers", VW_CONFIDENCE_HIGH},
        {VW__ERROR_HOST_KILLED, "dmesg", VW_CONFIDENCE_HIGH},
        {VW__ERROR_HOST_WORKER, "num_workers", VW_CONFIDENCE_MEDIUM},
        {VW__ERROR_HOST_SHARED, "--shm-size=8g", VW_CONFIDENCE_HIGH},
        {VW__ERROR_HOST_PINNED, "pin_memory=False", VW_CONFIDENCE_HIGH},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        vw__error_summary summary = summary_of(cases[i].kind);
        vw_diagnosis *got = diagnose(&summary);
        assert_int_equal(got->verdict, VW_VERDICT_HOST);
        assert_int_equal(got->confidence, cases[i].confidence);
        assert_string_equal(got->findings[0].kind, "host");
        assert_non_null(remedy_with(&got->findings[0], cases[i].how));
        vw_diagnosis_free(got);
    }
}

static void killed_alone_is_only_probably_memory(void **state)
{
    (void)state;
    vw__error_summary summary = summary_of(VW__ERROR_HOST_KILLED);
    summary.first.is_ambiguous = true;
    vw_diagnosis *got = diagnose(&summary);
    assert_int_equal(got->verdict, VW_VERDICT_HOST);
    assert_int_equal(got->confidence, VW_CONFIDENCE_LOW);
    assert_non_null(strstr(got->sentence, "probably"));
    vw_diagnosis_free(got);
}

static void another_error_is_called_what_it_is(void **state)
{
    (void)state;
    vw__error_summary summary = summary_of(VW__ERROR_NOT_OOM);
    (void)snprintf(summary.first.excerpt, sizeof summary.first.excerpt,
                   "CUDA error: an illegal memory access was encountered");
    vw_diagnosis *got = diagnose(&summary);
    assert_int_equal(got->verdict, VW_VERDICT_NOT_OOM);
    assert_non_null(strstr(got->sentence, "outside its memory"));
    assert_true(says(got, "an illegal memory access was encountered"));
    vw_diagnosis_free(got);

    summary.first.excerpt[0] = '\0';
    got = diagnose(&summary);
    assert_int_equal(got->verdict, VW_VERDICT_NOT_OOM);
    vw_diagnosis_free(got);
}

static void a_request_for_nothing_is_shown_as_said_and_judged_by_nobody(void **state)
{
    (void)state;
    vw__error_summary summary = summary_of(VW__ERROR_TENSORFLOW);
    summary.first.tried_bytes = 0;
    vw_diagnosis *got = diagnose(&summary);
    assert_int_equal(got->verdict, VW_VERDICT_UNKNOWN);
    assert_int_equal(got->numbers.tried_bytes, 0);
    vw_diagnosis_free(got);
}

static void an_empty_text_is_said_to_be_empty(void **state)
{
    (void)state;
    vw__error_summary summary = summary_of(VW__ERROR_NONE);
    summary.size_bytes = 0;
    vw_diagnosis *got = diagnose(&summary);
    assert_int_equal(got->verdict, VW_VERDICT_NOT_OOM);
    assert_non_null(strstr(got->sentence, "empty"));
    vw_diagnosis_free(got);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_numbers_every_kind_explains_itself_and_names_what_would_tell),
        cmocka_unit_test(a_cache_of_vllm_that_does_not_fit_is_genuine),
        cmocka_unit_test(vllm_that_finds_its_share_taken_says_how_much_is_free),
        cmocka_unit_test(apple_memory_is_judged_by_what_is_allowed),
        cmocka_unit_test(a_limit_that_the_message_names_is_capped),
        cmocka_unit_test(a_request_beyond_any_card_is_too_large_on_every_card),
        cmocka_unit_test(an_absurd_size_is_called_so_and_not_counted_out),
        cmocka_unit_test(a_limit_of_cuda_malloc_async_is_compared_with_what_is_in_use),
        cmocka_unit_test(a_complete_message_of_apple_is_not_called_cut),
        cmocka_unit_test(other_makers_devices_get_their_own_names_and_tools),
        cmocka_unit_test(users_of_ollama_are_told_what_ollama_understands),
        cmocka_unit_test(a_warning_is_not_called_a_failure),
        cmocka_unit_test(host_memory_says_which_and_what_to_type),
        cmocka_unit_test(killed_alone_is_only_probably_memory),
        cmocka_unit_test(another_error_is_called_what_it_is),
        cmocka_unit_test(a_request_for_nothing_is_shown_as_said_and_judged_by_nobody),
        cmocka_unit_test(an_empty_text_is_said_to_be_empty),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
