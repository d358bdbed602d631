/* free_index.h - the free blocks of one lane, by size: the heart of best fit.
 *
 * The order is PyTorch's: size, then tie-break number, then address, ascending. A request takes the
 * first block that is not smaller. A single search tree gives that in a dozen dependent loads and
 * mispredicted branches, five times per allocation and free; at the sizes seen in training that is
 * most of the time an allocator takes. So the sizes are cut into bins, and each bin has a tree:
 *
 *   units of 512 bytes   up to 127, a bin each
 *   above                64 bins from one power of two to the next
 *   from 2^41 bytes on   one last bin for all
 *
 * A bit per bin says which are not empty, and a bit per word of those says which words are not
 * zero, so the next bin in use is found with two count-trailing-zeros. Bins rise with size, so the
 * order across bins is the order of sizes, and inside a bin the tree (one to four nodes in
 * practice) keeps it exactly. Nothing is approximate: the answer is that of the one big tree.
 *
 * Invariants, walked by hr__free_index_check():
 *   - a bit is set exactly where the bin's tree is not empty
 *   - every block is in the bin of its size, in state FREE
 *
 * No memory is taken after creation, nothing can fail. Guarded by the pool's lock. */
#ifndef HR_ENGINE_FREE_INDEX_H
#define HR_ENGINE_FREE_INDEX_H

#include <stdbool.h>
#include <stdint.h>

#include "base/ordered_tree.h"
#include "engine/block.h"

#define HR__INDEX_UNIT_LOG2 9                          /* 512 bytes, the smallest block */
#define HR__INDEX_STEPS_LOG2 6                         /* 64 bins per doubling */
#define HR__INDEX_LAST_LOG2 (41 - HR__INDEX_UNIT_LOG2) /* sizes from 2^41 on share a bin */
#define HR__INDEX_BINS ((HR__INDEX_LAST_LOG2 - HR__INDEX_STEPS_LOG2 + 2) << HR__INDEX_STEPS_LOG2)
#define HR__INDEX_WORDS (HR__INDEX_BINS / 64)

typedef struct hr__free_index {
    uint64_t words_in_use; /* bit w: bins_in_use[w] is not zero */
    uint64_t bins_in_use[HR__INDEX_WORDS];
    hr__tree_node *bins[HR__INDEX_BINS];
} hr__free_index;

_Static_assert(HR__INDEX_WORDS <= 64, "one word has a bit for each");

static inline hr__block *hr__block_of_node(hr__tree_node *node)
{
    return (hr__block *)(void *)node; /* `node` is the first field */
}

HR__INLINE bool hr__block_size_before(const hr__tree_node *left, const hr__tree_node *right)
{
    const hr__block *a = (const hr__block *)(const void *)left;
    const hr__block *b = (const hr__block *)(const void *)right;
    if (a->size_bytes != b->size_bytes)
        return a->size_bytes < b->size_bytes;
    if (a->tie_break != b->tie_break)
        return a->tie_break < b->tie_break;
    return a->address < b->address;
}

HR__INLINE bool hr__block_address_before(const hr__tree_node *left, const hr__tree_node *right)
{
    return ((const hr__block *)(const void *)left)->address <
           ((const hr__block *)(const void *)right)->address;
}

HR__INLINE unsigned hr__free_index_bin(uint64_t size_bytes)
{
    uint64_t units = size_bytes >> HR__INDEX_UNIT_LOG2;
    /* floor(log2), but at least STEPS_LOG2: small sizes then have a bin each without a branch. */
    unsigned log2 = 63u ^ (unsigned)__builtin_clzll(units | (UINT64_C(1) << HR__INDEX_STEPS_LOG2));
    if (__builtin_expect(log2 >= HR__INDEX_LAST_LOG2, 0))
        return HR__INDEX_BINS - (1u << HR__INDEX_STEPS_LOG2);
    /* The leading one of units selects the run of bins, the bits after it the bin in the run. */
    unsigned shift = log2 - HR__INDEX_STEPS_LOG2;
    return (shift << HR__INDEX_STEPS_LOG2) + (unsigned)(units >> shift);
}

HR__INLINE void hr__free_index_insert_into(hr__free_index *index, hr__block *block, unsigned bin)
{
    block->bin = (uint16_t)bin;
    hr__tree_insert(&index->bins[bin], &block->node, hr__block_size_before);
    index->bins_in_use[bin >> 6] |= UINT64_C(1) << (bin & 63);
    index->words_in_use |= UINT64_C(1) << (bin >> 6);
}

HR__INLINE void hr__free_index_insert(hr__free_index *index, hr__block *block)
{
    hr__free_index_insert_into(index, block, hr__free_index_bin(block->size_bytes));
}

