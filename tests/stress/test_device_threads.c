/* test_device_threads.c - threads that change devices, over eight devices on the fake driver.
 *
 * Each device has a pool. A thread takes a block from any of them, whatever device is current to
 * it, writes marks into it and leaves it in a shared slot; another thread, to which another device
 * is current, finds the marks again and frees the block. So every free comes from a thread, and
 * mostly in a context, that the block was not made in. Other calls (streams, peers, trimming,
 * statistics) come in between. The fake driver refuses a call in the wrong context.
 *
 * stress_run.h says how to repeat a run, and how to make it longer. */
#include "vramwise/vramwise.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device/cuda_driver_load.h"

#include "contract/device_contract.h" /* assert_ok */
#include "support/cmocka_here.h"
#include "support/fake_cuda_state.h"
#include "support/stress_run.h"

enum { DEVICES = FAKE_CUDA_MOST_DEVICES, THREADS = 6, SLOTS = 64, ROUNDS = 8000 };

#define MIB (UINT64_C(1) << 20)

typedef struct slot_block {
    vw_device_ptr address; /* VW_NULL: the slot is empty */
    uint64_t size_bytes;
    int device;
    unsigned char mark;
} slot_block;

typedef struct shared_scene {
    vw_device *devices[DEVICES];
    vw_pool *pools[DEVICES];
    vw_stream streams[DEVICES][2]; /* of each device */
    struct {
        pthread_mutex_t lock;
        slot_block block;
    } slots[SLOTS];
    uint64_t rounds;
    uint64_t seed;
    _Atomic uint64_t foreign_frees; /* with another device's context, or none */
    _Atomic int is_over;            /* some thread found a fault: all stop */
    pthread_mutex_t fault_lock;
    char fault[400]; /* of the first */
} shared_scene;

typedef struct device_user {
    shared_scene *all;
    uint64_t random;
    int current; /* the device whose context is on the thread's stack; -1: none */
} device_user;

/* Assertions of the test library jump, and only the main thread may: the others report. */
static void report(shared_scene *all, const char *what)
{
    pthread_mutex_lock(&all->fault_lock);
    if (all->fault[0] == '\0')
        snprintf(all->fault, sizeof all->fault, "%s: %s", what, vw_last_error());
    pthread_mutex_unlock(&all->fault_lock);
    atomic_store(&all->is_over, 1);
}

