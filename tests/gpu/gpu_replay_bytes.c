/* gpu_replay_bytes.c - see gpu_replay_bytes.h.
 *
 * The kernels are PTX, the text that every NVIDIA driver since 2014 compiles for the GPU at hand:
 * neither building nor running needs CUDA's compiler. Both go through a visit's words in steps of
 * the grid's size, one word a thread; the first threads see to the tail. That the text does what
 * the C of gpu_replay_pattern.h does is tried on the GPU at hand before anything is measured, and
 * so is that a spoilt byte is seen. */
#include "gpu/gpu_replay_bytes.h"

#include <inttypes.h>

#include "base/error.h" /* vw__fail, VW__TRY */

enum { THREADS = 256, MOST_THREAD_BLOCKS = 2048, BUFFER_WORDS = 16 * REPLAY_PIECE_WORDS };

/* ---- the kernels ----------------------------------------------------------------------------- */

#define KERNEL_PARAMETERS                                                                          \
    ".param .u64 p_address, .param .u64 p_first, .param .u64 p_count, .param .u64 p_stride,\n"     \
    ".param .u64 p_seed, .param .u64 p_tail, .param .u64 p_tail_bytes"

/* Loads the parameters; `i` is the thread's number in the grid, `step` the grid's size. */
#define KERNEL_BEGIN                                                                               \
    "{\n"                                                                                          \
    ".reg .pred is_done, is_right, is_later;\n"                                                    \
    ".reg .u32 r_thread, r_block, r_threads, r_blocks, shift;\n"                                   \
    ".reg .u64 address, first, count, stride, seed, tail, tail_bytes, thread, i, step;\n"          \
    ".reg .u64 word, wanted, found, place, high, low, errors, before;\n"                           \
    "ld.param.u64 address, [p_address];\n"                                                         \
    "ld.param.u64 first, [p_first];\n"                                                             \
    "ld.param.u64 count, [p_count];\n"                                                             \
    "ld.param.u64 stride, [p_stride];\n"                                                           \
    "ld.param.u64 seed, [p_seed];\n"                                                               \
    "ld.param.u64 tail, [p_tail];\n"                                                               \
    "ld.param.u64 tail_bytes, [p_tail_bytes];\n"                                                   \
    "cvta.to.global.u64 address, address;\n"                                                       \
    "mov.u32 r_thread, %tid.x;\n"                                                                  \
    "mov.u32 r_block, %ctaid.x;\n"                                                                 \
    "mov.u32 r_threads, %ntid.x;\n"                                                                \
    "mov.u32 r_blocks, %nctaid.x;\n"                                                               \
    "cvt.u64.u32 thread, r_thread;\n"                                                              \
    "mul.wide.u32 i, r_block, r_threads;\n"                                                        \
    "add.u64 i, i, thread;\n"                                                                      \
    "mul.wide.u32 step, r_blocks, r_threads;\n"

/* From a number of the visit to a word, and to its address. */
#define KERNEL_FIND_WORD                                                                           \
    "shr.u64 high, i, 9;\n"                                                                        \
    "and.b64 low, i, 511;\n"                                                                       \
    "mad.lo.u64 word, high, stride, low;\n"                                                        \
    "add.u64 word, word, first;\n"                                                                 \
    "shl.b64 place, word, 3;\n"                                                                    \
    "add.u64 place, place, address;\n"

/* replay_pattern_word() */
#define KERNEL_MIX                                                                                 \
    "mul.lo.u64 wanted, word, 0x9E3779B97F4A7C15;\n"                                               \
    "xor.b64 wanted, wanted, seed;\n"                                                              \
    "shr.u64 high, wanted, 32;\n"                                                                  \
    "xor.b64 wanted, wanted, high;\n"                                                              \
    "mul.lo.u64 wanted, wanted, 0xD6E8FEB86659FD93;\n"                                             \
    "shr.u64 high, wanted, 32;\n"                                                                  \
    "xor.b64 wanted, wanted, high;\n"

#define KERNEL_LOOP                                                                                \
    "AGAIN:\n"                                                                                     \
    "setp.ge.u64 is_done, i, count;\n"                                                             \
    "@is_done bra TAIL;\n" KERNEL_FIND_WORD KERNEL_MIX

