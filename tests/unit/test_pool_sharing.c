/* test_pool_sharing.c - a block that another process uses: vw_pool_share() here, vw_shared_open()
 * there.
 *
 * On the host device, whose memory is real: the other process is a child that was forked before
 * anything was shared, has a device of its own, and gets the descriptors through a socket. */
#include "vramwise/vramwise.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/cmocka_here.h"
#include "support/host_memory_sweep.h"
#include "support/pool_fixture.h" /* VW_TEST_MIB */

enum { MOST_PARTS = 64, LONGEST_CHILD_S = 100 };
#define MIB VW_TEST_MIB

/* ---- the engines that can -------------------------------------------------------------------- */

static const struct {
    const char *engine, *conf;
} engines[] = {
    {"torch", "expandable_segments:True"},
    {"vramwise", ""},
    {"vramwise:rescue", ""},
    {"vramwise:tight", ""},
};
enum { ENGINES = sizeof engines / sizeof engines[0] };

static bool always(void *context)
{
    (void)context;
    return true;
}

static void leave(void *context)
{
    (void)context;
}

typedef struct sharer {
    vw_device *device;
    vw_pool *pool;
} sharer;

static void open_sharer(sharer *s, size_t engine, uint64_t capacity_bytes)
{
    const vw_pool_options options = {.struct_size = sizeof options,
                                     .engine = engines[engine].engine,
                                     .conf = engines[engine].conf,
                                     .safe_point = {always, leave, NULL},
                                     .idle_floor_bytes = 2 * MIB,
                                     .is_shareable = true};
    assert_int_equal(vw_host_device_create(capacity_bytes, &s->device), VW_OK);
    assert_int_equal(vw_pool_create(s->device, &options, &s->pool), VW_OK);
}

static void close_sharer(sharer *s)
{
    vw_device_calls calls;
    assert_int_equal(vw_pool_check(s->pool), VW_OK);
    vw_pool_destroy(s->pool);
    assert_int_equal(vw_device_get_calls(s->device, &calls), VW_OK);
    assert_int_equal(calls.in_use_bytes, 0);
    vw_device_destroy(s->device);
}

static vw_device_ptr take(const sharer *s, uint64_t size_bytes)
{
    vw_device_ptr address = VW_NULL;
    assert_int_equal(vw_alloc(s->pool, size_bytes, 0, &address), VW_OK);
    return address;
}

static uint8_t pattern(uint64_t at)
{
    return (uint8_t)(at * 31 + (at >> 12) + 7);
}

static uint8_t *bytes_at(vw_device_ptr address)
{
    return (uint8_t *)(uintptr_t)address; /* the host device's addresses are the host's */
}

static size_t open_descriptors(void)
{
    size_t count = 0;
    DIR *all = opendir("/proc/self/fd");
    assert_non_null(all);
    while (readdir(all) != NULL)
        count++;
    closedir(all);
    return count;
}

/* ---- what travels ---------------------------------------------------------------------------- */

typedef struct letter {
    size_t part_count;
    uint64_t sizes[MOST_PARTS];
    uint64_t offset_bytes;
    uint64_t block_bytes;
} letter;

static bool send_parts(int socket, const letter *words, const vw_shared_part *parts)
{
    union {
        struct cmsghdr align;
        char room[CMSG_SPACE(MOST_PARTS * sizeof(int))];
    } control = {.room = {0}};
    struct iovec text = {(void *)(uintptr_t)words, sizeof *words};
    struct msghdr message = {.msg_iov = &text, .msg_iovlen = 1, .msg_control = control.room};
    message.msg_controllen = CMSG_SPACE(words->part_count * sizeof(int));
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    *header = (struct cmsghdr){.cmsg_level = SOL_SOCKET,
                               .cmsg_type = SCM_RIGHTS,
                               .cmsg_len = CMSG_LEN(words->part_count * sizeof(int))};
    for (size_t i = 0; i < words->part_count; i++)
        memcpy(CMSG_DATA(header) + i * sizeof(int), &parts[i].file_descriptor, sizeof(int));
    return sendmsg(socket, &message, 0) == (ssize_t)sizeof *words;
}