#define EXPECT(self, claim)                                                                        \
    do {                                                                                           \
        if (!(claim))                                                                              \
            report((self)->all, #claim);                                                           \
    } while (0)

static uint64_t dice(device_user *self, uint64_t sides)
{
    self->random += UINT64_C(0x9E3779B97F4A7C15);
    return vw_test_mix(self->random) % sides;
}

/* ---- what a thread does ---------------------------------------------------------------------- */

static void leave_device(device_user *self, const vw__cuda_driver *driver)
{
    vw__cuda_context left = NULL;
    if (self->current < 0)
        return;
    EXPECT(self, driver->cuCtxPopCurrent(&left) == VW__CUDA_SUCCESS);
    EXPECT(self, driver->cuDevicePrimaryCtxRelease(self->current) == VW__CUDA_SUCCESS);
    self->current = -1;
}

static void change_device(device_user *self, const vw__cuda_driver *driver)
{
    vw__cuda_context context = NULL;
    int next = (int)dice(self, DEVICES + 1) - 1;
    leave_device(self, driver);
    if (next < 0)
        return;
    EXPECT(self, driver->cuDevicePrimaryCtxRetain(&context, next) == VW__CUDA_SUCCESS);
    EXPECT(self, driver->cuCtxPushCurrent(context) == VW__CUDA_SUCCESS);
    self->current = next;
}

static slot_block make_block(device_user *self)
{
    shared_scene *all = self->all;
    slot_block made = {.device = (int)dice(self, DEVICES),
                       .size_bytes = 1 + dice(self, dice(self, 4) == 0 ? 3 * MIB : 4000),
                       .mark = (unsigned char)(1 + dice(self, 255))};
    vw_stream stream = dice(self, 3) == 0 ? 0 : all->streams[made.device][dice(self, 2)];
    EXPECT(self,
           vw_alloc(all->pools[made.device], made.size_bytes, stream, &made.address) == VW_OK);
    if (made.address == VW_NULL)
        return made;
    if (dice(self, 4) == 0)
        EXPECT(self, vw_record_stream(all->pools[made.device], made.address,
                                      all->streams[made.device][dice(self, 2)]) == VW_OK);
    unsigned char *bytes = (unsigned char *)(uintptr_t)made.address;
    bytes[0] = bytes[made.size_bytes - 1] = made.mark;
    return made;
}

static void end_block(device_user *self, slot_block block)
{
    if (block.address == VW_NULL)
        return;
    const unsigned char *bytes = (const unsigned char *)(uintptr_t)block.address;
    EXPECT(self, bytes[0] == block.mark && bytes[block.size_bytes - 1] == block.mark);
    for (int i = 0; i < DEVICES; i++) { /* one pool has it, and no other */
        vw_block_place place;
        vw_status status = i == block.device || dice(self, 8) == 0
                               ? vw_pool_find(self->all->pools[i], block.address, &place)
                               : VW_ERR_INVALID_ARGUMENT;
        EXPECT(self, (status == VW_OK) == (i == block.device));
    }
    EXPECT(self, vw_free(self->all->pools[block.device], block.address) == VW_OK);
    if (block.device != self->current)
        self->all->foreign_frees++;
}

static void change_slot(device_user *self)
{
    size_t which = dice(self, SLOTS);
    slot_block made = dice(self, 3) != 0 ? make_block(self) : (slot_block){.address = VW_NULL};
    pthread_mutex_lock(&self->all->slots[which].lock);
    slot_block found = self->all->slots[which].block;
    self->all->slots[which].block = made;
    pthread_mutex_unlock(&self->all->slots[which].lock);
    end_block(self, found);
}

static void do_something_rare(device_user *self)
{
    shared_scene *all = self->all;
    int device = (int)dice(self, DEVICES);
    vw_pool_stats stats = {.struct_size = sizeof stats};
    switch (dice(self, 4)) {
    case 0:
        EXPECT(self, vw_pool_trim(all->pools[device]) == VW_OK);
        break;
    case 1:
        EXPECT(self, vw_pool_allow_peer(all->pools[device], (int)dice(self, DEVICES)) == VW_OK);
        break;
    case 2:
        EXPECT(self, vw_pool_check(all->pools[device]) == VW_OK);
        break;
    default:
        EXPECT(self, vw_pool_get_stats(all->pools[device], &stats) == VW_OK);
        EXPECT(self, stats.allocated_bytes.all.current <= stats.reserved_bytes.all.current);
    }
}

static void *use_devices(void *context)
{
    device_user *self = context;
    const vw__cuda_driver *driver = NULL;
    EXPECT(self, vw__cuda_driver_get(&driver) == VW_OK);
    for (uint64_t i = 0; i < self->all->rounds && !atomic_load(&self->all->is_over); i++) {
        vw__cuda_context found = NULL;
        uint64_t what = dice(self, 100);
        if (what < 10)
            change_device(self, driver);
        else if (what < 98)
            change_slot(self);
        else
            do_something_rare(self);
        /* Whatever was called, the thread's own device is current to it still. */
        EXPECT(self, driver->cuCtxGetCurrent(&found) == VW__CUDA_SUCCESS);
        EXPECT(self, (found != NULL) == (self->current >= 0));
    }
    leave_device(self, driver);
    EXPECT(self, vw_test_fake_cuda_state().context_depth == 0);
    return NULL;
}

/* ---- the test -------------------------------------------------------------------------------- */

static bool always(void *context)
{
    (void)context;
    return true;
}

static void leave(void *context)
{
    (void)context;
}

static void open_all(shared_scene *all, const char *engine, const char *conf)
{
    const vw_pool_options options = {.struct_size = sizeof options,
                                     .engine = engine,
                                     .conf = conf,
                                     .safe_point = {always, leave, NULL}};
    for (int i = 0; i < SLOTS; i++)
        pthread_mutex_init(&all->slots[i].lock, NULL);
    pthread_mutex_init(&all->fault_lock, NULL);
    for (int i = 0; i < DEVICES; i++) {
        assert_ok(vw_cuda_device_open(i, &all->devices[i]));
        for (int j = 0; j < 2; j++)
            assert_ok(all->devices[i]->table->stream_create(all->devices[i]->context,
                                                            &all->streams[i][j]));
        assert_ok(vw_pool_create(all->devices[i], &options, &all->pools[i]));
    }
}

static void run_threads(shared_scene *all)
{
    pthread_t threads[THREADS];
    device_user users[THREADS];
    for (int i = 0; i < THREADS; i++) {
        users[i] = (device_user){
            .all = all, .random = vw_test_mix(all->seed + (uint64_t)i), .current = -1};
        assert_int_equal(pthread_create(&threads[i], NULL, use_devices, &users[i]), 0);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
}

static void close_all(shared_scene *all)
{
    device_user self = {.all = all, .current = -1};
    for (int i = 0; i < SLOTS; i++)
        end_block(&self, all->slots[i].block);
    for (int i = 0; i < DEVICES; i++) {
        vw_pool_stats stats = {.struct_size = sizeof stats};
        assert_ok(vw_pool_check(all->pools[i]));
        assert_ok(vw_pool_get_stats(all->pools[i], &stats));
        assert_int_equal(stats.allocated_bytes.all.current, 0);
        vw_pool_destroy(all->pools[i]);
        for (int j = 0; j < 2; j++)
            assert_ok(all->devices[i]->table->stream_destroy(all->devices[i]->context,
                                                             all->streams[i][j]));
        vw_device_destroy(all->devices[i]);
        assert_int_equal(vw_test_fake_cuda_state().device_used_bytes[i], 0);
    }
}

static void blocks_are_freed_from_any_thread_and_device(void **state)
{
    static const char *const engines[][2] = {{"torch", ""},
                                             {"torch", "expandable_segments:True"},
                                             {"vramwise", ""},
                                             {"vramwise:tight", ""}};
    (void)state;
    for (size_t i = 0; i < sizeof engines / sizeof engines[0]; i++) {
        shared_scene *all = calloc(1, sizeof *all);
        assert_non_null(all);
        all->rounds = vw_test_rounds(ROUNDS);
        all->seed = vw_test_seed();
        open_all(all, engines[i][0], engines[i][1]);
        run_threads(all);
        if (all->fault[0] == '\0')
            close_all(all);
        if (all->fault[0] != '\0')
            fail_msg("%s: %s", engines[i][0], all->fault);
        assert_true(all->foreign_frees > all->rounds); /* of THREADS * rounds */
        free(all);
        fake_cuda_state left = vw_test_fake_cuda_state();
        assert_int_equal(left.retain_count, 0);
        assert_int_equal(left.mapping_count, 0);
        assert_int_equal(left.reservation_count, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_are_freed_from_any_thread_and_device),
    };
    setenv("VRAMWISE_CUDA_DRIVER", VW_FAKE_CUDA_DRIVER, 1);
    setenv("FAKE_CUDA_DEVICE_COUNT", "8", 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