/* One byte each for the first threads of the first block: `wanted` is its value, at `place`. */
#define KERNEL_TAIL                                                                                \
    "TAIL:\n"                                                                                      \
    "setp.ne.u32 is_done, r_block, 0;\n"                                                           \
    "@is_done bra END;\n"                                                                          \
    "setp.ge.u64 is_done, thread, tail_bytes;\n"                                                   \
    "@is_done bra END;\n"                                                                          \
    "mov.u64 word, tail;\n" KERNEL_MIX "shl.b32 shift, r_thread, 3;\n"                             \
    "shr.u64 wanted, wanted, shift;\n"                                                             \
    "and.b64 wanted, wanted, 255;\n"                                                               \
    "shl.b64 place, tail, 3;\n"                                                                    \
    "add.u64 place, place, address;\n"                                                             \
    "add.u64 place, place, thread;\n"

/* replay_note_error(); the fields lie as replay_errors has them. */
#define KERNEL_NOTE_ERROR                                                                          \
    "atom.global.add.u64 before, [errors], 1;\n"                                                   \
    "setp.ne.u64 is_later, before, 0;\n"                                                           \
    "@!is_later st.global.u64 [errors+8], seed;\n"                                                 \
    "@!is_later st.global.u64 [errors+16], word;\n"                                                \
    "@!is_later st.global.u64 [errors+24], found;\n"                                               \
    "@!is_later st.global.u64 [errors+32], wanted;\n"

/* A text each: a string of ISO C has 4095 characters. */
#define KERNEL_HEAD                                                                                \
    ".version 6.0\n"                                                                               \
    ".target sm_50\n"                                                                              \
    ".address_size 64\n"

static const char fill_text[] =
    KERNEL_HEAD ".visible .entry fill_pattern(" KERNEL_PARAMETERS ")\n" KERNEL_BEGIN KERNEL_LOOP
                "st.global.u64 [place], wanted;\n"
                "add.u64 i, i, step;\n"
                "bra AGAIN;\n" KERNEL_TAIL "st.global.u8 [place], wanted;\n"
                "END:\n"
                "ret;\n"
                "}\n";

static const char check_text[] =
    KERNEL_HEAD ".visible .entry check_pattern(" KERNEL_PARAMETERS
                ", .param .u64 p_errors)\n" KERNEL_BEGIN "ld.param.u64 errors, [p_errors];\n"
                "cvta.to.global.u64 errors, errors;\n" KERNEL_LOOP "ld.global.u64 found, [place];\n"
                "add.u64 i, i, step;\n"
                "setp.eq.u64 is_right, found, wanted;\n"
                "@is_right bra AGAIN;\n" KERNEL_NOTE_ERROR "bra AGAIN;\n" KERNEL_TAIL
                "ld.global.u8 found, [place];\n"
                "setp.eq.u64 is_right, found, wanted;\n"
                "@is_right bra END;\n" KERNEL_NOTE_ERROR "END:\n"
                "ret;\n"
                "}\n";

_Static_assert(sizeof(replay_errors) == 40, "the kernels write its fields");
_Static_assert(REPLAY_PIECE_WORDS == 512, "the kernels shift by 9");

static vw_status launch(replay_bytes *bytes, replay_function function, const replay_visit *visit,
                        vw_stream stream)
{
    replay_visit given = *visit;
    uint64_t errors = bytes->device_errors;
    void *parameters[] = {&given.address,    &given.first_word,
                          &given.word_count, &given.stride_words,
                          &given.seed,       &given.tail_word,
                          &given.tail_bytes, &errors /* fill_pattern has one less */};
    uint64_t thread_blocks = visit->word_count / THREADS + 1;
    if (thread_blocks > MOST_THREAD_BLOCKS)
        thread_blocks = MOST_THREAD_BLOCKS;
    return replay_driver_result(
        bytes->driver,
        bytes->driver->cuLaunchKernel(function, (unsigned)thread_blocks, 1, 1, THREADS, 1, 1, 0,
                                      (vw__cuda_stream)(uintptr_t)stream, parameters, NULL),
        "cuLaunchKernel()");
}

/* ---- the same by the processor --------------------------------------------------------------- */

/* How many words from the visit's number `i` on lie side by side and fit the buffer. */
static uint64_t run_of_words(const replay_visit *visit, uint64_t i)
{
    uint64_t most = visit->stride_words == REPLAY_PIECE_WORDS ? BUFFER_WORDS : REPLAY_PIECE_WORDS;
    uint64_t left = visit->word_count - i;
    return left < most ? left : most;
}

