/* test_ordered_tree.c - the tree against a plain list of what should be in it. */
#include "base/ordered_tree.h"

#include <stdlib.h>

#include "support/cmocka_here.h"

typedef struct item {
    uint64_t size;
    vw__tree_node node;
    bool is_in;
} item;

static item *item_of(const vw__tree_node *node)
{
    return (item *)((char *)(uintptr_t)node - offsetof(item, node));
}

/* By size, then by address: a total order, as the free index has. */
static bool comes_before(const vw__tree_node *a, const vw__tree_node *b)
{
    const item *first = item_of(a), *second = item_of(b);
    return first->size != second->size ? first->size < second->size : first < second;
}

static uint64_t next_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

/* ---- a model: look at every item ------------------------------------------------------------- */

enum { ITEM_COUNT = 300 };

static item items[ITEM_COUNT];

/* The neighbour of `key` among the items that are in: the nearest after it, or before it. */
static vw__tree_node *nearest(const vw__tree_node *key, bool is_after)
{
    vw__tree_node *best = NULL;
    for (size_t i = 0; i < ITEM_COUNT; i++) {
        vw__tree_node *node = &items[i].node;
        if (!items[i].is_in || node == key || comes_before(key, node) != is_after)
            continue;
        if (best == NULL || comes_before(node, best) == is_after)
            best = node;
    }
    return best;
}

static size_t check_below(const vw__tree_node *node)
{
    if (node == NULL)
        return 0;
    assert_true(item_of(node)->is_in);
    if (node->left != NULL)
        assert_true(comes_before(node->left, node) && node->left->parent == node);
    if (node->right != NULL)
        assert_true(comes_before(node, node->right) && node->right->parent == node);
    return 1 + check_below(node->left) + check_below(node->right);
}

static void check_walk(vw__tree_node *root, size_t expected_count)
{
    assert_int_equal(check_below(root), expected_count);
    size_t count = 0;
    const vw__tree_node *previous = NULL;
    for (vw__tree_node *node = vw__tree_first(root); node != NULL;
         node = vw__tree_after(root, node, comes_before)) {
        assert_true(previous == NULL || comes_before(previous, node));
        assert_ptr_equal(vw__tree_last_before(root, node, comes_before), previous);
        previous = node;
        count++;
    }
    assert_int_equal(count, expected_count);
    assert_ptr_equal(vw__tree_last(root), previous);
}

/* ---- the tests ------------------------------------------------------------------------------- */

static void an_empty_tree_has_no_first_no_last_and_no_neighbours(void **state)
{
    (void)state;
    item key = {.size = 1};
    assert_null(vw__tree_first(NULL));
    assert_null(vw__tree_last(NULL));
    assert_null(vw__tree_first_from(NULL, &key.node, comes_before));
    assert_null(vw__tree_after(NULL, &key.node, comes_before));
    assert_null(vw__tree_last_before(NULL, &key.node, comes_before));
}

static void one_node_comes_and_goes(void **state)
{
    (void)state;
    vw__tree_node *root = NULL;
    item only = {.size = 5}, smaller = {.size = 4}, larger = {.size = 6};
    only.node.left = only.node.right = &larger.node; /* what a node held before does not matter */
    vw__tree_insert(&root, &only.node, comes_before);
    assert_ptr_equal(vw__tree_first(root), &only.node);
    assert_ptr_equal(vw__tree_last(root), &only.node);
    assert_ptr_equal(vw__tree_first_from(root, &only.node, comes_before), &only.node);
    assert_ptr_equal(vw__tree_first_from(root, &smaller.node, comes_before), &only.node);
    assert_null(vw__tree_first_from(root, &larger.node, comes_before));
    assert_null(vw__tree_after(root, &only.node, comes_before));
    assert_null(vw__tree_last_before(root, &only.node, comes_before));
    vw__tree_remove(&root, &only.node);
    assert_null(root);
}

static void random_inserts_and_removes_agree_with_a_plain_list(void **state)
{
    (void)state;
    uint64_t seed = UINT64_C(88172645463325252);
    vw__tree_node *root = NULL;
    size_t count = 0;
    for (size_t i = 0; i < ITEM_COUNT; i++)
        items[i] = (item){.size = next_random(&seed) % 40}; /* many equal sizes */
    for (int step = 0; step < 20000; step++) {
        item *chosen = &items[next_random(&seed) % ITEM_COUNT];
        if (chosen->is_in) {
            vw__tree_remove(&root, &chosen->node);
            count--;
        } else {
            chosen->size = next_random(&seed) % 40;
            vw__tree_insert(&root, &chosen->node, comes_before);
            count++;
        }
        chosen->is_in = !chosen->is_in;

        const vw__tree_node *key = &items[next_random(&seed) % ITEM_COUNT].node;
        vw__tree_node *after = nearest(key, true);
        assert_ptr_equal(vw__tree_after(root, key, comes_before), after);
        assert_ptr_equal(vw__tree_last_before(root, key, comes_before), nearest(key, false));
        assert_ptr_equal(vw__tree_first_from(root, key, comes_before),
                         item_of(key)->is_in ? key : after);
        if (step % 100 == 0)
            check_walk(root, count);
    }
    check_walk(root, count);
}

