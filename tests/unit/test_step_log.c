/* test_step_log.c - which lines are steps with their memory, in which unit, and which are not. */
#include "parse/step_log.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/host_memory.h"
#include "support/cmocka_here.h"
#include "support/host_memory_sweep.h"

#define MIB (UINT64_C(1) << 20)
#define GIB (UINT64_C(1) << 30)

/* A scan and what it found. */
typedef struct reading {
    vw__step_log_scan *scan;
    vw__step_log log;
} reading;

static reading read_in_pieces(const char *text, size_t size, size_t piece_bytes)
{
    reading made;
    assert_int_equal(vw__step_log_scan_create(&made.scan), VW_OK);
    for (size_t at = 0; at < size; at += piece_bytes) {
        size_t rest = size - at;
        assert_int_equal(
            vw__step_log_scan_feed(made.scan, text + at, rest < piece_bytes ? rest : piece_bytes),
            VW_OK);
    }
    assert_int_equal(vw__step_log_scan_finish(made.scan, &made.log), VW_OK);
    return made;
}

static void end_reading(reading *made)
{
    vw__step_log_scan_destroy(made->scan);
}

/* Pieces that end anywhere must not matter. */
static reading read_text(const char *text)
{
    static const size_t piece_bytes[] = {1, 7, 64, 1000};
    size_t size = strlen(text);
    reading whole = read_in_pieces(text, size, size != 0 ? size : 1);
    for (size_t i = 0; i < sizeof piece_bytes / sizeof *piece_bytes; i++) {
        reading pieces = read_in_pieces(text, size, piece_bytes[i]);
        assert_int_equal(pieces.log.point_count, whole.log.point_count);
        assert_int_equal(pieces.log.line_count, whole.log.line_count);
        if (whole.log.point_count != 0)
            assert_memory_equal(pieces.log.points, whole.log.points,
                                whole.log.point_count * sizeof *whole.log.points);
        end_reading(&pieces);
    }
    return whole;
}

/* Lines made by a format with the step, a number that grows, and whatever else is fixed in it. */
static char *make_lines(const char *header, const char *format, double first, double growth)
{
    static char text[8192];
    size_t size = (size_t)snprintf(text, sizeof text, "%s", header);
    for (int i = 0; i < 5; i++)
        size +=
            (size_t)snprintf(text + size, sizeof text - size, format, 10 + i, first + growth * i);
    return text;
}

typedef struct expected {
    const char *header, *format; /* %d: the step, 10 to 14; %f: the memory */
    double first, growth;
    const char *form, *name;
    uint64_t unit_bytes; /* of first and growth */
    double reserved;     /* < 0: none */
} expected;

static void check(const expected *sample)
{
    reading made =
        read_text(make_lines(sample->header, sample->format, sample->first, sample->growth));
    const vw__step_log *log = &made.log;
    if (log->point_count != 5)
        fail_msg("%zu points in lines like %s", log->point_count, sample->format);
    assert_string_equal(log->form, sample->form);
    assert_string_equal(log->memory_name, sample->name);
    for (int i = 0; i < 5; i++) {
        double bytes = (sample->first + sample->growth * i) * (double)sample->unit_bytes;
        double step = strcmp(log->step_name, "line") == 0 ? i : 10 + i;
        if (log->points[i].step != step)
            fail_msg("step %g in place of %g in lines like %s", log->points[i].step, step,
                     sample->format);
        assert_int_equal(log->points[i].allocated_bytes, (uint64_t)(bytes + 0.5));
        if (sample->reserved < 0)
            assert_int_equal(log->points[i].reserved_bytes, VW__MODEL_UNKNOWN_BYTES);
        else
            assert_int_equal(log->points[i].reserved_bytes,
                             (uint64_t)(sample->reserved * (double)sample->unit_bytes + 0.5));
    }
    end_reading(&made);
}

static void check_all(const expected *samples, size_t count)
{
    for (size_t i = 0; i < count; i++)
        check(&samples[i]);
}

#define CHECK_ALL(samples) check_all(samples, sizeof(samples) / sizeof(samples)[0])

