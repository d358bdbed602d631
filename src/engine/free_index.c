/* free_index.c - the ways through a free index that are not on the allocation path. */
#include "engine/free_index.h"

/* The last bin in use below `bin`; HR__INDEX_BINS if there is none. */
static unsigned bin_below(const hr__free_index *index, unsigned bin)
{
    while (bin-- > 0) {
        unsigned word = bin >> 6;
        uint64_t bits = index->bins_in_use[word] & (~UINT64_C(0) >> (63 - (bin & 63)));
        if (bits != 0)
            return (word << 6) + 63u - (unsigned)__builtin_clzll(bits);
        bin = word << 6; /* nothing left in this word */
    }
    return HR__INDEX_BINS;
}

static hr__block *last_in_bins_below(const hr__free_index *index, unsigned bin)
{
    bin = bin_below(index, bin);
    return bin == HR__INDEX_BINS ? NULL : hr__block_of_node(hr__tree_last(index->bins[bin]));
}

hr__block *hr__free_index_first(const hr__free_index *index)
{
    return hr__free_index_first_in_bins(index, 0);
}

hr__block *hr__free_index_last(const hr__free_index *index)
{
    return last_in_bins_below(index, HR__INDEX_BINS);
}

hr__block *hr__free_index_after(const hr__free_index *index, const hr__block *block)
{
    unsigned bin = hr__free_index_bin(block->size_bytes);
    hr__tree_node *node = hr__tree_after(index->bins[bin], &block->node, hr__block_size_before);
    return node != NULL ? hr__block_of_node(node) : hr__free_index_first_in_bins(index, bin + 1);
}

hr__block *hr__free_index_before(const hr__free_index *index, const hr__block *block)
{
    unsigned bin = hr__free_index_bin(block->size_bytes);
    hr__tree_node *node =
        hr__tree_last_before(index->bins[bin], &block->node, hr__block_size_before);
    return node != NULL ? hr__block_of_node(node) : last_in_bins_below(index, bin);
}

hr__block *hr__free_index_last_below(const hr__free_index *index, uint64_t size_bytes)
{
    const hr__block key = {.size_bytes = size_bytes}; /* before every block of that size */
    return hr__free_index_before(index, &key);
}

/* In order: `*last` is the node visited before, over the whole of a bin's tree. */
static const char *check_tree(const hr__tree_node *node, unsigned bin, const hr__tree_node **last)
{
    if (node == NULL)
        return NULL;
    const char *wrong = check_tree(node->left, bin, last);
    if (wrong != NULL)
        return wrong;
    const hr__block *block = (const hr__block *)(const void *)node;
    if (block->state != HR__BLOCK_FREE)
        return "a block in the free index is not free";
    if (hr__free_index_bin(block->size_bytes) != bin || block->bin != bin)
        return "a block is in the bin of another size";
    if (*last != NULL && !hr__block_size_before(*last, node))
        return "a bin's tree is out of order";
    if ((node->left != NULL && node->left->parent != node) ||
        (node->right != NULL && node->right->parent != node))
        return "a node does not know its parent";
    *last = node;
    return check_tree(node->right, bin, last);
}

const char *hr__free_index_check(const hr__free_index *index)
{
    for (unsigned bin = 0; bin < HR__INDEX_BINS; bin++) {
        const hr__tree_node *last = NULL;
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
            (word < HR__INDEX_WORDS && index->bins_in_use[word] != 0))
            return "a word's bit does not say whether the word is zero";
    return NULL;
}
