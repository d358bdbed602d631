/* test_error_texts.c - real reports of running out of memory, and what people say is in them.
 *
 * VRAMWISE_CORPUS names a folder with oom_texts.jsonl: one text a line, with its kind and the
 * numbers it states in bytes. Every kind and every number must come out, and no number that nobody
 * stated; what is no report must not become one. */
#include "parse/error_text.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/cmocka_here.h"

/* The kinds that a kind of the corpus may be here. */
static const struct {
    const char *label;
    vw__error_text_kind kinds[8];
} families[] = {
    {"pytorch-cuda", {VW__ERROR_TEXT_TORCH_CUDA, VW__ERROR_TEXT_CUDA_ASYNC}},
    {"pytorch-hip", {VW__ERROR_TEXT_TORCH_HIP}},
    {"pytorch-mps", {VW__ERROR_TEXT_TORCH_MPS}},
    {"pytorch-xpu", {VW__ERROR_TEXT_TORCH_XPU}},
    {"cublas", {VW__ERROR_TEXT_CUBLAS}},
    {"cudnn", {VW__ERROR_TEXT_CUDNN}},
    {"nccl", {VW__ERROR_TEXT_NCCL}},
    {"cuda-raw", {VW__ERROR_TEXT_CUDA_RAW}},
    {"jax", {VW__ERROR_TEXT_JAX}},
    {"tensorflow", {VW__ERROR_TEXT_TENSORFLOW}},
    {"cupy", {VW__ERROR_TEXT_CUPY}},
    {"ggml", {VW__ERROR_TEXT_GGML}},
    {"vllm", {VW__ERROR_TEXT_VLLM}},
    {"other", {VW__ERROR_TEXT_OTHER_GPU, VW__ERROR_TEXT_TORCH_OTHER}},
    {"host",
     {VW__ERROR_TEXT_HOST_ALLOCATOR, VW__ERROR_TEXT_HOST_KILLED, VW__ERROR_TEXT_HOST_WORKER,
      VW__ERROR_TEXT_HOST_SHARED, VW__ERROR_TEXT_HOST_PINNED}},
    {"not-oom", {VW__ERROR_TEXT_NOT_OOM}},
};

static int failure_count;

__attribute__((format(printf, 2, 3))) static void complain(json_t *entry, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fprintf(stderr, "%s: ", json_string_value(json_object_get(entry, "id")));
    vfprintf(stderr, format, arguments);
    fprintf(stderr, "\n");
    va_end(arguments);
    failure_count++;
}

static void check_kind(json_t *entry, vw__error_text_kind kind)
{
    const char *label = json_string_value(json_object_get(entry, "kind"));
    for (size_t i = 0; i < sizeof families / sizeof *families; i++) {
        if (strcmp(families[i].label, label) != 0)
            continue;
        if (kind == VW__ERROR_TEXT_NONE) {
            if (strcmp(label, "not-oom") != 0)
                complain(entry, "no report was found, where there is one of kind %s", label);
            return;
        }
        for (size_t k = 0; k < 8; k++)
            if (families[i].kinds[k] == kind)
                return;
    }
    complain(entry, "is %s, found as: %s", label, vw__error_text_kind_name(kind));
}

/* A whole number, or one too large for the reader of JSON that became a real one. */
static bool stated(json_t *entry, const char *key, uint64_t *bytes)
{
    json_t *value = json_object_get(entry, key);
    if (value == NULL || json_is_null(value))
        return false;
    if (json_is_real(value))
        *bytes = json_real_value(value) < 18446744073709551615.0
                     ? (uint64_t)json_real_value(value)
                     : VW__MODEL_UNKNOWN_BYTES; /* 2^64: a limit that is none */
    else
        *bytes = (uint64_t)json_integer_value(value);
    return true;
}

static void check_number(json_t *entry, const char *key, uint64_t found)
{
    uint64_t expected = VW__MODEL_UNKNOWN_BYTES, tried, total;
    (void)stated(entry, key, &expected);
    if (strcmp(key, "reserved_bytes") == 0 && stated(entry, "tried_bytes", &tried) &&
        stated(entry, "pool_total_incl_request_bytes", &total))
        expected = total - tried; /* CuPy's pool */
    if (expected != found)
        complain(entry, "%s is %" PRIu64 ", found %" PRIu64, key, expected, found);
}