static void json_in_every_shape_is_read(void **state)
{
    (void)state;
    static const expected samples[] = {
        {"", "{\"step\": %d, \"allocated\": %.0f, \"reserved\": 4294967296, \"ms\": 1.5}\n",
         3446711910, 512, "JSON lines", "allocated", 1, 4294967296},
        {"",
         "{\"mode\": \"train\", \"epoch\": 1, \"iter\": %d, \"lr\": 0.001, \"memory\": %.0f, "
         "\"loss\": 1.2}\n",
         3287, 1, "JSON lines", "memory", MIB, -1},
        {"",
         "{\"global_step\": %d, \"step\": 3, \"memory\": {\"allocated_gb\": %.2f, "
         "\"reserved_gb\": 4.5}}\n",
         3.25, 0.25, "JSON lines", "memory/allocated", GIB, 4.5},
        {"", "INFO:root:{'loss': 0.4, 'epoch': 0.5, 'step': %d, 'memory/allocated (GiB)': %.2f}\n",
         3.25, 0.25, "JSON lines", "memory/allocated", GIB, -1},
        {"", "{\"iteration\": %d, \"gpu_mem\": \"%.2f GB\", \"ok\": true, \"x\": null}\n", 3.25,
         0.25, "JSON lines", "gpu_mem", GIB, -1},
        {"[", "{\"step\": %d, \"allocated\": %.0f}, ", 3446711910, 512, "JSON lines", "allocated",
         1, -1},
        {"[\n", "  {\n    \"step\": %d,\n    \"allocated\": %.0f,\n    \"ms\": null\n  },\n",
         3446711910, 512, "JSON lines", "allocated", 1, -1},
        {"{\"name\": \"run\", \"steps\": [", "{\"step\": %d, \"cuda_mem_mb\": %.1f}, ", 3287.5, 1,
         "JSON lines", "cuda_mem", MIB, -1},
    };
    CHECK_ALL(samples);
}

static void tables_with_a_header_are_read(void **state)
{
    (void)state;
    static const expected samples[] = {
        {"step,allocated_gb,loss\n", "%d,%.2f,0.4\n", 3.25, 0.25, "CSV", "allocated", GIB, -1},
        {"loss\titer\tmem_mib\treserved_mib\n", "0.4\t%d\t%.0f\t4096\n", 3287, 1, "CSV", "mem", MIB,
         4096},
        {"step;gpu_mem\r\n", "%d;%.0f\r\n", 3446711910, 512, "CSV", "gpu_mem", 1, -1},
        {"\"Step\",\"run - gpu_mem (GB)\"\n", "\"%d\",\"%.2f\"\n", 3.25, 0.25, "CSV", "gpu_mem",
         GIB, -1},
        {"| step | mem (GB) |\n|---|---|\n", "| %d | %.2f |\n", 3.25, 0.25, "CSV", "mem", GIB, -1},
        {"  step   memory_mb   loss\n", "   %d   %.1f   0.4\n", 3287.5, 1, "CSV", "memory", MIB,
         -1},
        {"timestamp, memory.used [MiB], memory.total [MiB]\n",
         "2024/05/01 12:00:%d.000, %.0f MiB, 24576 MiB\n", 3287, 1, "CSV", "memory.used", MIB, -1},
    };
    CHECK_ALL(samples);
}

