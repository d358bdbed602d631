/* ordered_tree.h - an intrusive ordered set.
 *
 * Nodes live inside the records they order, so nothing here allocates and nothing can fail. The
 * tree is a treap: a search tree by the caller's order, a heap by a number mixed from the node's
 * own address, which makes the expected depth logarithmic for any insertion order. We chose it over
 * a red-black tree because insert and remove are a dozen lines each, and because most of our trees
 * (one per size bin, see engine/free_index.h) hold one to four nodes, where every scheme is
 * balanced and the shortest code wins. For the same reason a node that comes in near the root stays
 * where it comes in: the heap is kept from VW__TREE_SHALLOW nodes down, which adds about as many to
 * the longest way, and spares the usual insertion its rotations and their mispredicted branches.
 *
 * The functions are inlined with the caller's comparison, which must be a total order: two
 * different nodes never compare equal. The caller keeps nodes unchanged, as far as the order looks
 * at them, while they are in a tree. No locks. */
#ifndef VW_BASE_ORDERED_TREE_H
#define VW_BASE_ORDERED_TREE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define VW__TREE_INLINE static inline __attribute__((always_inline, unused))

typedef struct vw__tree_node {
    struct vw__tree_node *left;
    struct vw__tree_node *right;
    struct vw__tree_node *parent; /* so that removal need not search: most searches mispredict */
} vw__tree_node;

enum { VW__TREE_SHALLOW = 4 };

/* Does `a` come before `b`? */
typedef bool (*vw__tree_before)(const vw__tree_node *a, const vw__tree_node *b);

VW__TREE_INLINE uint64_t vw__tree_rank(const vw__tree_node *node)
{
    /* Twice: records of one slab lie at even steps, and one multiplication keeps steps even. */
    uint64_t mixed = (uint64_t)(uintptr_t)node * UINT64_C(0x9E3779B97F4A7C15);
    mixed = (mixed ^ (mixed >> 32)) * UINT64_C(0x9E3779B97F4A7C15);
    return mixed ^ (mixed >> 32);
}

/* What points at `node` from above. */
VW__TREE_INLINE vw__tree_node **vw__tree_link(vw__tree_node **root, const vw__tree_node *node)
{
    vw__tree_node *parent = node->parent;
    if (parent == NULL)
        return root;
    return parent->left == node ? &parent->left : &parent->right;
}

/* `node` and its parent change places, keeping the order. */
static inline void vw__tree_rotate_up(vw__tree_node **root, vw__tree_node *node)
{
    vw__tree_node *parent = node->parent, *moved;
    *vw__tree_link(root, parent) = node;
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

VW__TREE_INLINE void vw__tree_insert(vw__tree_node **root, vw__tree_node *node,
                                     vw__tree_before before)
{
    vw__tree_node **link = root, *parent = NULL;
    unsigned depth = 0;
    for (; *link != NULL; depth++) {
        parent = *link;
        link = before(node, parent) ? &parent->left : &parent->right;
    }
    *link = node;
    node->left = node->right = NULL;
    node->parent = parent;
    if (depth < VW__TREE_SHALLOW)
        return;
    uint64_t rank = vw__tree_rank(node);
    while (node->parent != NULL && vw__tree_rank(node->parent) < rank)
        vw__tree_rotate_up(root, node);
}

/* `node` must be in the tree. */
VW__TREE_INLINE void vw__tree_remove(vw__tree_node **root, vw__tree_node *node)
{
    while (node->left != NULL && node->right != NULL)
        vw__tree_rotate_up(root, vw__tree_rank(node->left) > vw__tree_rank(node->right)
                                     ? node->left
                                     : node->right);
    vw__tree_node *child = node->left != NULL ? node->left : node->right;
    *vw__tree_link(root, node) = child;
    if (child != NULL)
        child->parent = node->parent;
}

/* The first node that does not come before `key`, or NULL. `key` need not be in the tree. */
VW__TREE_INLINE vw__tree_node *vw__tree_first_from(vw__tree_node *root, const vw__tree_node *key,
                                                   vw__tree_before before)
{
    vw__tree_node *best = NULL;
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
VW__TREE_INLINE vw__tree_node *vw__tree_after(vw__tree_node *root, const vw__tree_node *key,
                                              vw__tree_before before)
{
    vw__tree_node *best = NULL;
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

VW__TREE_INLINE vw__tree_node *vw__tree_last_before(vw__tree_node *root, const vw__tree_node *key,
                                                    vw__tree_before before)
{
    vw__tree_node *best = NULL;
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

VW__TREE_INLINE vw__tree_node *vw__tree_first(vw__tree_node *root)
{
    while (root != NULL && root->left != NULL)
        root = root->left;
    return root;
}

/* The node after one that is in the tree; NULL after the last. */
VW__TREE_INLINE vw__tree_node *vw__tree_next(vw__tree_node *node)
{
    if (node->right != NULL)
        return vw__tree_first(node->right);
    vw__tree_node *parent = node->parent;
    for (; parent != NULL && parent->right == node; parent = node->parent)
        node = parent;
    return parent;
}

VW__TREE_INLINE vw__tree_node *vw__tree_last(vw__tree_node *root)
{
    while (root != NULL && root->right != NULL)
        root = root->right;
    return root;
}

#endif /* VW_BASE_ORDERED_TREE_H */