HR__INLINE void hr__free_index_remove(hr__free_index *index, hr__block *block)
{
    unsigned bin = block->bin;
    hr__tree_remove(&index->bins[bin], &block->node);
    if (index->bins[bin] == NULL) {
        uint64_t rest = index->bins_in_use[bin >> 6] & ~(UINT64_C(1) << (bin & 63));
        index->bins_in_use[bin >> 6] = rest;
        if (rest == 0)
            index->words_in_use &= ~(UINT64_C(1) << (bin >> 6));
    }
}

/* Is the block alone in its bin? Then a change of its size within the bin changes no order. */
HR__INLINE bool hr__free_index_is_alone(const hr__free_index *index, const hr__block *block)
{
    return index->bins[block->bin] == &block->node && block->node.left == NULL &&
           block->node.right == NULL;
}

/* `block` loses `bytes` at its low end and stays in the index. Usually it stays in its bin, alone.
 */
HR__INLINE void hr__free_index_shrink(hr__free_index *index, hr__block *block, uint64_t bytes)
{
    unsigned bin = hr__free_index_bin(block->size_bytes - bytes);
    if (bin == block->bin && hr__free_index_is_alone(index, block)) {
        block->address += bytes;
        block->size_bytes -= bytes;
        return;
    }
    hr__free_index_remove(index, block);
    block->address += bytes;
    block->size_bytes -= bytes;
    hr__free_index_insert_into(index, block, bin);
}

/* `block` comes into the index in place of `gone`, whose bytes it has taken over. */
HR__INLINE void hr__free_index_replace(hr__free_index *index, hr__block *gone, hr__block *block)
{
    unsigned bin = hr__free_index_bin(block->size_bytes);
    if (bin == gone->bin && hr__free_index_is_alone(index, gone)) {
        block->bin = (uint16_t)bin;
        block->node = (hr__tree_node){NULL, NULL, NULL};
        index->bins[bin] = &block->node;
        return;
    }
    hr__free_index_remove(index, gone);
    hr__free_index_insert_into(index, block, bin);
}

/* The first bin in use from `bin` on; HR__INDEX_BINS if there is none. */
HR__INLINE unsigned hr__free_index_bin_from(const hr__free_index *index, unsigned bin)
{
    if (bin >= HR__INDEX_BINS)
        return HR__INDEX_BINS;
    unsigned word = bin >> 6;
    uint64_t bits = index->bins_in_use[word] & (~UINT64_C(0) << (bin & 63));
    if (bits == 0) {
        uint64_t words = word == 63 ? 0 : index->words_in_use & (~UINT64_C(0) << (word + 1));
        if (words == 0)
            return HR__INDEX_BINS;
        word = (unsigned)__builtin_ctzll(words);
        bits = index->bins_in_use[word];
    }
    return (word << 6) + (unsigned)__builtin_ctzll(bits);
}

HR__INLINE hr__block *hr__free_index_first_in_bins(const hr__free_index *index, unsigned bin)
{
    bin = hr__free_index_bin_from(index, bin);
    return bin == HR__INDEX_BINS ? NULL : hr__block_of_node(hr__tree_first(index->bins[bin]));
}

/* Best fit: the first block of at least `size_bytes`, or NULL. */
HR__INLINE hr__block *hr__free_index_best_fit(const hr__free_index *index, uint64_t size_bytes)
{
    unsigned wanted = hr__free_index_bin(size_bytes);
    unsigned bin = hr__free_index_bin_from(index, wanted);
    if (bin == wanted) { /* it may hold blocks on both sides of the request */
        hr__block *best = NULL;
        hr__tree_node *node = index->bins[bin];
        while (node != NULL) {
            hr__block *block = hr__block_of_node(node);
            if (block->size_bytes >= size_bytes) {
                best = block;
                node = node->left;
            } else {
                node = node->right;
            }
        }
        if (best != NULL)
            return best;
        bin = hr__free_index_bin_from(index, wanted + 1);
    }
    return bin == HR__INDEX_BINS ? NULL : hr__block_of_node(hr__tree_first(index->bins[bin]));
}

/* Walking up and down in order. NULL at the ends. */
hr__block *hr__free_index_first(const hr__free_index *index);
hr__block *hr__free_index_last(const hr__free_index *index);
hr__block *hr__free_index_after(const hr__free_index *index, const hr__block *block);
hr__block *hr__free_index_before(const hr__free_index *index, const hr__block *block);

/* The last block smaller than `size_bytes`, or NULL. */
hr__block *hr__free_index_last_below(const hr__free_index *index, uint64_t size_bytes);

/* NULL if all is well, else what is not (a static string). */
const char *hr__free_index_check(const hr__free_index *index);

#endif /* HR_ENGINE_FREE_INDEX_H */