static void lines_that_people_print_are_read(void **state)
{
    (void)state;
    static const expected samples[] = {
        {"", "step %d: %.2f GB\n", 3.21, 0.01, "text", "", GIB, -1},
        {"", "Step: %d, memory: %.0f MB\n", 3287, 1, "text", "memory", MIB, -1},
        {"", "iter %d/1000 loss 0.4 mem %.2fGB\n", 3.25, 0.25, "text", "mem", GIB, -1},
        {"",
         "[10/17 19:22:01 d2.utils.events]:  eta: 0:12:31  iter: %d  total_loss: 1.2  time: "
         "0.3512  data_time: 0.01  lr: 0.00025  max_mem: %.0fM\n",
         3287, 1, "text", "max_mem", MIB, -1},
        {"",
         "2023-05-01 12:00:00,123 - mmdet - INFO - Epoch [1][%d/7330]\tlr: 1.978e-03, eta: "
         "10:11:23, time: 0.417, memory: %.0f, loss_cls: 0.41, acc: 93.2\n",
         3287, 1, "text", "memory", MIB, -1},
        {"",
         "05/01 12:00:00 - mmengine - INFO - Epoch(train)  [1][  %d/7330]  lr: 1.0e-05  eta: 1 "
         "day, 2:11:23  time: 0.31  memory: %.0f  loss: 1.1\n",
         3287, 1, "text", "memory", MIB, -1},
        {"", "Epoch: [0]  [  %d/7330]  eta: 1:00:00  loss: 0.4 (0.5)  time: 0.2  max mem: %.0f\n",
         3287, 1, "text", "max mem", MIB, -1},
        {"",
         "Epoch 3:  50%%|\xe2\x96\x88\xe2\x96\x88   | %d/100 [00:10<00:10,  4.90it/s, v_num=0, "
         "loss=0.4, mem=%.2fG]\r",
         3.25, 0.25, "text", "mem", GIB, -1},
        {"",
         "\033[31mstep: %d  \033[32mloss:  8.1  \033[38;2;180;60;0mmemory: "
         "%.2fGiB(40.21%%)  \033[34mtps: 1,234  mfu: 12.3%%\033[39m\n",
         3.25, 0.25, "text", "memory", GIB, -1},
        {"",
         "[Rank 0] (after %d iterations) memory (MB) | allocated: %.1f | max allocated: 4000.1 "
         "| reserved: 5000.0 | max reserved: 5000.0\n",
         3287.5, 1, "text", "memory (MB) | allocated", MIB, 5000},
        {"", "iteration %d - %.2f GB allocated, 4.50 GB reserved\n", 3.25, 0.25, "text",
         "allocated", GIB, 4.5},
        {"", "step=%d torch.cuda.memory_allocated()=%.0f\n", 3446711910, 512, "text",
         "cuda.memory_allocated", 1, -1},
        {"", "step %d GPU memory [0]: %.2f GB of 24.00 GB\n", 3.25, 0.25, "text", "GPU memory", GIB,
         -1},
        {"", "epoch %d | GPU 0 | mem %.2f/24.00 GB | loss 0.3\n", 3.25, 0.25, "text", "mem", GIB,
         -1},
        {"", "step %d A100 fp16 gpt2 vram used %.2f GiB, peak 9.00 GiB, free 60.1 GiB\n", 3.25,
         0.25, "text", "vram used", GIB, -1},
        {"", "INFO:root:GPU memory allocated: %2$.2f GB\n", 3.25, 0.25, "text",
         "GPU memory allocated", GIB, -1},
        {"",
         "[INFO] [utils.py:824:see_memory_usage] %1$dx MA %2$.2f GB  Max_MA 4.2 GB  CA 5.1 GB  "
         "Max_CA 5 GB\n",
         3.25, 0.25, "text", "MA", GIB, 5.1},
    };
    CHECK_ALL(samples);
}

static void lines_without_step_memory_give_no_points(void **state)
{
    (void)state;
    static const char *const formats[] = {
        "step %d/1000 | train loss %.2f | lr 3e-4 | 123.4 ms | 37.8%% A100 MFU | 1234 tok/s\n",
        "model.safetensors:  10%%|#  | %2$.1fG/12.4G [00:%1$d<00:10, 120MB/s]\r",
        "     #### %2$.1f/22.4 GB 120.1 MB/s eta 0:00:%1$d\n",
        "step %d: %.1f GB free\n",
        "step %d: GPU memory: %.1f GB free\n",
        "step %d: saved checkpoint 3 (%.1f GB)\n",
        "step %d: checkpoint written, %.1f GB\n",
        "saved the model at step %d: %.1f GB\n",
        "step %d: read %.1f GB so far\n",
        "step %d loss 1.2 sent 3.2GB recv %.1fGB\n",
        "step %d: dataset %.1f GB\n",
        "step %d: GPU %.1f %%\n",
        "step %d: cpu %.1f %%, ram 40 %%\n",
        "step %d: disk free %.1f GB\n",
        "step %d gpu_mem_util: %.1f\n",
        "step %d memory_fraction: %.1f\n",
        "step %d 124M params, %.1fM tokens\n",
        "step %d: %.1f GB/s\n",
        "step %d memory grew by -%.1f GB\n",
        "2024-05-01 12:00:%d INFO starting a worker with %.0f GB\n",
        "step %d member %.1f remembered\n",
        "{\"step\": %d, \"loss\": %.1f, \"num_alloc_retries\": 3}\n",
        "step,time,loss\n%d,%.1f,0.4\n",
        "CUDA out of memory. Tried to allocate %d MiB. %.1f GiB memory in use by step 3.\n",
    };
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
        reading made = read_text(make_lines("", formats[i], 3.5, 0.5));
        if (made.log.point_count != 0)
            fail_msg("%zu points of \"%s\" in lines like %s", made.log.point_count,
                     made.log.memory_name, formats[i]);
        assert_string_equal(made.log.form, "");
        end_reading(&made);
    }
}