static bool receive_parts(int socket, letter *words, vw_shared_part *parts)
{
    union {
        struct cmsghdr align;
        char room[CMSG_SPACE(MOST_PARTS * sizeof(int))];
    } control = {.room = {0}};
    struct iovec text = {words, sizeof *words};
    struct msghdr message = {.msg_iov = &text,
                             .msg_iovlen = 1,
                             .msg_control = control.room,
                             .msg_controllen = sizeof control.room};
    if (recvmsg(socket, &message, MSG_WAITALL) != (ssize_t)sizeof *words ||
        words->part_count > MOST_PARTS || CMSG_FIRSTHDR(&message) == NULL)
        return false;
    for (size_t i = 0; i < words->part_count; i++) {
        parts[i].size_bytes = words->sizes[i];
        memcpy(&parts[i].file_descriptor, CMSG_DATA(CMSG_FIRSTHDR(&message)) + i * sizeof(int),
               sizeof(int));
    }
    return true;
}

/* ---- the other process ----------------------------------------------------------------------- */

/* Reads what was written, adds one to every byte, says so, and waits to be told to go: meanwhile
 * its mapping is all that it has. 0, or the line that went wrong. */
static int use_the_block(int socket)
{
    letter words;
    vw_shared_part parts[MOST_PARTS];
    vw_device *device = NULL;
    vw_device_ptr address = VW_NULL;
    char told = 0;
    if (!receive_parts(socket, &words, parts))
        return __LINE__;
    if (vw_host_device_create(64 * MIB, &device) != VW_OK ||
        vw_shared_open(device, parts, words.part_count, &address) != VW_OK) {
        fprintf(stderr, "%s\n", vw_last_error());
        return __LINE__;
    }
    for (size_t i = 0; i < words.part_count; i++)
        close(parts[i].file_descriptor);
    uint8_t *bytes = bytes_at(address + words.offset_bytes);
    for (uint64_t at = 0; at < words.block_bytes; at++)
        if (bytes[at] != pattern(at))
            return __LINE__;
    for (uint64_t at = 0; at < words.block_bytes; at++)
        bytes[at]++;
    if (write(socket, "w", 1) != 1 || read(socket, &told, 1) != 1)
        return __LINE__;
    for (uint64_t at = 0; at < words.block_bytes; at++)
        if (bytes[at] != 'z')
            return __LINE__; /* written there after everything around the block had changed */
    if (vw_shared_close(device, address) != VW_OK)
        return __LINE__;
    vw_device_destroy(device);
    return 0;
}

static pid_t start_other_process(int *socket)
{
    int ends[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        alarm(LONGEST_CHILD_S);
        close(ends[0]);
        int line = use_the_block(ends[1]);
        if (line != 0)
            fprintf(stderr, "the other process: line %d\n", line);
        _exit(line != 0);
    }
    close(ends[1]);
    *socket = ends[0];
    return child;
}

/* ---- between two processes ------------------------------------------------------------------- */

static void share(const sharer *s, vw_device_ptr block, uint64_t block_bytes, letter *words,
                  vw_shared_part *parts)
{
    *words = (letter){.block_bytes = block_bytes};
    if (vw_pool_share(s->pool, block, parts, MOST_PARTS, &words->part_count,
                      &words->offset_bytes) != VW_OK)
        fail_msg("%s", vw_last_error());
    uint64_t all_bytes = 0;
    for (size_t i = 0; i < words->part_count; i++) {
        words->sizes[i] = parts[i].size_bytes;
        all_bytes += parts[i].size_bytes;
    }
    assert_true(words->part_count > 0 && words->offset_bytes < parts[0].size_bytes &&
                words->offset_bytes + block_bytes <= all_bytes);
}

static void close_parts(const letter *words, const vw_shared_part *parts)
{
    for (size_t i = 0; i < words->part_count; i++)
        close(parts[i].file_descriptor);
}