static vw_status fill_by_processor(replay_bytes *bytes, const replay_visit *visit)
{
    const vw_device_table *table = bytes->device->table;
    uint64_t buffer[BUFFER_WORDS];
    for (uint64_t i = 0, count; i < visit->word_count; i += count) {
        uint64_t first = replay_visit_word(visit, i);
        count = run_of_words(visit, i);
        for (uint64_t j = 0; j < count; j++)
            buffer[j] = replay_pattern_word(visit->seed, first + j);
        VW__TRY(
            table->write(bytes->device->context, visit->address + 8 * first, buffer, 8 * count));
    }
    uint8_t tail[8];
    for (uint64_t i = 0; i < visit->tail_bytes; i++)
        tail[i] = replay_tail_byte(visit, i);
    return visit->tail_bytes == 0
               ? VW_OK
               : table->write(bytes->device->context, visit->address + 8 * visit->tail_word, tail,
                              visit->tail_bytes);
}

static vw_status check_by_processor(replay_bytes *bytes, const replay_visit *visit)
{
    const vw_device_table *table = bytes->device->table;
    uint64_t buffer[BUFFER_WORDS];
    for (uint64_t i = 0, count; i < visit->word_count; i += count) {
        uint64_t first = replay_visit_word(visit, i);
        count = run_of_words(visit, i);
        VW__TRY(table->read(bytes->device->context, buffer, visit->address + 8 * first, 8 * count));
        for (uint64_t j = 0; j < count; j++) {
            uint64_t wanted = replay_pattern_word(visit->seed, first + j);
            if (buffer[j] != wanted)
                replay_note_error(&bytes->errors, visit->seed, first + j, buffer[j], wanted);
        }
    }
    uint8_t tail[8];
    if (visit->tail_bytes != 0)
        VW__TRY(table->read(bytes->device->context, tail, visit->address + 8 * visit->tail_word,
                            visit->tail_bytes));
    for (uint64_t i = 0; i < visit->tail_bytes; i++)
        if (tail[i] != replay_tail_byte(visit, i))
            replay_note_error(&bytes->errors, visit->seed, visit->tail_word, tail[i],
                              replay_tail_byte(visit, i));
    return VW_OK;
}

/* ---- blocks ---------------------------------------------------------------------------------- */

vw_status replay_bytes_fill(replay_bytes *bytes, const replay_block *block, vw_stream stream)
{
    replay_visit visits[REPLAY_MOST_VISITS];
    unsigned count = replay_plan_visits(block, bytes->is_sampled, visits);
    for (unsigned i = 0; i < count; i++) {
        VW__TRY(bytes->driver != NULL ? launch(bytes, bytes->fill, &visits[i], stream)
                                      : fill_by_processor(bytes, &visits[i]));
        bytes->visited_bytes += 8 * visits[i].word_count + visits[i].tail_bytes;
    }
    return VW_OK;
}

vw_status replay_bytes_check(replay_bytes *bytes, const replay_block *block, vw_stream stream)
{
    replay_visit visits[REPLAY_MOST_VISITS];
    unsigned count = replay_plan_visits(block, bytes->is_sampled, visits);
    for (unsigned i = 0; i < count; i++) {
        VW__TRY(bytes->driver != NULL ? launch(bytes, bytes->check, &visits[i], stream)
                                      : check_by_processor(bytes, &visits[i]));
        bytes->visited_bytes += 8 * visits[i].word_count + visits[i].tail_bytes;
    }
    return VW_OK;
}

vw_status replay_bytes_take_errors(replay_bytes *bytes, replay_errors *out)
{
    const vw_device_table *table = bytes->device->table;
    const replay_errors none = {.count = 0};
    VW__TRY(table->synchronize(bytes->device->context));
    if (bytes->driver != NULL) {
        VW__TRY(table->read(bytes->device->context, &bytes->errors, bytes->device_errors,
                            sizeof bytes->errors));
        VW__TRY(table->write(bytes->device->context, bytes->device_errors, &none, sizeof none));
    }
    *out = bytes->errors;
    bytes->errors = none;
    return VW_OK;
}

/* ---- beginning and end ----------------------------------------------------------------------- */

static vw_status count_errors(replay_bytes *bytes, const replay_block *block, uint64_t *out)
{
    replay_errors errors;
    VW__TRY(replay_bytes_check(bytes, block, 0));
    VW__TRY(replay_bytes_take_errors(bytes, &errors));
    *out = errors.count;
    return VW_OK;
}