static void two_lines_are_not_a_log(void **state)
{
    (void)state;
    reading made = read_text("pass 1: mem 3.21 GB\npass 2: mem 3.22 GB\n");
    assert_int_equal(made.log.point_count, 0);
    end_reading(&made);
    made = read_text("step 1: 3.21 GB\nstep 2: 3.22 GB\nnothing\n");
    assert_int_equal(made.log.point_count, 0);
    assert_int_equal(made.log.line_count, 3);
    end_reading(&made);
    made = read_text("step 1: 3.21 GB\nstep 2: 3.22 GB\nstep 3: 3.23 GB");
    assert_int_equal(made.log.point_count, 3);
    assert_int_equal(made.log.line_count, 3);
    end_reading(&made);
    made = read_text("");
    assert_int_equal(made.log.point_count, 0);
    assert_int_equal(made.log.line_count, 0);
    end_reading(&made);
}

/* But one is, where it cannot be anything else and is all there is. */
static void a_line_that_is_nothing_but_a_step_and_its_memory_is_a_log(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "step 50: 3.21 GB",
        "\n  step 50: 3.21 GB\n\n",
        "step 50: mem 3.21 GB\nstep 60: mem 3.21 GB\n",
        "step 50: loss 0.4 mem 3.21 GB",
        "{\"step\": 50, \"allocated\": 3446711910}\n",
        "step,allocated_gb\n50,3.21\n",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        reading made = read_text(texts[i]);
        if (made.log.point_count == 0)
            fail_msg("no points in %s", texts[i]);
        assert_true(made.log.points[0].step == 50);
        assert_int_equal(made.log.points[0].allocated_bytes / MIB, 3287);
        end_reading(&made);
    }
}

static void units_and_names_of_every_kind_are_read(void **state)
{
    (void)state;
    static const expected samples[] = {
        {"", "step %d: %.0f KB\n", 3003000, 1000, "text", "", 1024, -1},
        {"", "step %d: %.0f bytes\n", 3e9, 1e6, "text", "", 1, -1},
        {"", "GPU Memory consumed at the end of step %d: %.0f\n", 3102, 10, "text", "GPU Memory",
         MIB, -1},
        {"", "%2$.0f MiB\n", 3102, 10, "text", "", MIB, -1},
        {"", "step %d: GPU RAM %.2f GB\n", 3.25, 0.25, "text", "GPU RAM", GIB, -1},
        {"", "[a.callbacks.on_step_end:125] [PID:1] GPU memory usage: %2$.3fGB (+0.6GB misc)\n",
         3.25, 0.25, "text", "GPU memory usage", GIB, -1},
        {"", "[train.py:31] step:%d mem:%.2fGB\n", 3.25, 0.25, "text", "mem", GIB, -1},
        {"", "epoch 001: 7 / 5 num_updates=%d, mem=%.2fGB\n", 3.25, 0.25, "text", "mem", GIB, -1},
    };
    CHECK_ALL(samples);
    reading made = read_text("step 1,300: 3,535,798,272 bytes\nstep 1,400: 3,535,798,273 bytes\n"
                             "step 1,500: 3,535,798,274 bytes\n");
    assert_int_equal(made.log.point_count, 3);
    assert_true(made.log.points[0].step == 1300);
    assert_int_equal(made.log.points[2].allocated_bytes, 3535798274);
    end_reading(&made);
}

static void host_memory_is_a_log_of_its_own(void **state)
{
    (void)state;
    reading made = read_text(make_lines("", "step %d: rss %.2f GB\n", 3.25, 0.25));
    assert_int_equal(made.log.point_count, 5);
    assert_true(made.log.is_host);
    assert_int_equal(made.log.other_count, 0);
    end_reading(&made);
    made = read_text(make_lines("", "step %d: gpu mem 3 GB, cpu mem %.2f GB\n", 3.25, 0.25));
    assert_int_equal(made.log.point_count, 5);
    assert_false(made.log.is_host);
    assert_int_equal(made.log.points[4].allocated_bytes, 3 * GIB);
    assert_int_equal(made.log.other_count, 1);
    assert_true(made.log.others[0].is_host);
    assert_int_equal(made.log.others[0].points[4].allocated_bytes, 4 * GIB + GIB / 4);
    end_reading(&made);
}