/* Takes and frees around the shared block until pages have moved, been shared and given back. */
static void disturb(const sharer *s, vw_device_ptr *around, size_t count)
{
    vw_device_ptr large = VW_NULL;
    for (size_t i = 0; i < count; i += 2)
        assert_int_equal(vw_free(s->pool, around[i]), VW_OK);
    for (int i = 0; i < 8; i++) {
        assert_int_equal(vw_alloc(s->pool, (uint64_t)(9 + 3 * i) * MIB, 0, &large), VW_OK);
        assert_int_equal(vw_free(s->pool, large), VW_OK);
        assert_int_equal(vw_pool_check(s->pool), VW_OK);
    }
    for (size_t i = 1; i < count; i += 2)
        assert_int_equal(vw_free(s->pool, around[i]), VW_OK);
    assert_int_equal(vw_pool_trim(s->pool), VW_OK);
    assert_int_equal(vw_pool_check(s->pool), VW_OK);
}

static void share_with_another_process(size_t engine, uint64_t block_bytes)
{
    enum { AROUND = 12 };
    int socket = -1;
    pid_t child = start_other_process(&socket);
    size_t descriptors = open_descriptors();
    sharer s;
    vw_device_ptr around[AROUND], block = VW_NULL;
    vw_shared_part parts[MOST_PARTS];
    letter words;
    open_sharer(&s, engine, 96 * MIB);
    for (size_t i = 0; i < AROUND; i++) {
        around[i] = take(&s, 1 * MIB + 512 * (i + 1));
        if (i == AROUND / 2)
            block = take(&s, block_bytes);
    }
    for (uint64_t at = 0; at < block_bytes; at++)
        bytes_at(block)[at] = pattern(at);
    share(&s, block, block_bytes, &words, parts);
    char told = 0;
    assert_true(send_parts(socket, &words, parts));
    close_parts(&words, parts);
    assert_int_equal(read(socket, &told, 1), 1);
    for (uint64_t at = 0; at < block_bytes; at++)
        assert_int_equal(bytes_at(block)[at], (uint8_t)(pattern(at) + 1));
    disturb(&s, around, AROUND);
    memset(bytes_at(block), 'z', block_bytes);
    assert_int_equal(write(socket, "z", 1), 1);
    int ended = 0;
    assert_int_equal(waitpid(child, &ended, 0), child);
    assert_true(WIFEXITED(ended) && WEXITSTATUS(ended) == 0);
    assert_int_equal(vw_pool_unpin(s.pool, block), VW_OK);
    assert_int_equal(vw_free(s.pool, block), VW_OK);
    close_sharer(&s);
    assert_int_equal(open_descriptors(), descriptors);
    close(socket);
}

static void bytes_written_by_one_process_are_seen_by_the_other(void **state)
{
    (void)state;
    for (size_t i = 0; i < ENGINES; i++) {
        share_with_another_process(i, 5 * MIB + 4096);
        share_with_another_process(i, 100000); /* one small block of many in a page */
    }
}

/* ---- what is refused ------------------------------------------------------------------------- */

static void check_refused(vw_pool *pool, vw_device_ptr address, vw_status expected,
                          const char *words)
{
    vw_shared_part parts[MOST_PARTS];
    size_t count = 77;
    uint64_t offset_bytes = 77;
    assert_int_equal(vw_pool_share(pool, address, parts, MOST_PARTS, &count, &offset_bytes),
                     expected);
    assert_non_null(strstr(vw_last_error(), words));
    assert_true(count == 77 && offset_bytes == 77);
    assert_int_equal(vw_pool_check(pool), VW_OK);
}

static void what_cannot_be_shared_is_refused(void **state)
{
    (void)state;
    static const vw_pool_options cannot[] = {
        {.struct_size = sizeof cannot[0], .engine = "vramwise"},
        {.struct_size = sizeof cannot[0], .conf = "expandable_segments:True"},
        {.struct_size = sizeof cannot[0], .is_shareable = true}, /* plain segments */
    };
    for (size_t i = 0; i < 3; i++) {
        sharer s;
        assert_int_equal(vw_host_device_create(64 * MIB, &s.device), VW_OK);
        assert_int_equal(vw_pool_create(s.device, &cannot[i], &s.pool), VW_OK);
        vw_device_ptr block = take(&s, 3 * MIB);
        check_refused(s.pool, block, VW_ERR_UNSUPPORTED, i < 2 ? "is_shareable" : "plain memory");
        check_refused(s.pool, block + 512, VW_ERR_UNKNOWN_ADDRESS, "start of a live block");
        check_refused(s.pool, VW_NULL, VW_ERR_UNKNOWN_ADDRESS, "start of a live block");
        close_sharer(&s);
    }
}