static void check_other_processes(json_t *entry, const vw__error_text_report *report)
{
    json_t *processes = json_object_get(entry, "other_process_bytes"), *value;
    uint64_t sum = 0;
    size_t index;
    json_array_foreach(processes, index, value) sum += (uint64_t)json_integer_value(value);
    if (report->other_process_count != json_array_size(processes))
        complain(entry, "%zu other processes, found %zu", json_array_size(processes),
                 report->other_process_count);
    if (report->other_process_count > 0 && report->other_process_bytes != sum)
        complain(entry, "other processes hold %" PRIu64 ", found %" PRIu64, sum,
                 report->other_process_bytes);
}

static void check_flags(json_t *entry, const vw__error_text_report *report)
{
    const char *severity = json_string_value(json_object_get(entry, "severity"));
    bool is_warning = severity != NULL && strcmp(severity, "warning") == 0;
    if (report->is_warning != is_warning)
        complain(entry, "a warning: %d, found %d", is_warning, report->is_warning);
    if (json_is_true(json_object_get(entry, "ambiguous")) && !report->is_ambiguous)
        complain(entry, "is ambiguous");
    if (report->excerpt[0] == '\0')
        complain(entry, "nothing is quoted");
}

static void check_entry(json_t *entry)
{
    json_t *text = json_object_get(entry, "text");
    vw__error_text_scan *scan;
    vw__error_text_summary summary;
    assert_int_equal(vw__error_text_scan_create(&scan), VW_OK);
    assert_int_equal(
        vw__error_text_scan_feed(scan, json_string_value(text), json_string_length(text)), VW_OK);
    assert_int_equal(vw__error_text_scan_finish(scan, &summary), VW_OK);
    vw__error_text_scan_destroy(scan);
    const vw__error_text_report *report = &summary.first;
    check_kind(entry, report->kind);
    if (report->kind == VW__ERROR_TEXT_NONE || report->kind == VW__ERROR_TEXT_NOT_OOM)
        return;
    check_number(entry, "tried_bytes", report->tried_bytes);
    check_number(entry, "total_bytes", report->total_bytes);
    check_number(entry, "free_bytes", report->free_bytes);
    check_number(entry, "allocated_bytes", report->allocated_bytes);
    check_number(entry, "reserved_bytes", report->reserved_bytes);
    check_number(entry, "unallocated_bytes", report->unallocated_bytes);
    check_number(entry, "process_bytes", report->process_bytes);
    check_number(entry, "allowed_bytes", report->allowed_bytes);
    check_number(entry, "private_pool_bytes", report->private_pool_bytes);
    check_number(entry, "mps_other_bytes", report->other_bytes);
    check_number(entry, "kv_available_bytes", report->available_bytes);
    check_number(entry,
                 json_object_get(entry, "desired_bytes") != NULL ? "desired_bytes"
                                                                 : "kv_needed_bytes",
                 report->needed_bytes);
    json_t *device = json_object_get(entry, "device");
    int expected = device != NULL ? (int)json_integer_value(device) : -1;
    if (report->device != expected)
        complain(entry, "device %d, found %d", expected, report->device);
    check_other_processes(entry, report);
    check_flags(entry, report);
}

static void every_text_is_understood(void **state)
{
    (void)state;
    char path[4096], *line = NULL;
    size_t line_bytes = 0, count = 0;
    const char *folder = getenv("VRAMWISE_CORPUS");
    if (folder == NULL || folder[0] == '\0')
        skip();
    snprintf(path, sizeof path, "%s/oom_texts.jsonl", folder);
    FILE *file = fopen(path, "rb");
    if (file == NULL) {
        print_message("%s is not there\n", path);
        skip();
    }
    for (ssize_t length; (length = getline(&line, &line_bytes, file)) > 0;) {
        json_error_t error;
        json_t *entry = json_loadb(line, (size_t)length, 0, &error);
        if (entry == NULL) /* a number beyond 2^63 */
            entry = json_loadb(line, (size_t)length, JSON_DECODE_INT_AS_REAL, &error);
        if (entry == NULL)
            fail_msg("%s: %s", path, error.text);
        check_entry(entry);
        json_decref(entry);
        count++;
    }
    free(line);
    fclose(file);
    assert_true(count > 0);
    print_message("%zu texts\n", count);
    if (failure_count != 0)
        fail_msg("%d things are wrong", failure_count);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_text_is_understood),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