static void free_memory_and_percentages_are_marked(void **state)
{
    (void)state;
    reading made = read_text(
        make_lines("", "epoch 001:   %d / 1000 loss=8.1, gb_free=%.2f, wall=100\n", 19.75, -0.25));
    assert_int_equal(made.log.point_count, 5);
    assert_true(made.log.is_free);
    assert_int_equal(made.log.points[1].allocated_bytes, 19 * GIB + GIB / 2);
    end_reading(&made);
    made = read_text(make_lines("", "step %d: GPU mem %.1f%%\n", 30.5, 0.5));
    assert_int_equal(made.log.point_count, 5);
    assert_true(made.log.is_share);
    assert_int_equal(made.log.points[1].allocated_bytes, VW__STEP_LOG_SHARE_OF_ALL / 100 * 31);
    end_reading(&made);
}

static void fractions_of_epochs_count_lines(void **state)
{
    (void)state;
    reading made = read_text("{'loss': 1.9, 'mem_gb': 3.0, 'epoch': 0.01}\n"
                             "{'loss': 1.9, 'mem_gb': 3.1, 'epoch': 0.02}\n"
                             "{'loss': 1.9, 'mem_gb': 3.2, 'epoch': 0.03}\n");
    assert_int_equal(made.log.point_count, 3);
    assert_string_equal(made.log.step_name, "logged line");
    assert_true(made.log.points[2].step == 2);
    end_reading(&made);
}

static void devices_of_one_line_are_logs_of_their_own(void **state)
{
    (void)state;
    static const char *const formats[] = {
        "step %d gpu0=3.50GB gpu1=%.2fGB\n",
        "step %d | GPU 0: 3.50 GB | GPU 1: %.2f GB\n",
        "{\"step\": %d, \"gpu.0.memory_gb\": 3.5, \"gpu.1.memory_gb\": %.2f}\n",
    };
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
        reading made = read_text(make_lines("", formats[i], 3.25, 0.25));
        if (made.log.other_count != 1)
            fail_msg("%zu other devices in lines like %s", made.log.other_count, formats[i]);
        assert_int_equal(made.log.rank, 0);
        assert_int_equal(made.log.points[1].allocated_bytes, 3 * GIB + GIB / 2);
        assert_int_equal(made.log.others[0].rank, 1);
        assert_int_equal(made.log.others[0].points[1].allocated_bytes, 3 * GIB + GIB / 2);
        assert_int_equal(made.log.others[0].points[0].allocated_bytes, 3 * GIB + GIB / 4);
        end_reading(&made);
    }
}

/* Lines that only look like it, by the ten thousand: those that count are found among them. */
static void lines_that_say_nothing_do_not_hide_those_that_do(void **state)
{
    (void)state;
    enum { LINES = 60000, LINE_BYTES = 64 };
    char *text = malloc(LINES * LINE_BYTES);
    assert_non_null(text);
    size_t size = 0;
    for (size_t i = 0; i < LINES; i++)
        size += (size_t)snprintf(text + size, LINE_BYTES,
                                 i % 1000 == 999 ? "step %zu: mem 3.21 GB\n"
                                                 : "step %zu: memory pressure, nothing done\n",
                                 i);
    reading whole = read_in_pieces(text, size, size);
    assert_int_equal(whole.log.point_count, LINES / 1000);
    end_reading(&whole);

    size = 0; /* no two of the same shape: lines are sampled, and alike in pieces of any size */
    for (size_t i = 0; i < LINES; i++)
        size += (size_t)snprintf(text + size, LINE_BYTES,
                                 i % 10 == 9 ? "%c%c%c%c step %zu: mem 3.21 GB\n"
                                             : "%c%c%c%c at %zu: memory pressure\n\n",
                                 (int)('a' + i % 26), (int)('a' + i / 26 % 26),
                                 (int)('a' + i / 676 % 26), (int)('a' + i / 17576 % 26), i);
    whole = read_in_pieces(text, size, size);
    reading pieces = read_in_pieces(text, size, 777);
    assert_true(whole.log.point_count >= 300);
    assert_int_equal(whole.log.point_count, pieces.log.point_count);
    assert_memory_equal(pieces.log.points, whole.log.points,
                        whole.log.point_count * sizeof *whole.log.points);
    end_reading(&whole);
    end_reading(&pieces);
    free(text);
}