static void a_device_that_cannot_share_makes_no_shareable_pool(void **state)
{
    (void)state;
    vw_device *device = NULL;
    vw_pool *pool = NULL;
    const vw_shared_part part = {2 * MIB, 0};
    vw_device_ptr address = 77;
    assert_int_equal(vw_simulated_device_create(NULL, &device), VW_OK);
    for (size_t i = 0; i < ENGINES; i++) {
        const vw_pool_options options = {.struct_size = sizeof options,
                                         .engine = engines[i].engine,
                                         .conf = engines[i].conf,
                                         .is_shareable = true};
        assert_int_equal(vw_pool_create(device, &options, &pool), VW_ERR_UNSUPPORTED);
        assert_null(pool);
    }
    assert_int_equal(vw_shared_open(device, &part, 1, &address), VW_ERR_UNSUPPORTED);
    assert_int_equal(address, 77);
    vw_device_destroy(device);
}

/* Told how many there are, and nothing is pinned: the one who asks can come again. */
static void too_little_room_says_how_much_is_needed(void **state)
{
    (void)state;
    for (size_t i = 0; i < ENGINES; i++) {
        sharer s;
        size_t count = 0, descriptors;
        uint64_t offset_bytes = 0;
        open_sharer(&s, i, 128 * MIB);
        vw_device_ptr block = take(&s, 50 * MIB);
        descriptors = open_descriptors();
        assert_int_equal(vw_pool_share(s.pool, block, NULL, 0, &count, &offset_bytes),
                         VW_ERR_INVALID_ARGUMENT);
        assert_true(count > 1 && count <= MOST_PARTS);
        assert_int_equal(open_descriptors(), descriptors);
        if (strncmp(engines[i].engine, "vramwise", 8) == 0)
            assert_int_equal(vw_pool_unpin(s.pool, block), VW_ERR_UNKNOWN_ADDRESS);
        letter words;
        vw_shared_part parts[MOST_PARTS];
        share(&s, block, 50 * MIB, &words, parts);
        assert_int_equal(words.part_count, count);
        assert_int_equal(words.offset_bytes, offset_bytes);
        close_parts(&words, parts);
        assert_int_equal(vw_pool_unpin(s.pool, block), VW_OK);
        close_sharer(&s);
    }
}

/* ---- a driver that refuses ------------------------------------------------------------------- */

static const vw_device_table *real_table;
static unsigned exports_left;

static vw_status export_a_few(void *context, vw_handle handle, int *file_descriptor)
{
    if (exports_left == 0)
        return VW_ERR_DEVICE;
    exports_left--;
    return real_table->export_handle(context, handle, file_descriptor);
}

static void an_export_that_fails_leaves_no_descriptor_and_no_pin(void **state)
{
    (void)state;
    for (size_t i = 0; i < ENGINES; i++) {
        sharer s;
        open_sharer(&s, i, 128 * MIB);
        vw_device_table table = *(real_table = s.device->table);
        table.export_handle = export_a_few;
        vw_device_ptr block = take(&s, 50 * MIB);
        vw_shared_part parts[MOST_PARTS];
        letter words;
        size_t count = 0, descriptors = open_descriptors();
        uint64_t offset_bytes = 0;
        for (exports_left = 0;; exports_left = (unsigned)count) {
            s.device->table = &table;
            unsigned allowed = exports_left;
            vw_status status =
                vw_pool_share(s.pool, block, parts, MOST_PARTS, &count, &offset_bytes);
            s.device->table = real_table;
            if (status == VW_OK)
                break;
            assert_int_equal(status, VW_ERR_DEVICE);
            assert_true(allowed < count);
            assert_int_equal(open_descriptors(), descriptors);
            if (strncmp(engines[i].engine, "vramwise", 8) == 0)
                assert_int_equal(vw_pool_unpin(s.pool, block), VW_ERR_UNKNOWN_ADDRESS);
            if (allowed < count - 1)
                count = allowed + 1;
        }
        words = (letter){.part_count = count};
        close_parts(&words, parts);
        close_sharer(&s);
    }
}

