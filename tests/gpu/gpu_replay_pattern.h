/* gpu_replay_pattern.h - what gpu_replay writes into blocks, and which words of them.
 *
 * A word's value depends on the block's seed, which no other block of a run has, and on the word's
 * place in the block; for a given place different seeds give different values, and the other way
 * round. So a word that another block wrote, that was left at an old page, or that never arrived is
 * seen, and says by its neighbours how it came there.
 *
 * Words are eight bytes. What is left of a block behind the last whole word is its *tail*, and gets
 * the low bytes of the word that would stand there. A *visit* is what one kernel goes through:
 * pieces of PIECE_WORDS words, evenly spaced (a whole block is pieces without a space between), and
 * the tail. The same formula is in the kernels (gpu_replay_bytes.c), here for the processor, and in
 * the fake driver that stands in for a GPU in tests. */
#ifndef VW_TESTS_GPU_REPLAY_PATTERN_H
#define VW_TESTS_GPU_REPLAY_PATTERN_H

#include <stdbool.h>
#include <stdint.h>

#include "vramwise/device.h" /* vw_device_ptr, vw_stream */

enum {
    REPLAY_PIECE_WORDS = 512, /* a power of two: the kernels shift and mask */
    REPLAY_SAMPLED_PIECES = 64,
    REPLAY_MOST_VISITS = 2, /* to one block */
};

/* Up to here every byte is visited, sampled or not. */
#define REPLAY_WHOLE_UP_TO_BYTES (UINT64_C(1) << 20)

#define REPLAY_INDEX_FACTOR UINT64_C(0x9E3779B97F4A7C15)
#define REPLAY_MIX_FACTOR UINT64_C(0xD6E8FEB86659FD93)

typedef struct replay_block {
    vw_device_ptr address; /* VW_NULL: nothing here */
    uint64_t size_bytes;
    vw_stream stream; /* it was allocated for */
    uint64_t seed;
} replay_block;

/* The kernels' parameters, in this order. */
typedef struct replay_visit {
    uint64_t address;    /* of the block */
    uint64_t first_word; /* of the first piece */
    uint64_t word_count; /* in all pieces */
    uint64_t stride_words;
    uint64_t seed;
    uint64_t tail_word;  /* where the tail begins */
    uint64_t tail_bytes; /* 0 to 7 */
} replay_visit;

/* What the check kernel counts. All but the count is of one of the first wrong words. */
typedef struct replay_errors {
    uint64_t count;
    uint64_t seed;
    uint64_t word; /* its place in the block */
    uint64_t found;
    uint64_t wanted;
} replay_errors;

static inline uint64_t replay_pattern_word(uint64_t seed, uint64_t word)
{
    uint64_t mixed = seed ^ (word * REPLAY_INDEX_FACTOR);
    mixed ^= mixed >> 32;
    mixed *= REPLAY_MIX_FACTOR;
    return mixed ^ (mixed >> 32);
}

/* The place in the block of the visit's word number `i`. */
static inline uint64_t replay_visit_word(const replay_visit *visit, uint64_t i)
{
    return visit->first_word + i / REPLAY_PIECE_WORDS * visit->stride_words +
           i % REPLAY_PIECE_WORDS;
}

static inline uint8_t replay_tail_byte(const replay_visit *visit, uint64_t i)
{
    return (uint8_t)(replay_pattern_word(visit->seed, visit->tail_word) >> (8 * i));
}

/* Notes a wrong word as the check kernel does. */
static inline void replay_note_error(replay_errors *errors, uint64_t seed, uint64_t word,
                                     uint64_t found, uint64_t wanted)
{
    if (errors->count++ == 0)
        *errors = (replay_errors){1, seed, word, found, wanted};
}

/* The visits that cover `block`, and how many they are; sampled, a large one is visited in evenly
 * spaced pieces, the first bytes and the last among them. */
static inline unsigned replay_plan_visits(const replay_block *block, bool is_sampled,
                                          replay_visit out[REPLAY_MOST_VISITS])
{
    uint64_t words = block->size_bytes / 8;
    replay_visit whole = {
        .address = block->address,
        .word_count = words,
        .stride_words = REPLAY_PIECE_WORDS,
        .seed = block->seed,
        .tail_word = words,
        .tail_bytes = block->size_bytes % 8,
    };
    out[0] = whole;
    if (!is_sampled || block->size_bytes <= REPLAY_WHOLE_UP_TO_BYTES)
        return 1;
    out[0].word_count = (uint64_t)REPLAY_SAMPLED_PIECES * REPLAY_PIECE_WORDS;
    out[0].stride_words = words / REPLAY_SAMPLED_PIECES;
    out[0].tail_bytes = 0;
    out[1] = whole;
    out[1].first_word = words - REPLAY_PIECE_WORDS;
    out[1].word_count = REPLAY_PIECE_WORDS;
    return 2;
}

#endif /* VW_TESTS_GPU_REPLAY_PATTERN_H */