/* Three such lines in a text of a thousand are chance; ten with a step are not. */
static void a_few_lines_in_a_long_text_are_not_a_log(void **state)
{
    (void)state;
    static const struct {
        const char *format;
        size_t count;
        bool is_log;
    } samples[] = {{"step %zu mem %zu MB\n", 9, false},
                   {"step %zu mem %zu MB\n", 10, true},
                   {"%2$zu MB of memory\n", 19, false},
                   {"%2$zu MB of memory\n", 30, true}};
    for (size_t i = 0; i < sizeof samples / sizeof *samples; i++) {
        char text[8192];
        size_t size = 0;
        for (size_t j = 0; j < 1000; j++)
            size += (size_t)snprintf(text + size, sizeof text - size, "words\n");
        for (size_t j = 0; j < samples[i].count; j++)
            size += (size_t)snprintf(text + size, sizeof text - size, samples[i].format, j, j + 5);
        reading made = read_text(text);
        assert_int_equal(made.log.point_count, samples[i].is_log ? samples[i].count : 0);
        end_reading(&made);
    }
}

static void a_peak_is_known_by_its_name(void **state)
{
    (void)state;
    static const char *const peaks[] = {"max_mem", "peak memory", "max_memory_allocated", "maxmem"};
    static const char *const others[] = {"mem", "memory_allocated", "gpu_mem", "memory_reserved"};
    for (size_t i = 0; i < 8; i++) {
        char format[64];
        snprintf(format, sizeof format, "step %%d %s %%.0f MB\n", i < 4 ? peaks[i] : others[i - 4]);
        reading made = read_text(make_lines("", format, 3287, 1));
        assert_int_equal(made.log.point_count, 5);
        assert_int_equal(made.log.is_peak, i < 4);
        end_reading(&made);
    }
}

static void allocated_memory_is_preferred_to_its_peak(void **state)
{
    (void)state;
    reading made = read_text(make_lines(
        "", "step %d max_allocated_gb=9.5 allocated_gb=%.2f max_reserved_gb=20 reserved_gb=12\n",
        3.25, 0.25));
    assert_int_equal(made.log.point_count, 5);
    assert_false(made.log.is_peak);
    assert_int_equal(made.log.points[0].allocated_bytes, 13 * GIB / 4);
    assert_int_equal(made.log.points[0].reserved_bytes, 12 * GIB);
    end_reading(&made);
}

/* 990.5, 1000.5, 1010.5: no unit may be guessed line by line. */
static void without_a_unit_all_numbers_together_decide(void **state)
{
    (void)state;
    reading made = read_text(make_lines("", "step %d mem %.1f\n", 390.5, 10));
    assert_int_equal(made.log.points[0].allocated_bytes, 781 * MIB / 2);
    assert_int_equal(made.log.points[4].allocated_bytes, 861 * MIB / 2);
    end_reading(&made);
    made = read_text(make_lines("", "step %d mem %.1f\n", 10.5, 10));
    assert_int_equal(made.log.points[0].allocated_bytes, 21 * GIB / 2);
    end_reading(&made);
    made = read_text(make_lines("", "step %d mem %.0f\n", 10, 10));
    assert_int_equal(made.log.points[0].allocated_bytes, 10 * MIB);
    end_reading(&made);
    made = read_text(make_lines("", "step %d mem %.0f\n", 1000000, 100000));
    assert_int_equal(made.log.points[0].allocated_bytes, 1000000);
    end_reading(&made);
}

static void every_rank_is_a_log_of_its_own(void **state)
{
    (void)state;
    char text[4096];
    size_t size = 0;
    for (int i = 0; i < 20; i++)
        size += (size_t)snprintf(text + size, sizeof text - size, "[rank%d]: step %d mem %d MB\n",
                                 i % 2, i / 2, 1000 * (1 + i % 2) + i / 2);
    reading made = read_text(text);
    assert_int_equal(made.log.point_count, 10);
    for (size_t i = 0; i < 10; i++)
        assert_int_equal(made.log.points[i].allocated_bytes, (1000 + i) * MIB);
    end_reading(&made);
}

