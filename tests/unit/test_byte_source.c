/* test_byte_source.c - the same bytes come out whatever they were compressed with and wherever they
 * came from; damage is named. */
#include "parse/byte_source.h"

#include <errno.h>
#include <fcntl.h>
#include <lzma.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#include "base/host_memory.h"

#include "support/cmocka_here.h"
#include "support/host_memory_sweep.h"

/* ---- making input ---------------------------------------------------------------------------- */

typedef struct bytes {
    uint8_t *data; /* from malloc() */
    size_t size_bytes;
} bytes;

/* Text that compresses, but not to nothing. */
static bytes plain_bytes(size_t size_bytes)
{
    bytes plain = {malloc(size_bytes + 1), size_bytes};
    uint32_t number = 12345;
    assert_non_null(plain.data);
    for (size_t i = 0; i < size_bytes; i++) {
        number = number * 1664525 + 1013904223;
        plain.data[i] = (uint8_t)('a' + (number >> 24) % 4);
    }
    return plain;
}

static bytes gzipped(bytes plain)
{
    z_stream stream = {0};
    assert_int_equal(deflateInit2(&stream, 1, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
    bytes packed = {malloc(deflateBound(&stream, plain.size_bytes)), 0};
    assert_non_null(packed.data);
    stream.next_in = plain.data;
    stream.avail_in = (uInt)plain.size_bytes;
    stream.next_out = packed.data;
    stream.avail_out = (uInt)deflateBound(&stream, plain.size_bytes);
    assert_int_equal(deflate(&stream, Z_FINISH), Z_STREAM_END);
    packed.size_bytes = stream.total_out;
    deflateEnd(&stream);
    return packed;
}

static bytes xz_packed(bytes plain)
{
    size_t bound_bytes = lzma_stream_buffer_bound(plain.size_bytes);
    bytes packed = {malloc(bound_bytes), 0};
    assert_non_null(packed.data);
    assert_int_equal(lzma_easy_buffer_encode(0, LZMA_CHECK_CRC64, NULL, plain.data,
                                             plain.size_bytes, packed.data, &packed.size_bytes,
                                             bound_bytes),
                     LZMA_OK);
    return packed;
}

static bytes zstd_packed(bytes plain)
{
    size_t bound_bytes = ZSTD_compressBound(plain.size_bytes);
    bytes packed = {malloc(bound_bytes), 0};
    assert_non_null(packed.data);
    packed.size_bytes = ZSTD_compress(packed.data, bound_bytes, plain.data, plain.size_bytes, 3);
    assert_false(ZSTD_isError(packed.size_bytes));
    return packed;
}

static bytes copied(bytes plain)
{
    bytes copy = {malloc(plain.size_bytes + 1), plain.size_bytes};
    assert_non_null(copy.data);
    memcpy(copy.data, plain.data, plain.size_bytes);
    return copy;
}

/* In the order of vw__byte_source_packing. */
static bytes (*const packers[])(bytes) = {copied, gzipped, xz_packed, zstd_packed};

enum { KIND_COUNT = sizeof packers / sizeof *packers };

static bytes packed_as(int kind, size_t plain_size_bytes)
{
    bytes plain = plain_bytes(plain_size_bytes);
    bytes packed = packers[kind](plain);
    free(plain.data);
    return packed;
}

/* Both, one behind the other; frees them. */
static bytes joined(bytes first, bytes second)
{
    bytes both = {malloc(first.size_bytes + second.size_bytes + 1),
                  first.size_bytes + second.size_bytes};
    assert_non_null(both.data);
    memcpy(both.data, first.data, first.size_bytes);
    memcpy(both.data + first.size_bytes, second.data, second.size_bytes);
    free(first.data);
    free(second.data);
    return both;
}

static bytes zeros(size_t size_bytes)
{
    bytes padding = {calloc(1, size_bytes + 1), size_bytes};
    assert_non_null(padding.data);
    return padding;
}

/* ---- reading --------------------------------------------------------------------------------- */

static vw__byte_source *open_bytes(bytes packed)
{
    vw__byte_source *source = NULL;
    assert_int_equal(vw__byte_source_open_memory(packed.data, packed.size_bytes, NULL, &source),
                     VW_OK);
    return source;
}

/* Reads to the end and closes; `out` may be NULL. */
static vw_status drain(vw__byte_source *source, size_t peek_bytes, size_t take_bytes, bytes *out)
{
    vw_status status;
    bytes all = {NULL, 0};
    for (;;) {
        const uint8_t *window;
        size_t size_bytes;
        assert_int_equal(vw__byte_source_offset(source), all.size_bytes);
        status = vw__byte_source_peek(source, peek_bytes, &window, &size_bytes);
        if (status != VW_OK || size_bytes == 0)
            break;
        size_t taken = size_bytes < take_bytes ? size_bytes : take_bytes;
        all.data = realloc(all.data, all.size_bytes + taken);
        assert_non_null(all.data);
        memcpy(all.data + all.size_bytes, window, taken);
        all.size_bytes += taken;
        vw__byte_source_take(source, taken);
    }
    vw__byte_source_close(source);
    if (out != NULL)
        *out = all;
    else
        free(all.data);
    return status;
}

static void assert_drains(vw__byte_source *source, size_t peek_bytes, size_t take_bytes,
                          bytes expected)
{
    bytes all;
    vw_status status = drain(source, peek_bytes, take_bytes, &all);
    if (status != VW_OK)
        fail_msg("%s", vw_last_error());
    assert_int_equal(all.size_bytes, expected.size_bytes);
    if (all.size_bytes != 0)
        assert_memory_equal(all.data, expected.data, all.size_bytes);
    free(all.data);
}

static void assert_says(const char *words)
{
    if (strstr(vw_last_error(), words) == NULL)
        fail_msg("expected \"%s\" in \"%s\"", words, vw_last_error());
}

/* ---- what comes out -------------------------------------------------------------------------- */

static void every_compression_gives_the_same_bytes(void **state)
{
    (void)state;
    static const size_t sizes[] = {0, 1, 5, 6, 100, 3000000};
    for (int kind = 0; kind < KIND_COUNT; kind++) {
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
            bytes plain = plain_bytes(sizes[i]);
            bytes packed = packers[kind](plain);
            vw__byte_source *source = open_bytes(packed);
            assert_int_equal(vw__byte_source_compression(source), kind);
            assert_drains(source, 1, SIZE_MAX, plain);
            assert_drains(open_bytes(packed), 4096, 1 << 20, plain);
            assert_drains(open_bytes(packed), 2000000, 777777, plain);
            free(packed.data);
            free(plain.data);
        }
    }
    assert_string_equal(vw__byte_source_packing_name(VW__BYTE_SOURCE_PLAIN), "plain");
    assert_string_equal(vw__byte_source_packing_name(VW__BYTE_SOURCE_GZIP), "gzip");
    assert_string_equal(vw__byte_source_packing_name(VW__BYTE_SOURCE_XZ), "xz");
    assert_string_equal(vw__byte_source_packing_name(VW__BYTE_SOURCE_ZSTD), "zstd");
}

static void concatenated_streams_are_read_as_one(void **state)
{
    (void)state;
    bytes half = plain_bytes(1000);
    bytes whole = joined(copied(half), copied(half));
    for (int kind = VW__BYTE_SOURCE_GZIP; kind < KIND_COUNT; kind++) {
        bytes packed = joined(packers[kind](half), packers[kind](half));
        assert_drains(open_bytes(packed), 1, SIZE_MAX, whole);
        free(packed.data);
    }
    free(half.data);
    free(whole.data);
}

static void padding_behind_the_data_is_skipped(void **state)
{
    (void)state;
    bytes plain = plain_bytes(1000);
    bytes gzip = joined(gzipped(plain), zeros(300000));
    bytes xz = joined(xz_packed(plain), zeros(4096));
    assert_drains(open_bytes(gzip), 1, SIZE_MAX, plain);
    assert_drains(open_bytes(xz), 1, SIZE_MAX, plain);
    free(gzip.data);
    free(xz.data);
    free(plain.data);
}

static void a_window_is_as_large_as_asked_for(void **state)
{
    (void)state;
    const uint8_t *window;
    size_t size_bytes;
    bytes plain = plain_bytes(5000000);
    for (int kind = 0; kind < KIND_COUNT; kind++) {
        bytes packed = packers[kind](plain);
        vw__byte_source *source = open_bytes(packed);
        assert_int_equal(vw__byte_source_peek(source, 16, &window, &size_bytes), VW_OK);
        assert_true(size_bytes >= 16 && size_bytes <= 1 << 20);
        vw__byte_source_take(source, 10);
        assert_int_equal(vw__byte_source_peek(source, 4000000, &window, &size_bytes), VW_OK);
        assert_true(size_bytes >= 4000000);
        assert_memory_equal(window, plain.data + 10, 4000000);
        assert_int_equal(vw__byte_source_peek(source, 100000000, &window, &size_bytes), VW_OK);
        assert_int_equal(size_bytes, 5000000 - 10);
        assert_int_equal(vw__byte_source_peek(source, VW__BYTE_SOURCE_LARGEST_PEEK_BYTES + 1,
                                              &window, &size_bytes),
                         VW_ERR_CORRUPT_FILE);
        assert_says("in one piece at byte 10");
        vw__byte_source_close(source);
        free(packed.data);
    }
    free(plain.data);
}

static void asking_for_more_than_the_file_has_costs_little(void **state)
{
    (void)state;
    const uint8_t *window;
    size_t size_bytes;
    bytes packed = packed_as(VW__BYTE_SOURCE_GZIP, 1000);
    vw__byte_source *source = open_bytes(packed);
    uint64_t before = vw__host_memory_get_use().in_use_bytes;
    assert_int_equal(
        vw__byte_source_peek(source, VW__BYTE_SOURCE_LARGEST_PEEK_BYTES, &window, &size_bytes),
        VW_OK);
    assert_int_equal(size_bytes, 1000);
    assert_true(vw__host_memory_get_use().in_use_bytes - before < 2 << 20);
    vw__byte_source_close(source);
    free(packed.data);
}

static void plain_memory_is_not_copied(void **state)
{
    (void)state;
    static const char text[] = "plain";
    const uint8_t *window;
    size_t size_bytes;
    vw__byte_source *source = NULL;
    assert_int_equal(vw__byte_source_open_memory(text, 5, NULL, &source), VW_OK);
    assert_int_equal(vw__byte_source_peek(source, 1, &window, &size_bytes), VW_OK);
    assert_ptr_equal(window, text);
    assert_int_equal(size_bytes, 5);
    vw__byte_source_close(source);
    assert_int_equal(vw__byte_source_open_memory(NULL, 0, NULL, &source), VW_OK);
    assert_int_equal(vw__byte_source_peek(source, 1, &window, &size_bytes), VW_OK);
    assert_int_equal(size_bytes, 0);
    vw__byte_source_close(source);
}

/* ---- files ----------------------------------------------------------------------------------- */

static char path[64];

static void write_file(bytes contents)
{
    snprintf(path, sizeof path, "/tmp/vramwise_test_XXXXXX");
    int file = mkstemp(path);
    assert_true(file >= 0);
    assert_int_equal(write(file, contents.data, contents.size_bytes), contents.size_bytes);
    close(file);
}

static void files_are_read_in_pieces(void **state)
{
    (void)state;
    bytes plain = plain_bytes(3000000);
    for (int kind = 0; kind < KIND_COUNT; kind++) {
        bytes packed = packers[kind](plain);
        vw__byte_source *source = NULL;
        write_file(packed);
        assert_int_equal(vw__byte_source_open(path, NULL, &source), VW_OK);
        assert_int_equal(vw__byte_source_compression(source), kind);
        assert_true(vw__byte_source_file_bytes(source) < packed.size_bytes);
        assert_drains(source, 16, 100001, plain);
        unlink(path);
        free(packed.data);
    }
    free(plain.data);
}

typedef struct feeder {
    int pipe;
    bytes contents;
} feeder;

/* A few bytes, a pause for the reader, a few more. */
static void *feed(void *context)
{
    feeder *feeding = context;
    for (size_t i = 0; i < feeding->contents.size_bytes; i += 7) {
        size_t left = feeding->contents.size_bytes - i;
        if (write(feeding->pipe, feeding->contents.data + i, left < 7 ? left : 7) < 0)
            break;
    }
    close(feeding->pipe);
    return NULL;
}

static void pipes_may_give_a_few_bytes_at_a_time(void **state)
{
    (void)state;
    bytes plain = plain_bytes(5000);
    for (int kind = 0; kind < KIND_COUNT; kind++) {
        int ends[2];
        pthread_t thread;
        vw__byte_source *source = NULL;
        assert_int_equal(pipe(ends), 0);
        feeder feeding = {ends[1], packers[kind](plain)};
        assert_int_equal(pthread_create(&thread, NULL, feed, &feeding), 0);
        snprintf(path, sizeof path, "/dev/fd/%d", ends[0]);
        assert_int_equal(vw__byte_source_open(path, NULL, &source), VW_OK);
        close(ends[0]);
        assert_drains(source, 10, 10, plain);
        pthread_join(thread, NULL);
        free(feeding.contents.data);
    }
    free(plain.data);
}

static void standard_input_is_a_dash(void **state)
{
    (void)state;
    int ends[2], before = dup(STDIN_FILENO);
    vw__byte_source *source = NULL;
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(write(ends[1], "from afar", 9), 9);
    close(ends[1]);
    assert_int_equal(dup2(ends[0], STDIN_FILENO), STDIN_FILENO);
    close(ends[0]);
    assert_int_equal(vw__byte_source_open("-", NULL, &source), VW_OK);
    bytes expected = {(uint8_t *)(uintptr_t) "from afar", 9};
    assert_drains(source, 1, SIZE_MAX, expected);
    assert_true(fcntl(STDIN_FILENO, F_GETFD) >= 0); /* still open: it is not ours */
    dup2(before, STDIN_FILENO);
    close(before);
}

static void open_errors_carry_the_system_message(void **state)
{
    (void)state;
    vw__byte_source *source = NULL;
    assert_int_equal(vw__byte_source_open("/nowhere/at/all", NULL, &source), VW_ERR_FILE);
    assert_says("/nowhere/at/all: No such file or directory");
    assert_int_equal(vw__byte_source_open("/tmp", NULL, &source), VW_ERR_FILE);
    assert_says("/tmp: expected a file, found a folder");
    assert_null(source);
    vw__byte_source_close(NULL);
}

static void devices_that_may_have_no_end_are_refused_and_pipes_are_read(void **state)
{
    (void)state;
    vw__byte_source *source = NULL;
    const uint8_t *seen;
    size_t size_bytes = 1;
    char name[32];
    int ends[2];
    assert_int_equal(vw__byte_source_open("/dev/zero", NULL, &source), VW_ERR_FILE);
    assert_says("/dev/zero: expected a file or a pipe, found a device");
    assert_int_equal(vw__byte_source_open("/dev/null", NULL, &source), VW_OK);
    assert_int_equal(vw__byte_source_peek(source, 1, &seen, &size_bytes), VW_OK);
    assert_int_equal(size_bytes, 0);
    vw__byte_source_close(source);
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(write(ends[1], "text", 4), 4);
    close(ends[1]);
    snprintf(name, sizeof name, "/dev/fd/%d", ends[0]); /* as <(...) of a shell */
    assert_int_equal(vw__byte_source_open(name, NULL, &source), VW_OK);
    assert_int_equal(vw__byte_source_peek(source, 4, &seen, &size_bytes), VW_OK);
    assert_int_equal(size_bytes, 4);
    vw__byte_source_close(source);
    close(ends[0]);
}

static void what_was_found_must_be_a_plain_file(void **state)
{
    (void)state;
    static const vw__byte_source_options found = {.is_found = true};
    vw__byte_source *source = NULL;
    char folder[] = "/tmp/vramwise-source-XXXXXX", pipe_path[64], file_path[64], link_path[64];
    assert_non_null(mkdtemp(folder));
    snprintf(pipe_path, sizeof pipe_path, "%s/pipe", folder);
    snprintf(file_path, sizeof file_path, "%s/file", folder);
    snprintf(link_path, sizeof link_path, "%s/link", folder);
    assert_int_equal(mkfifo(pipe_path, 0600), 0);
    assert_int_equal(vw__byte_source_open(pipe_path, &found, &source), VW_ERR_FILE);
    assert_says("pipe: expected a plain file");
    int file = open(file_path, O_WRONLY | O_CREAT | O_EXCL, 0600);
    assert_int_equal(write(file, "text", 4), 4);
    close(file);
    assert_int_equal(vw__byte_source_open(file_path, &found, &source), VW_OK);
    vw__byte_source_close(source);
    assert_int_equal(symlink("file", link_path), 0);
    assert_int_equal(vw__byte_source_open(link_path, &found, &source), VW_OK);
    vw__byte_source_close(source);
    if (geteuid() == 0) { /* nobody else can make a link somebody else's */
        source = NULL;
        assert_int_equal(lchown(link_path, 65534, 65534), 0);
        assert_int_equal(vw__byte_source_open(link_path, &found, &source), VW_ERR_FILE);
        assert_says("link: a link of user 65534 to a file of user 0");
        assert_int_equal(chown(file_path, 65534, 65534), 0);
        assert_int_equal(vw__byte_source_open(link_path, &found, &source), VW_OK);
        vw__byte_source_close(source);
    }
    assert_int_equal(unlink(link_path) | unlink(file_path) | unlink(pipe_path) | rmdir(folder), 0);
}

/* As when somebody puts a link in the place of a folder between finding and opening. */
static void a_folder_on_the_way_may_not_be_a_link_of_somebody_else(void **state)
{
    (void)state;
    vw__byte_source *source = NULL;
    char folder[] = "/tmp/vramwise-source-XXXXXX", inner[64], file_path[64], link_path[64],
         below[64];
    assert_non_null(mkdtemp(folder));
    const vw__byte_source_options found = {.is_found = true, .named_bytes = strlen(folder)};
    snprintf(inner, sizeof inner, "%s/inner", folder);
    snprintf(file_path, sizeof file_path, "%s/inner/file", folder);
    snprintf(link_path, sizeof link_path, "%s/link", folder);
    snprintf(below, sizeof below, "%s//link/file", folder);
    assert_int_equal(mkdir(inner, 0700), 0);
    close(open(file_path, O_WRONLY | O_CREAT | O_EXCL, 0600));
    assert_int_equal(vw__byte_source_open(file_path, &found, &source), VW_OK);
    vw__byte_source_close(source);
    assert_int_equal(vw__byte_source_open(below, &found, &source), VW_ERR_FILE);
    assert_says("link/file: No such file or directory");
    assert_int_equal(symlink("inner", link_path), 0);
    assert_int_equal(vw__byte_source_open(below, &found, &source), VW_OK);
    vw__byte_source_close(source);
    if (geteuid() == 0) {
        assert_int_equal(lchown(link_path, 65534, 65534), 0);
        assert_int_equal(vw__byte_source_open(below, &found, &source), VW_ERR_FILE);
        assert_says("link/file: Too many levels of symbolic links");
    }
    assert_int_equal(unlink(link_path) | unlink(file_path) | rmdir(inner) | rmdir(folder), 0);
}

/* ---- damage ---------------------------------------------------------------------------------- */

static void compressed_data_cut_short_is_refused_at_every_length(void **state)
{
    (void)state;
    static const char *const words[] = {NULL, "the gzip data ends too early",
                                        "the xz data ends too early",
                                        "the zstd data ends too early"};
    for (int kind = VW__BYTE_SOURCE_GZIP; kind < KIND_COUNT; kind++) {
        bytes packed = packed_as(kind, 300);
        for (size_t i = 6; i < packed.size_bytes; i++) {
            bytes cut = {packed.data, i};
            assert_int_equal(drain(open_bytes(cut), 1, SIZE_MAX, NULL), VW_ERR_CORRUPT_FILE);
            assert_says(words[kind]);
            assert_says("of the file");
        }
        free(packed.data);
    }
}

static void a_changed_byte_is_found(void **state)
{
    (void)state;
    static const char *const words[] = {NULL, "gzip", "xz", "zstd"};
    for (int kind = VW__BYTE_SOURCE_GZIP; kind < KIND_COUNT; kind++) {
        bytes packed = packed_as(kind, 2000);
        packed.data[packed.size_bytes / 2] ^= 0x55;
        vw_status status = drain(open_bytes(packed), 1, SIZE_MAX, NULL);
        if (kind == VW__BYTE_SOURCE_ZSTD && status == VW_OK) {
            free(packed.data); /* ZSTD_compress() adds no checksum */
            continue;
        }
        assert_int_equal(status, VW_ERR_CORRUPT_FILE);
        assert_says(words[kind]);
        free(packed.data);
    }
}

static void a_source_that_failed_goes_on_failing(void **state)
{
    (void)state;
    const uint8_t *window;
    size_t size_bytes = 77;
    bytes packed = packed_as(VW__BYTE_SOURCE_XZ, 300);
    packed.size_bytes -= 5;
    vw__byte_source *source = open_bytes(packed);
    for (int i = 0; i < 3; i++)
        assert_int_equal(vw__byte_source_peek(source, 1000, &window, &size_bytes),
                         VW_ERR_CORRUPT_FILE);
    assert_int_equal(size_bytes, 77);
    vw__byte_source_close(source);
    free(packed.data);
}

static void something_else_behind_the_data_is_refused(void **state)
{
    (void)state;
    static const char *const words[] = {NULL, "behind the gzip data", "something else behind it",
                                        "damaged zstd data"};
    for (int kind = VW__BYTE_SOURCE_GZIP; kind < KIND_COUNT; kind++) {
        bytes packed = joined(packed_as(kind, 300), plain_bytes(30));
        assert_int_equal(drain(open_bytes(packed), 1, SIZE_MAX, NULL), VW_ERR_CORRUPT_FILE);
        assert_says(words[kind]);
        free(packed.data);
    }
    bytes packed = joined(packed_as(VW__BYTE_SOURCE_GZIP, 300), joined(zeros(3), plain_bytes(3)));
    assert_int_equal(drain(open_bytes(packed), 1, SIZE_MAX, NULL), VW_ERR_CORRUPT_FILE);
    assert_says("behind the gzip data");
    free(packed.data);
}

static void no_more_comes_out_than_the_limit(void **state)
{
    (void)state;
    vw__byte_source_options options = {.output_limit_bytes = 1000000};
    for (int kind = 0; kind < KIND_COUNT; kind++) {
        for (size_t excess = 0; excess < 2; excess++) {
            bytes packed = packed_as(kind, 1000000 + excess);
            vw__byte_source *source = NULL;
            assert_int_equal(
                vw__byte_source_open_memory(packed.data, packed.size_bytes, &options, &source),
                VW_OK);
            assert_int_equal(drain(source, 1, SIZE_MAX, NULL),
                             excess == 0 ? VW_OK : VW_ERR_CORRUPT_FILE);
            if (excess != 0)
                assert_says("more than the limit of 1000000 bytes");
            free(packed.data);
        }
    }
}

/* Streams of zeros, one behind the other: `size_bytes` come out of all of them. */
static bytes packed_zeros(int kind, uint64_t size_bytes)
{
    enum { PART_BYTES = 8 << 20 };
    bytes all = {malloc(1), 0};
    for (uint64_t made_bytes = 0; made_bytes < size_bytes; made_bytes += PART_BYTES) {
        bytes part = zeros(PART_BYTES);
        all = joined(all, packers[kind](part));
        free(part.data);
    }
    return all;
}

/* Reads to the end, keeps nothing, and returns how much came out. */
static uint64_t count_output(bytes packed, vw_status *status)
{
    const uint8_t *window;
    size_t size_bytes = 0;
    uint64_t made_bytes = 0;
    vw__byte_source *source = open_bytes(packed);
    while ((*status = vw__byte_source_peek(source, 1, &window, &size_bytes)) == VW_OK &&
           size_bytes != 0) {
        vw__byte_source_take(source, size_bytes);
        made_bytes += size_bytes;
    }
    vw__byte_source_close(source);
    return made_bytes;
}

/* gzip cannot pack that well. */
static void a_file_that_becomes_thousands_of_times_as_large_is_refused(void **state)
{
    (void)state;
    vw_status status;
    bytes packed = packed_zeros(VW__BYTE_SOURCE_ZSTD, VW__BYTE_SOURCE_SMALL_BYTES);
    assert_true(packed.size_bytes < 100000);
    assert_int_equal(count_output(packed, &status), VW__BYTE_SOURCE_SMALL_BYTES);
    assert_int_equal(status, VW_OK);
    packed = joined(packed, packed_zeros(VW__BYTE_SOURCE_ZSTD, 1 << 20));
    assert_true(count_output(packed, &status) <= VW__BYTE_SOURCE_SMALL_BYTES);
    assert_int_equal(status, VW_ERR_CORRUPT_FILE);
    assert_says("become more than 1000 times as many, which no recording and no log does");

    /* The same behind something that does not pack: what counts is the whole. */
    packed = joined(packed_as(VW__BYTE_SOURCE_ZSTD, 2 << 20), packed);
    assert_true(count_output(packed, &status) > VW__BYTE_SOURCE_SMALL_BYTES);
    assert_int_equal(status, VW_OK);
    free(packed.data);
}

/* A frame that wants a window of 256 MiB, in nine bytes. */
/* Reads to the end, or to the failure. */
static vw_status read_all(vw__byte_source *source, uint64_t *read_bytes)
{
    const uint8_t *window;
    size_t size_bytes = 1;
    vw_status status = VW_OK;
    for (*read_bytes = 0; size_bytes != 0; *read_bytes += size_bytes) {
        status = vw__byte_source_peek(source, 1, &window, &size_bytes);
        if (status != VW_OK)
            break;
        vw__byte_source_take(source, size_bytes);
    }
    return status;
}

static void a_file_of_holes_is_refused(void **state)
{
    (void)state;
    const off_t terabyte = (off_t)1 << 40;
    vw__byte_source *source;
    struct stat facts;
    uint64_t read_bytes;
    write_file((bytes){(uint8_t *)(uintptr_t) "a line\n", 7});
    assert_int_equal(truncate(path, terabyte), 0);
    assert_int_equal(stat(path, &facts), 0);
    if (facts.st_blocks == 0) {
        unlink(path);
        skip(); /* this file system does not tell */
    }
    assert_int_equal(vw__byte_source_open(path, NULL, &source), VW_OK);
    assert_int_equal(read_all(source, &read_bytes), VW_ERR_CORRUPT_FILE);
    assert_says("nearly all of it is holes: more than 1000 times the ");
    assert_in_range(read_bytes, VW__BYTE_SOURCE_SMALL_BYTES / 2, 2 * VW__BYTE_SOURCE_SMALL_BYTES);
    vw__byte_source_close(source);

    assert_int_equal(truncate(path, (off_t)VW__BYTE_SOURCE_SMALL_BYTES), 0); /* not worth a word */
    assert_int_equal(vw__byte_source_open(path, NULL, &source), VW_OK);
    assert_int_equal(read_all(source, &read_bytes), VW_OK);
    assert_int_equal(read_bytes, VW__BYTE_SOURCE_SMALL_BYTES);
    vw__byte_source_close(source);
    unlink(path);
}

static void a_file_that_is_one_hole_is_refused(void **state)
{
    (void)state;
    vw__byte_source *source;
    uint64_t read_bytes;
    write_file((bytes){(uint8_t *)(uintptr_t) "", 0});
    assert_int_equal(truncate(path, (off_t)(4 * VW__BYTE_SOURCE_SMALL_BYTES)), 0);
    int file = open(path, O_RDONLY | O_CLOEXEC);
    assert_true(file >= 0);
    bool is_told = lseek(file, 0, SEEK_DATA) < 0 && errno == ENXIO;
    close(file);
    if (!is_told) {
        unlink(path);
        skip(); /* this file system knows no holes */
    }
    assert_int_equal(vw__byte_source_open(path, NULL, &source), VW_OK);
    assert_int_equal(read_all(source, &read_bytes), VW_ERR_CORRUPT_FILE);
    assert_says("nearly all of it is holes: more than 1000 times the 0 bytes that it has");
    assert_in_range(read_bytes, VW__BYTE_SOURCE_SMALL_BYTES / 2, 2 * VW__BYTE_SOURCE_SMALL_BYTES);
    vw__byte_source_close(source);
    unlink(path);
}

static void a_small_file_cannot_ask_for_much_memory(void **state)
{
    (void)state;
    static uint8_t frame[] = {0x28, 0xb5, 0x2f, 0xfd, 0x00, 0x90, 0x01, 0x00, 0x00};
    bytes packed = {frame, sizeof frame};
    assert_int_equal(drain(open_bytes(packed), 1, SIZE_MAX, NULL), VW_ERR_UNSUPPORTED);
    assert_says("zstd data with a window of more than 2^27 bytes");
    frame[5] = 0x88; /* 128 MiB: the most that `zstd -d` takes, and what `zstd --long` makes */
    assert_int_equal(drain(open_bytes(packed), 1, SIZE_MAX, NULL), VW_OK);
}

/* ---- progress, memory ------------------------------------------------------------------------ */

typedef struct watcher {
    uint64_t last_bytes;
    uint64_t stop_at_bytes;
    uint64_t file_bytes;
} watcher;

static bool watch(void *context, uint64_t read_bytes, uint64_t file_bytes)
{
    watcher *watching = context;
    assert_true(read_bytes >= watching->last_bytes);
    watching->last_bytes = read_bytes;
    watching->file_bytes = file_bytes;
    return read_bytes < watching->stop_at_bytes;
}

static void progress_is_reported_and_can_stop_the_reading(void **state)
{
    (void)state;
    for (int kind = 0; kind < KIND_COUNT; kind++) {
        bytes packed = packed_as(kind, 6000000);
        write_file(packed);
        for (int is_file = 0; is_file < 2; is_file++) {
            watcher watching = {.stop_at_bytes = UINT64_MAX};
            vw__byte_source_options options = {.progress = watch, .progress_context = &watching};
            vw__byte_source *source = NULL;
            for (int is_stopped = 0; is_stopped < 2; is_stopped++) {
                watching.last_bytes = 0;
                assert_int_equal(is_file ? vw__byte_source_open(path, &options, &source)
                                         : vw__byte_source_open_memory(
                                               packed.data, packed.size_bytes, &options, &source),
                                 VW_OK);
                assert_int_equal(drain(source, 1, SIZE_MAX, NULL),
                                 is_stopped ? VW_ERR_WRONG_STATE : VW_OK);
                assert_int_equal(watching.file_bytes, packed.size_bytes);
                assert_true(is_stopped || watching.last_bytes == packed.size_bytes);
                watching.stop_at_bytes = packed.size_bytes / 2;
            }
            assert_says("reading was stopped");
        }
        unlink(path);
        free(packed.data);
    }
}

static bool read_with_memory_failing(void *context)
{
    bytes *packed = context;
    vw__byte_source *source = NULL;
    if (vw__byte_source_open(path, NULL, &source) != VW_OK)
        return false;
    vw__byte_source_close(source);
    if (vw__byte_source_open_memory(packed->data, packed->size_bytes, NULL, &source) != VW_OK)
        return false;
    return drain(source, 600000, SIZE_MAX, NULL) == VW_OK;
}

static void memory_may_run_out_anywhere(void **state)
{
    (void)state;
    for (int kind = 0; kind < KIND_COUNT; kind++) {
        bytes packed = packed_as(kind, 700000);
        write_file(packed);
        vw_test_sweep_host_memory(read_with_memory_failing, &packed);
        unlink(path);
        free(packed.data);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_compression_gives_the_same_bytes),
        cmocka_unit_test(concatenated_streams_are_read_as_one),
        cmocka_unit_test(padding_behind_the_data_is_skipped),
        cmocka_unit_test(a_window_is_as_large_as_asked_for),
        cmocka_unit_test(asking_for_more_than_the_file_has_costs_little),
        cmocka_unit_test(plain_memory_is_not_copied),

        cmocka_unit_test(files_are_read_in_pieces),
        cmocka_unit_test(pipes_may_give_a_few_bytes_at_a_time),
        cmocka_unit_test(standard_input_is_a_dash),
        cmocka_unit_test(open_errors_carry_the_system_message),
        cmocka_unit_test(devices_that_may_have_no_end_are_refused_and_pipes_are_read),
        cmocka_unit_test(what_was_found_must_be_a_plain_file),
        cmocka_unit_test(a_folder_on_the_way_may_not_be_a_link_of_somebody_else),

        cmocka_unit_test(compressed_data_cut_short_is_refused_at_every_length),
        cmocka_unit_test(a_changed_byte_is_found),
        cmocka_unit_test(a_source_that_failed_goes_on_failing),
        cmocka_unit_test(something_else_behind_the_data_is_refused),
        cmocka_unit_test(no_more_comes_out_than_the_limit),
        cmocka_unit_test(a_file_that_becomes_thousands_of_times_as_large_is_refused),
        cmocka_unit_test(a_file_of_holes_is_refused),
        cmocka_unit_test(a_file_that_is_one_hole_is_refused),
        cmocka_unit_test(a_small_file_cannot_ask_for_much_memory),

        cmocka_unit_test(progress_is_reported_and_can_stop_the_reading),
        cmocka_unit_test(memory_may_run_out_anywhere),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