/* What the processor finds wrong in a block that kernels wrote. */
static vw_status count_by_processor(replay_bytes *bytes, const replay_block *block, uint64_t *out)
{
    replay_bytes processor = {.device = bytes->device, .is_sampled = bytes->is_sampled};
    return count_errors(&processor, block, out);
}

/* Spoils a byte at each end of a block and counts what is seen of it. A tail's bytes are words of
 * their own. */
static vw_status try_block(replay_bytes *bytes, const replay_block *block)
{
    const vw_device_table *table = bytes->device->table;
    uint64_t places[2] = {0, block->size_bytes - 1}, fresh = 0, seen_otherwise = 0, spoilt = 0;
    VW__TRY(replay_bytes_fill(bytes, block, 0));
    VW__TRY(count_errors(bytes, block, &fresh));
    VW__TRY(count_by_processor(bytes, block, &seen_otherwise));
    for (int end = 0; end < 2; end++) {
        uint8_t byte;
        vw_device_ptr place = block->address + places[end];
        VW__TRY(table->read(bytes->device->context, &byte, place, 1));
        byte ^= 0x80;
        VW__TRY(table->write(bytes->device->context, place, &byte, 1));
    }
    VW__TRY(count_errors(bytes, block, &spoilt));
    if (fresh != 0 || seen_otherwise != 0 || spoilt != 2)
        return vw__fail(VW_ERR_DEVICE,
                        "the patterns do not work here: of a block just written %" PRIu64
                        " words were wrong, by the processor %" PRIu64
                        "; with two bytes spoilt, %" PRIu64,
                        fresh, seen_otherwise, spoilt);
    return VW_OK;
}

/* A check that cannot fail would be no check; and the kernels run warm afterwards. */
static vw_status try_patterns(replay_bytes *bytes)
{
    const vw_device_table *table = bytes->device->table;
    replay_block block = {.size_bytes = 4 * REPLAY_WHOLE_UP_TO_BYTES + 3, .seed = 1};
    VW__TRY(table->take(bytes->device->context, block.size_bytes, &block.address));
    vw_status status = try_block(bytes, &block);
    vw_status end_status = table->give_back(bytes->device->context, block.address);
    bytes->visited_bytes = 0;
    return status != VW_OK ? status : end_status;
}

static vw_status load_kernel(const replay_driver *driver, const char *text, const char *name,
                             replay_module *module, replay_function *function)
{
    VW__TRY(
        replay_driver_result(driver, driver->cuModuleLoadData(module, text), "cuModuleLoadData()"));
    return replay_driver_result(driver, driver->cuModuleGetFunction(function, *module, name),
                                "cuModuleGetFunction()");
}

static vw_status load_kernels(replay_bytes *bytes)
{
    const vw_device *device = bytes->device;
    const replay_errors none = {.count = 0};
    VW__TRY(
        load_kernel(bytes->driver, fill_text, "fill_pattern", &bytes->fill_module, &bytes->fill));
    VW__TRY(load_kernel(bytes->driver, check_text, "check_pattern", &bytes->check_module,
                        &bytes->check));
    VW__TRY(device->table->take(device->context, sizeof none, &bytes->device_errors));
    return device->table->write(device->context, bytes->device_errors, &none, sizeof none);
}

vw_status replay_bytes_init(replay_bytes *bytes, vw_device *device, const replay_driver *driver,
                            bool is_sampled)
{
    *bytes = (replay_bytes){.device = device, .driver = driver, .is_sampled = is_sampled};
    vw_status status = driver != NULL ? load_kernels(bytes) : VW_OK;
    if (status == VW_OK)
        status = try_patterns(bytes);
    if (status != VW_OK)
        replay_bytes_deinit(bytes);
    return status;
}

void replay_bytes_deinit(replay_bytes *bytes)
{
    if (bytes->device_errors != VW_NULL)
        (void)bytes->device->table->give_back(bytes->device->context, bytes->device_errors);
    if (bytes->fill_module != NULL)
        (void)bytes->driver->cuModuleUnload(bytes->fill_module);
    if (bytes->check_module != NULL)
        (void)bytes->driver->cuModuleUnload(bytes->check_module);
    *bytes = (replay_bytes){.device = NULL};
}