static void the_log_with_steps_and_most_lines_wins(void **state)
{
    (void)state;
    char text[4096];
    size_t size = 0;
    for (int i = 0; i < 10; i++) {
        size += (size_t)snprintf(text + size, sizeof text - size,
                                 "memory in use: 5 GB\nmemory in use: 5 GB\n");
        size += (size_t)snprintf(text + size, sizeof text - size, "step %d mem 3 GB\n", i);
        if (i % 3 == 0)
            size +=
                (size_t)snprintf(text + size, sizeof text - size, "eval step %d vram 4 GB\n", i);
    }
    reading made = read_text(text);
    assert_string_equal(made.log.memory_name, "mem");
    assert_int_equal(made.log.point_count, 10);
    assert_int_equal(made.log.line_count, 34);
    end_reading(&made);
}

static void steps_that_begin_again_keep_their_order(void **state)
{
    (void)state;
    reading made = read_text("epoch 1 step 1 mem 1 GB\nepoch 1 step 2 mem 2 GB\n"
                             "epoch 2 step 1 mem 3 GB\nepoch 2 step 2 mem 4 GB\n");
    static const double steps[] = {1, 2, 1, 2};
    assert_int_equal(made.log.point_count, 4);
    assert_string_equal(made.log.step_name, "step");
    for (size_t i = 0; i < 4; i++) {
        assert_true(made.log.points[i].step == steps[i]);
        assert_int_equal(made.log.points[i].allocated_bytes, (i + 1) * GIB);
    }
    end_reading(&made);
}

/* A long text made of `count` lines. */
static char *make_long(const char *begin, const char *format, size_t count, const char *end,
                       size_t *size)
{
    size_t capacity = count * 64 + 64;
    char *text = malloc(capacity);
    assert_non_null(text);
    *size = (size_t)snprintf(text, capacity, "%s", begin);
    for (size_t i = 0; i < count; i++)
        *size += (size_t)snprintf(text + *size, capacity - *size, format, i, i + 1000);
    *size += (size_t)snprintf(text + *size, capacity - *size, "%s", end);
    return text;
}

static void many_points_are_thinned_evenly(void **state)
{
    (void)state;
    size_t size, count = 200000;
    char *text = make_long("", "step %zu mem %zu MB\n", count, "", &size);
    reading made = read_in_pieces(text, size, 65536);
    const vw__step_log *log = &made.log;
    assert_true(log->point_count > VW__STEP_LOG_MOST / 4);
    assert_true(log->point_count <= VW__STEP_LOG_MOST);
    assert_true(log->found_count > count * 19 / 20 && log->found_count < count * 21 / 20);
    assert_int_equal(log->line_count, count);
    for (size_t i = 0; i < log->point_count; i++) {
        double even = (double)count * (double)i / (double)log->point_count;
        assert_true(log->points[i].step > even - 4000 && log->points[i].step < even + 4000);
        assert_int_equal(log->points[i].allocated_bytes,
                         (log->points[i].step + 1000) * (double)MIB);
    }
    end_reading(&made);
    free(text);
}

static void arrays_and_bars_of_any_length_are_read(void **state)
{
    (void)state;
    static const char *const shapes[][3] = {
        {"[", "{\"step\": %zu, \"mem_mb\": %zu}, ", "{}]"},
        {"", "| %zu/90000 [00:10<00:10, mem=%zuM]\r", "\n"},
    };
    for (size_t i = 0; i < 2; i++) {
        size_t size;
        char *text = make_long(shapes[i][0], shapes[i][1], 9000, shapes[i][2], &size);
        for (size_t piece_bytes = 1000; piece_bytes <= 1000000; piece_bytes *= 1000) {
            reading made = read_in_pieces(text, size, piece_bytes);
            assert_int_equal(made.log.point_count, 9000);
            assert_int_equal(made.log.line_count, 1);
            for (size_t j = 0; j < 9000; j++)
                assert_int_equal(made.log.points[j].allocated_bytes, (j + 1000) * MIB);
            end_reading(&made);
        }
        free(text);
    }
}

/* The quick look must let through every hint at every place of its blocks, the very first too. */
static void a_hint_is_found_wherever_it_stands(void **state)
{
    (void)state;
    static const char *const lines[] = {"mem 3 GB",        "GPU 3.5 GB",     "vram 3 GB",
                                        "allocated 3 GiB", "reserved 3 GiB", "step 1: 3 GB",
                                        "n 1/9 3.5G"};
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        for (size_t dull_bytes = 0; dull_bytes < 140; dull_bytes++) {
            char text[4096];
            size_t size = 0;
            for (int j = 0; j < 3; j++) {
                memset(text + size, 'x', dull_bytes);
                size += dull_bytes;
                size += (size_t)snprintf(text + size, sizeof text - size, "\n%s\n", lines[i]);
                memset(text + size, 'y', 2 * dull_bytes);
                size += 2 * dull_bytes;
                text[size++] = '\n';
            }
            reading made = read_in_pieces(text, size, size);
            if (made.log.point_count != 3)
                fail_msg("%zu points of %s behind %zu bytes", made.log.point_count, lines[i],
                         dull_bytes);
            assert_int_equal(made.log.line_count, 9);
            end_reading(&made);
        }
}

