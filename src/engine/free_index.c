/* free_index.c - the ways through a free index that are not on the allocation path. */
#include "engine/free_index.h"

/* The last bin in use below `bin`; VW__FREE_INDEX_BINS if there is none. */
static unsigned bin_below(const vw__free_index *index, unsigned bin)
{
    unsigned word = bin >> 6;
    uint64_t bits = 0;
    if (word < VW__FREE_INDEX_WORDS)
        bits = index->bins_in_use[word] & ((UINT64_C(1) << (bin & 63)) - 1);
    if (bits == 0) {
        uint64_t words = index->words_in_use & ((UINT64_C(1) << word) - 1);
        if (words == 0)
            return VW__FREE_INDEX_BINS;
        word = 63u - (unsigned)__builtin_clzll(words);
        bits = index->bins_in_use[word];
    }
    return (word << 6) + 63u - (unsigned)__builtin_clzll(bits);
}

static vw__block *last_in_bins_below(const vw__free_index *index, unsigned bin)
{
    bin = bin_below(index, bin);
    return bin == VW__FREE_INDEX_BINS ? NULL : vw__block_of_node(vw__tree_last(index->bins[bin]));
}

vw__block *vw__free_index_first(const vw__free_index *index)
{
    return vw__free_index_first_in_bins(index, 0);
}

vw__block *vw__free_index_last(const vw__free_index *index)
{
    return last_in_bins_below(index, VW__FREE_INDEX_BINS);
}

vw__block *vw__free_index_after(const vw__free_index *index, const vw__block *block)
{
    unsigned bin = vw__free_index_bin(block->size_bytes);
    vw__tree_node *node = vw__tree_after(index->bins[bin], &block->node, vw__block_size_before);
    return node != NULL ? vw__block_of_node(node) : vw__free_index_first_in_bins(index, bin + 1);
}

vw__block *vw__free_index_before(const vw__free_index *index, const vw__block *block)
{
    unsigned bin = vw__free_index_bin(block->size_bytes);
    vw__tree_node *node =
        vw__tree_last_before(index->bins[bin], &block->node, vw__block_size_before);
    return node != NULL ? vw__block_of_node(node) : last_in_bins_below(index, bin);
}

vw__block *vw__free_index_last_below(const vw__free_index *index, uint64_t size_bytes)
{
    const vw__block key = {.size_bytes = size_bytes}; /* before every block of that size */
    return vw__free_index_before(index, &key);
}

/* In order: `*last` is the node visited before, over the whole of a bin's tree. */
static const char *check_tree(const vw__tree_node *node, unsigned bin, const vw__tree_node **last)
{
    if (node == NULL)
        return NULL;
    const char *wrong = check_tree(node->left, bin, last);
    if (wrong != NULL)
        return wrong;
    const vw__block *block = (const vw__block *)(const void *)node;
    if (block->state != VW__BLOCK_FREE)
        return "a block in the free index is not free";
    if (vw__free_index_bin(block->size_bytes) != bin || block->bin != bin)
        return "a block is in the bin of another size";
    if (*last != NULL && !vw__block_size_before(*last, node))
        return "a bin's tree is out of order";
    if ((node->left != NULL && node->left->parent != node) ||
        (node->right != NULL && node->right->parent != node))
        return "a node does not know its parent";
    *last = node;
    return check_tree(node->right, bin, last);
}

const char *vw__free_index_check(const vw__free_index *index)
{
    for (unsigned bin = 0; bin < VW__FREE_INDEX_BINS; bin++) {
        const vw__tree_node *last = NULL;
        bool is_marked = (index->bins_in_use[bin >> 6] >> (bin & 63)) & 1;
        if (is_marked != (index->bins[bin] != NULL))
            return "a bin's bit does not say whether the bin is empty";
        if (index->bins[bin] != NULL && index->bins[bin]->parent != NULL)
            return "a node does not know its parent";
        const char *wrong = check_tree(index->bins[bin], bin, &last);
        if (wrong != NULL)
            return wrong;
    }
    for (unsigned word = 0; word < 64; word++)
        if (((index->words_in_use >> word) & 1) !=
            (word < VW__FREE_INDEX_WORDS && index->bins_in_use[word] != 0))
            return "a word's bit does not say whether the word is zero";
    return NULL;
}
