/* ordered_tree.h - an intrusive ordered set.
 *
 * Nodes live inside the records they order, so nothing here allocates and nothing can fail. The
 * tree is a treap: a search tree by the caller's order, a heap by a number mixed from the node's
 * own address, which makes the expected depth logarithmic whatever the insertion order. We took it
 * over a red-black tree because its insert and remove are a dozen lines each,
 * and because most of our trees (one per size bin, see engine/free_index.h) hold one to four
 * nodes, where every scheme is equally balanced and the shortest code wins.
 *
 * The functions are inlined with the caller's comparison, which must be a total order: two
 * different nodes never compare equal. The caller keeps nodes unchanged, as far as the order looks
 * at them, while they are in a tree. No locks. */
#ifndef HR_BASE_ORDERED_TREE_H
#define HR_BASE_ORDERED_TREE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HR__INLINE static inline __attribute__((always_inline, unused))

typedef struct hr__tree_node {
    struct hr__tree_node *left;
    struct hr__tree_node *right;
    struct hr__tree_node *parent; /* so that removal need not search: most searches mispredict */
} hr__tree_node;

/* Does `a` come before `b`? */
typedef bool (*hr__tree_before)(const hr__tree_node *a, const hr__tree_node *b);

HR__INLINE uint64_t hr__tree_rank(const hr__tree_node *node)
{
    /* Twice: records of one slab lie at even steps, and one multiplication keeps steps even. */
    uint64_t mixed = (uint64_t)(uintptr_t)node * UINT64_C(0x9E3779B97F4A7C15);
    mixed = (mixed ^ (mixed >> 32)) * UINT64_C(0x9E3779B97F4A7C15);
    return mixed ^ (mixed >> 32);
}

/* What points at `node` from above. */
HR__INLINE hr__tree_node **hr__tree_link(hr__tree_node **root, const hr__tree_node *node)
{
    hr__tree_node *parent = node->parent;
    if (parent == NULL)
        return root;
    return parent->left == node ? &parent->left : &parent->right;
}

/* `node` and its parent change places, keeping the order. */
static inline void hr__tree_rotate_up(hr__tree_node **root, hr__tree_node *node)
{
    hr__tree_node *parent = node->parent, *moved;
    *hr__tree_link(root, parent) = node;
    if (parent->left == node) {
        moved = parent->left = node->right;
        node->right = parent;
    } else {
        moved = parent->right = node->left;
        node->left = parent;
    }
    if (moved != NULL)
        moved->parent = parent;
    node->parent = parent->parent;
    parent->parent = node;
}

HR__INLINE void hr__tree_insert(hr__tree_node **root, hr__tree_node *node, hr__tree_before before)
{
    hr__tree_node **link = root, *parent = NULL;
    while (*link != NULL) {
        parent = *link;
        link = before(node, parent) ? &parent->left : &parent->right;
    }
    *link = node;
    node->left = node->right = NULL;
    node->parent = parent;
    if (parent == NULL)
        return; /* the usual case: an empty bin */
    uint64_t rank = hr__tree_rank(node);
    while (node->parent != NULL && hr__tree_rank(node->parent) < rank)
        hr__tree_rotate_up(root, node);
}

/* `node` must be in the tree. */
HR__INLINE void hr__tree_remove(hr__tree_node **root, hr__tree_node *node)
{
    while (node->left != NULL && node->right != NULL)
        hr__tree_rotate_up(root, hr__tree_rank(node->left) > hr__tree_rank(node->right)
                                     ? node->left
                                     : node->right);
    hr__tree_node *child = node->left != NULL ? node->left : node->right;
    *hr__tree_link(root, node) = child;
    if (child != NULL)
        child->parent = node->parent;
}

/* The first node that does not come before `key`, or NULL. `key` need not be in the tree. */
HR__INLINE hr__tree_node *hr__tree_first_from(hr__tree_node *root, const hr__tree_node *key,
                                              hr__tree_before before)
{
    hr__tree_node *best = NULL;
    while (root != NULL) {
        if (before(root, key)) {
            root = root->right;
        } else {
            best = root;
            root = root->left;
        }
    }
    return best;
}

/* The first node after `key`, and the last one before it; NULL where there is none. */
HR__INLINE hr__tree_node *hr__tree_after(hr__tree_node *root, const hr__tree_node *key,
                                         hr__tree_before before)
{
    hr__tree_node *best = NULL;
    while (root != NULL) {
        if (before(key, root)) {
            best = root;
            root = root->left;
        } else {
            root = root->right;
        }
    }
    return best;
}

HR__INLINE hr__tree_node *hr__tree_last_before(hr__tree_node *root, const hr__tree_node *key,
                                               hr__tree_before before)
{
    hr__tree_node *best = NULL;
    while (root != NULL) {
        if (before(root, key)) {
            best = root;
            root = root->right;
        } else {
            root = root->left;
        }
    }
    return best;
}

HR__INLINE hr__tree_node *hr__tree_first(hr__tree_node *root)
{
    while (root != NULL && root->left != NULL)
        root = root->left;
    return root;
}

/* The node after one that is in the tree; NULL after the last. */
HR__INLINE hr__tree_node *hr__tree_next(hr__tree_node *node)
{
    if (node->right != NULL)
        return hr__tree_first(node->right);
    hr__tree_node *parent = node->parent;
    for (; parent != NULL && parent->right == node; parent = node->parent)
        node = parent;
    return parent;
}

HR__INLINE hr__tree_node *hr__tree_last(hr__tree_node *root)
{
    while (root != NULL && root->right != NULL)
        root = root->right;
    return root;
}

#endif /* HR_BASE_ORDERED_TREE_H */