/* ---- opening and closing --------------------------------------------------------------------- */

typedef struct opening {
    vw_shared_part parts[MOST_PARTS];
    letter words;
    vw_device *device; /* the opener's */
} opening;

/* In this process, for what needs no other. */
static void begin_opening(opening *o, sharer *s)
{
    open_sharer(s, 0, 128 * MIB);
    share(s, take(s, 50 * MIB), 50 * MIB, &o->words, o->parts);
    assert_true(o->words.part_count > 1);
    assert_int_equal(vw_host_device_create(64 * MIB, &o->device), VW_OK);
}

static void end_opening(opening *o, sharer *s)
{
    vw_device_calls calls;
    assert_int_equal(vw_device_get_calls(o->device, &calls), VW_OK);
    assert_int_equal(calls.in_use_bytes, 0);
    vw_device_destroy(o->device);
    close_parts(&o->words, o->parts);
    close_sharer(s);
}

static void an_opening_that_fails_leaves_nothing_mapped(void **state)
{
    (void)state;
    opening o;
    sharer s;
    begin_opening(&o, &s);
    size_t descriptors = open_descriptors();
    vw_device_ptr address = 77;
    vw_status status = VW_ERR_DEVICE;
    uint64_t nth = 0;
    while (status != VW_OK) {
        assert_int_equal(vw_device_fail_call(o.device, ++nth, VW_ERR_DEVICE), VW_OK);
        status = vw_shared_open(o.device, o.parts, o.words.part_count, &address);
        assert_int_equal(vw_device_fail_call(o.device, 0, VW_OK), VW_OK);
        assert_true(status == VW_OK || (status == VW_ERR_DEVICE && address == 77));
        if (status != VW_OK && strstr(vw_last_error(), "(release)") != NULL)
            descriptors++; /* that handle is the device's for good: it would not take it back */
        if (status != VW_OK)
            assert_int_equal(open_descriptors(), descriptors);
    }
    assert_true(nth > 3 * o.words.part_count); /* import, map and release of each, at least */
    assert_int_equal(vw_shared_close(o.device, address), VW_OK);
    assert_int_equal(open_descriptors(), descriptors);
    end_opening(&o, &s);
}

static bool open_and_close(void *context)
{
    opening *o = context;
    vw_device_ptr address = VW_NULL;
    vw_device *device = NULL;
    bool is_well = vw_host_device_create(64 * MIB, &device) == VW_OK &&
                   vw_shared_open(device, o->parts, o->words.part_count, &address) == VW_OK &&
                   vw_shared_close(device, address) == VW_OK;
    vw_device_destroy(device);
    return is_well;
}

static void an_opening_survives_every_lack_of_host_memory(void **state)
{
    (void)state;
    opening o;
    sharer s;
    begin_opening(&o, &s);
    vw_test_sweep_host_memory(open_and_close, &o);
    end_opening(&o, &s);
}