static void memory_is_bounded_whatever_comes(void **state)
{
    (void)state;
    uint64_t before = vw__host_memory_get_use().in_use_bytes;
    vw__step_log_scan *scan;
    assert_int_equal(vw__step_log_scan_create(&scan), VW_OK);
    for (int i = 0; i < 300000; i++) { /* names of many kinds, and points of each */
        char text[64];
        int size = snprintf(text, sizeof text, "[rank%d] step %d mem %d MB\n", i % 67, i, i % 1000);
        assert_int_equal(vw__step_log_scan_feed(scan, text, (size_t)size), VW_OK);
    }
    for (int i = 0; i < 1000; i++)
        assert_int_equal(vw__step_log_scan_feed(scan, "[{{[{\"mem\": [1, \"x", 17), VW_OK);
    assert_true(vw__host_memory_get_use().in_use_bytes - before < 16 * MIB);
    vw__step_log log;
    assert_int_equal(vw__step_log_scan_finish(scan, &log), VW_OK);
    vw__step_log_scan_destroy(scan);
    assert_int_equal(vw__host_memory_get_use().in_use_bytes, before);
}

static bool scan_a_log(void *context)
{
    vw__step_log_scan *scan = NULL;
    vw__step_log log;
    bool is_done = vw__step_log_scan_create(&scan) == VW_OK;
    for (int i = 0; i < 200 && is_done; i++) {
        char text[64];
        int size = snprintf(text, sizeof text, "step %d mem %d MB\n", i, i);
        is_done = vw__step_log_scan_feed(scan, text, (size_t)size) == VW_OK;
    }
    is_done = is_done && vw__step_log_scan_finish(scan, &log) == VW_OK && log.point_count == 200;
    vw__step_log_scan_destroy(scan);
    (void)context;
    return is_done;
}

static void every_lack_of_host_memory_is_reported_and_nothing_leaks(void **state)
{
    (void)state;
    vw_test_sweep_host_memory(scan_a_log, NULL);
    vw__step_log_scan_destroy(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(json_in_every_shape_is_read),
        cmocka_unit_test(tables_with_a_header_are_read),
        cmocka_unit_test(lines_that_people_print_are_read),
        cmocka_unit_test(lines_without_step_memory_give_no_points),
        cmocka_unit_test(two_lines_are_not_a_log),
        cmocka_unit_test(a_line_that_is_nothing_but_a_step_and_its_memory_is_a_log),
        cmocka_unit_test(units_and_names_of_every_kind_are_read),
        cmocka_unit_test(host_memory_is_a_log_of_its_own),
        cmocka_unit_test(free_memory_and_percentages_are_marked),
        cmocka_unit_test(fractions_of_epochs_count_lines),
        cmocka_unit_test(devices_of_one_line_are_logs_of_their_own),
        cmocka_unit_test(lines_that_say_nothing_do_not_hide_those_that_do),
        cmocka_unit_test(a_few_lines_in_a_long_text_are_not_a_log),
        cmocka_unit_test(a_peak_is_known_by_its_name),
        cmocka_unit_test(allocated_memory_is_preferred_to_its_peak),
        cmocka_unit_test(without_a_unit_all_numbers_together_decide),
        cmocka_unit_test(every_rank_is_a_log_of_its_own),
        cmocka_unit_test(the_log_with_steps_and_most_lines_wins),
        cmocka_unit_test(steps_that_begin_again_keep_their_order),
        cmocka_unit_test(many_points_are_thinned_evenly),
        cmocka_unit_test(arrays_and_bars_of_any_length_are_read),
        cmocka_unit_test(a_hint_is_found_wherever_it_stands),
        cmocka_unit_test(memory_is_bounded_whatever_comes),
        cmocka_unit_test(every_lack_of_host_memory_is_reported_and_nothing_leaks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