static unsigned depth_of(const vw__tree_node *node)
{
    if (node == NULL)
        return 0;
    unsigned left = depth_of(node->left), right = depth_of(node->right);
    return 1 + (left > right ? left : right);
}

/* A balanced tree of so many nodes is 15 deep, a random treap about 35. */
enum { MANY = 20000 };

/* Records in an order that has nothing to do with their addresses. */
typedef struct scattered {
    item *records;
    item **order;
} scattered;

static scattered scatter(void)
{
    uint64_t seed = UINT64_C(88172645463325252);
    scattered s = {calloc(MANY, sizeof *s.records), calloc(MANY, sizeof(item *))};
    assert_true(s.records != NULL && s.order != NULL);
    for (size_t i = 0; i < MANY; i++) {
        size_t other = next_random(&seed) % (i + 1);
        s.order[i] = s.order[other];
        s.order[other] = &s.records[i];
    }
    return s;
}

static void end_scattered(scattered *s)
{
    free(s->order);
    free(s->records);
}

static void put(vw__tree_node **root, const scattered *s, size_t i, uint64_t size)
{
    s->order[i]->size = size;
    vw__tree_insert(root, &s->order[i]->node, comes_before);
}

static void sorted_insertion_of_scattered_records_stays_shallow(void **state)
{
    (void)state;
    scattered s = scatter();
    for (int is_falling = 0; is_falling <= 1; is_falling++) {
        vw__tree_node *root = NULL;
        for (size_t i = 0; i < MANY; i++)
            put(&root, &s, i, is_falling ? MANY - i : i);
        assert_in_range(depth_of(root), 15, 64);
    }
    end_scattered(&s);
}

/* Nodes come in near the root, where the heap is not kept, as long as the tree is small: it is made
 * small again and again, from one end, the other, and both, and grown in order each time. */
static void a_tree_that_shrinks_and_grows_in_order_stays_shallow(void **state)
{
    (void)state;
    enum { LEFT = 7, TURNS = 6 };
    scattered s = scatter();
    for (int way = 0; way < 3; way++) {
        vw__tree_node *root = NULL;
        uint64_t low = MANY * TURNS, high = low;
        for (int turn = 0; turn < TURNS; turn++) {
            for (size_t i = turn == 0 ? 0 : LEFT; i < MANY; i++)
                put(&root, &s, i, (way + turn) % 2 == 0 ? high++ : --low);
            assert_in_range(depth_of(root), 15, 64);
            for (size_t i = LEFT; i < MANY; i++) {
                vw__tree_node *gone = way == 0 || (way == 2 && i % 2 == 0) ? vw__tree_first(root)
                                                                           : vw__tree_last(root);
                vw__tree_remove(&root, gone);
                item_of(gone)->is_in = false;
            }
            size_t kept = 0; /* the records that are left come first */
            for (vw__tree_node *node = vw__tree_first(root); node != NULL;
                 node = vw__tree_next(node))
                item_of(node)->is_in = true;
            for (size_t i = 0; i < MANY; i++)
                if (s.order[i]->is_in) {
                    item *other = s.order[kept];
                    s.order[kept++] = s.order[i];
                    s.order[i] = other;
                }
            assert_int_equal(kept, LEFT);
        }
    }
    end_scattered(&s);
}

/* One goes and one comes, for long, in a tree of some hundreds. */
static void a_queue_stays_shallow(void **state)
{
    (void)state;
    enum { LENGTH = 500 };
    scattered s = scatter();
    for (int is_falling = 0; is_falling <= 1; is_falling++) {
        vw__tree_node *root = NULL;
        for (size_t i = 0; i < 10 * MANY; i++) {
            if (i >= LENGTH)
                vw__tree_remove(&root, &s.order[(i - LENGTH) % MANY]->node);
            put(&root, &s, i % MANY, is_falling ? 10 * MANY - i : i);
            if (i % MANY == 0)
                assert_in_range(depth_of(root), 1, 40);
        }
    }
    end_scattered(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_empty_tree_has_no_first_no_last_and_no_neighbours),
        cmocka_unit_test(one_node_comes_and_goes),
        cmocka_unit_test(random_inserts_and_removes_agree_with_a_plain_list),
        cmocka_unit_test(sorted_insertion_of_scattered_records_stays_shallow),
        cmocka_unit_test(a_tree_that_shrinks_and_grows_in_order_stays_shallow),
        cmocka_unit_test(a_queue_stays_shallow),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