static void what_was_opened_is_closed_once_and_by_its_device(void **state)
{
    (void)state;
    opening o;
    sharer s;
    begin_opening(&o, &s);
    vw_device_ptr address = VW_NULL, second = VW_NULL;
    assert_int_equal(vw_shared_open(o.device, o.parts, o.words.part_count, &address), VW_OK);
    assert_int_equal(vw_shared_open(o.device, o.parts, 1, &second), VW_OK);
    *bytes_at(address) = 'a';
    assert_int_equal(*bytes_at(second), 'a');
    assert_int_equal(vw_shared_close(s.device, address), VW_ERR_UNKNOWN_ADDRESS);
    assert_int_equal(vw_shared_close(o.device, address + 1), VW_ERR_UNKNOWN_ADDRESS);
    for (uint64_t nth = 1; nth <= 2; nth++) { /* unmapping is refused, then giving addresses back */
        assert_int_equal(vw_device_fail_call(o.device, nth, VW_ERR_DEVICE), VW_OK);
        assert_int_equal(vw_shared_close(o.device, address), VW_ERR_DEVICE);
        assert_int_equal(vw_device_fail_call(o.device, 0, VW_OK), VW_OK);
    }
    assert_int_equal(vw_shared_close(o.device, address), VW_OK);
    assert_int_equal(vw_shared_close(o.device, address), VW_ERR_UNKNOWN_ADDRESS);
    assert_int_equal(*bytes_at(second), 'a');
    assert_int_equal(vw_shared_close(o.device, second), VW_OK);
    end_opening(&o, &s);
}

static void parts_that_make_no_sense_are_refused(void **state)
{
    (void)state;
    vw_device *device = NULL;
    vw_device_ptr address = 77;
    const vw_shared_part wrong[] = {{UINT64_MAX, 0}, {UINT64_MAX, 0}}, none = {0, 0};
    assert_int_equal(vw_host_device_create(64 * MIB, &device), VW_OK);
    assert_int_equal(vw_shared_open(device, wrong, 2, &address), VW_ERR_INVALID_ARGUMENT);
    assert_int_equal(vw_shared_open(device, &none, 1, &address), VW_ERR_INVALID_ARGUMENT);
    assert_int_equal(vw_shared_open(device, wrong, 0, &address), VW_ERR_INVALID_ARGUMENT);
    assert_int_equal(vw_shared_open(device, NULL, 1, &address), VW_ERR_INVALID_ARGUMENT);
    assert_int_equal(vw_shared_open(NULL, wrong, 1, &address), VW_ERR_INVALID_ARGUMENT);
    assert_int_equal(vw_shared_open(device, wrong, 1, NULL), VW_ERR_INVALID_ARGUMENT);
    assert_int_equal(vw_shared_close(NULL, address), VW_ERR_INVALID_ARGUMENT);
    assert_int_equal(address, 77);
    vw_device_destroy(device);
}

/* (The first test's children open some because nobody here had by then.) */
static void a_child_leaves_what_its_parent_has_opened_alone(void **state)
{
    (void)state;
    opening o;
    sharer s;
    begin_opening(&o, &s);
    vw_device_ptr address = VW_NULL;
    assert_int_equal(vw_shared_open(o.device, o.parts, 1, &address), VW_OK);
    fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        alarm(LONGEST_CHILD_S);
        vw_device_ptr another = VW_NULL;
        bool is_well = vw_shared_close(o.device, address) == VW_ERR_WRONG_PROCESS &&
                       vw_shared_open(o.device, o.parts, 1, &another) == VW_ERR_WRONG_PROCESS;
        _exit(!is_well);
    }
    int ended = 0;
    assert_int_equal(waitpid(child, &ended, 0), child);
    assert_true(WIFEXITED(ended) && WEXITSTATUS(ended) == 0);
    assert_int_equal(vw_shared_close(o.device, address), VW_OK);
    end_opening(&o, &s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_written_by_one_process_are_seen_by_the_other),
        cmocka_unit_test(what_cannot_be_shared_is_refused),
        cmocka_unit_test(a_device_that_cannot_share_makes_no_shareable_pool),
        cmocka_unit_test(too_little_room_says_how_much_is_needed),
        cmocka_unit_test(an_export_that_fails_leaves_no_descriptor_and_no_pin),
        cmocka_unit_test(parts_that_make_no_sense_are_refused),
        cmocka_unit_test(an_opening_that_fails_leaves_nothing_mapped),
        cmocka_unit_test(an_opening_survives_every_lack_of_host_memory),
        cmocka_unit_test(what_was_opened_is_closed_once_and_by_its_device),
        cmocka_unit_test(a_child_leaves_what_its_parent_has_opened_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
