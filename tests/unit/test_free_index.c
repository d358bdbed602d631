/* test_free_index.c - the free index answers as one big sorted list would.
 *
 * The list is a plain array, searched from its start: too slow to ship and too simple to be wrong.
 * Whatever the index is asked, both are asked. */
#include "engine/free_index.h"

#include <stdlib.h>
#include <string.h>

#include "support/cmocka_here.h"

enum { MOST_BLOCKS = 5000, LAST_BIN = VW__FREE_INDEX_BINS - (1 << VW__FREE_INDEX_STEPS_LOG2) };

/* ---- the model ------------------------------------------------------------------------------- */

typedef struct both {
    vw__free_index index;
    vw__block *sorted[MOST_BLOCKS];
    size_t count;
} both;

static both pair;
static vw__block blocks[MOST_BLOCKS];

static int set_up(void **state)
{
    (void)state;
    memset(&pair, 0, sizeof pair);
    memset(blocks, 0, sizeof blocks);
    return 0;
}

static bool comes_before(const vw__block *a, const vw__block *b)
{
    if (a->size_bytes != b->size_bytes)
        return a->size_bytes < b->size_bytes;
    return a->tie_break != b->tie_break ? a->tie_break < b->tie_break : a->address < b->address;
}

static void list_insert(vw__block *block)
{
    size_t at = pair.count++;
    for (; at > 0 && comes_before(block, pair.sorted[at - 1]); at--)
        pair.sorted[at] = pair.sorted[at - 1];
    pair.sorted[at] = block;
}

static size_t list_place(const vw__block *block)
{
    size_t at = 0;
    while (pair.sorted[at] != block)
        at++;
    return at;
}

static void list_remove(const vw__block *block)
{
    size_t at = list_place(block);
    memmove(&pair.sorted[at], &pair.sorted[at + 1], (--pair.count - at) * sizeof pair.sorted[0]);
}

static vw__block *list_best_fit(uint64_t size_bytes)
{
    for (size_t i = 0; i < pair.count; i++)
        if (pair.sorted[i]->size_bytes >= size_bytes)
            return pair.sorted[i];
    return NULL;
}

static vw__block *list_last_below(uint64_t size_bytes)
{
    vw__block *last = NULL;
    for (size_t i = 0; i < pair.count && pair.sorted[i]->size_bytes < size_bytes; i++)
        last = pair.sorted[i];
    return last;
}

/* ---- doing the same to both ------------------------------------------------------------------ */

static void insert(vw__block *block)
{
    block->state = VW__BLOCK_FREE;
    vw__free_index_insert(&pair.index, block);
    list_insert(block);
}

static void take_out(vw__block *block)
{
    vw__free_index_remove(&pair.index, block);
    block->state = VW__BLOCK_LIVE;
    list_remove(block);
}

static void shrink(vw__block *block, uint64_t bytes)
{
    list_remove(block);
    vw__free_index_shrink(&pair.index, block, bytes);
    list_insert(block);
}

static void replace(vw__block *gone, vw__block *block)
{
    block->state = VW__BLOCK_FREE;
    list_remove(gone);
    vw__free_index_replace(&pair.index, gone, block);
    gone->state = VW__BLOCK_LIVE;
    list_insert(block);
}

static void expect_same_answers(uint64_t size_bytes)
{
    assert_ptr_equal(vw__free_index_best_fit(&pair.index, size_bytes), list_best_fit(size_bytes));
    assert_ptr_equal(vw__free_index_last_below(&pair.index, size_bytes),
                     list_last_below(size_bytes));
}

static void expect_same_order(void)
{
    const char *wrong = vw__free_index_check(&pair.index);
    if (wrong != NULL)
        fail_msg("%s", wrong);
    const vw__block *up = vw__free_index_first(&pair.index);
    const vw__block *down = vw__free_index_last(&pair.index);
    for (size_t i = 0; i < pair.count; i++) {
        assert_ptr_equal(up, pair.sorted[i]);
        assert_ptr_equal(down, pair.sorted[pair.count - 1 - i]);
        up = vw__free_index_after(&pair.index, up);
        down = vw__free_index_before(&pair.index, down);
    }
    assert_null(up);
    assert_null(down);
}

/* ---- numbers --------------------------------------------------------------------------------- */

static uint64_t random_state;

static uint64_t random_number(void)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return random_state;
}

/* The least size that belongs into `bin`. */
static uint64_t least_size(unsigned bin)
{
    const unsigned steps = 1u << VW__FREE_INDEX_STEPS_LOG2;
    uint64_t units = bin;
    if (bin >= steps)
        units = (uint64_t)(steps + bin % steps) << (bin / steps - 1);
    return units << VW__FREE_INDEX_UNIT_LOG2;
}

static uint64_t random_size(void)
{
    uint64_t unit = UINT64_C(1) << VW__FREE_INDEX_UNIT_LOG2;
    switch (random_number() % 4) {
    case 0: /* small and crowded */
        return unit * (1 + random_number() % 16);
    case 1: /* around a border of bins */
        return least_size(2 + (unsigned)(random_number() % (LAST_BIN - 1))) +
               unit * (random_number() % 3) - unit;
    case 2: /* the last bin */
        return (least_size(LAST_BIN) << random_number() % 8) + unit * (random_number() % 5);
    default: /* any */
        return unit * (1 + random_number() % (UINT64_C(1) << (1 + random_number() % 33)));
    }
}

/* No two blocks alike: addresses never repeat. */
static void make_random(vw__block *block)
{
    static uint64_t serial;
    *block = (vw__block){
        .address = (++serial * UINT64_C(0x9E3779B97F4A7C15) >> 20) * 512,
        .size_bytes = random_size(),
        .tie_break = (uint32_t)(random_number() % 3),
        .state = VW__BLOCK_LIVE,
    };
}

/* ---- bins ------------------------------------------------------------------------------------ */

static void a_bin_ends_where_the_next_begins(void **state)
{
    (void)state;
    for (unsigned bin = 2; bin <= LAST_BIN; bin++) {
        uint64_t size_bytes = least_size(bin);
        assert_int_equal(vw__free_index_bin(size_bytes), bin);
        assert_int_equal(vw__free_index_bin(size_bytes - 1), bin - 1);
        assert_int_equal(vw__free_index_bin(size_bytes + 511), bin);
    }
    assert_int_equal(least_size(LAST_BIN), UINT64_C(1) << 41);
    for (uint64_t size_bytes = least_size(LAST_BIN); size_bytes != 0; size_bytes <<= 1)
        assert_int_equal(vw__free_index_bin(size_bytes + size_bytes / 2), LAST_BIN);
    assert_int_equal(vw__free_index_bin(UINT64_MAX), LAST_BIN);
}

static void an_empty_index_has_nothing_to_offer(void **state)
{
    (void)state;
    expect_same_order();
    for (unsigned bin = 1; bin <= LAST_BIN; bin++)
        expect_same_answers(least_size(bin));
}

static void one_block_is_found_from_every_bin_below_it_and_none_above(void **state)
{
    (void)state;
    for (unsigned bin = 1; bin <= LAST_BIN; bin += bin < LAST_BIN - 31 ? 31 : 1) {
        blocks[0] = (vw__block){.address = 512, .size_bytes = least_size(bin) + 512};
        insert(&blocks[0]);
        for (unsigned asked = 1; asked <= LAST_BIN; asked++)
            expect_same_answers(least_size(asked));
        expect_same_answers(least_size(bin) + 512);
        expect_same_answers(least_size(bin) + 1024);
        take_out(&blocks[0]);
        assert_int_equal(pair.index.words_in_use, 0);
    }
}

/* Three blocks around each border, so that every bin has neighbours in use on both sides. */
static void sizes_at_every_border_keep_their_order(void **state)
{
    (void)state;
    size_t used = 0;
    for (unsigned bin = 2; bin <= LAST_BIN && used + 3 <= MOST_BLOCKS; bin += 2)
        for (uint64_t around = 0; around < 3; around++, used++) {
            blocks[used] = (vw__block){.address = 512 * (used + 1),
                                       .size_bytes = least_size(bin) + 512 * around - 512};
            insert(&blocks[used]);
        }
    expect_same_order();
    for (unsigned bin = 2; bin <= LAST_BIN; bin += 7)
        for (uint64_t around = 0; around < 3; around++)
            expect_same_answers(least_size(bin) + 512 * around - 512);
    for (size_t i = 0; i < used; i += 2)
        take_out(&blocks[i]);
    expect_same_order();
}

/* ---- crowds ---------------------------------------------------------------------------------- */

static void thousands_of_equal_sizes_come_out_by_tie_break_and_address(void **state)
{
    (void)state;
    for (size_t i = 0; i < 3000; i++) { /* addresses neither rise nor fall: 7919 is prime */
        blocks[i] = (vw__block){.address = 512 * (1 + i * 7919 % 3001),
                                .size_bytes = 2 << 20,
                                .tie_break = (uint32_t)(i % 3)};
        insert(&blocks[i]);
    }
    expect_same_order();
    for (size_t i = 0; i < 1000; i++) {
        vw__block *best = vw__free_index_best_fit(&pair.index, 2 << 20);
        assert_ptr_equal(best, pair.sorted[0]);
        assert_int_equal(best->tie_break, 0);
        take_out(best);
    }
    assert_int_equal(pair.sorted[0]->tie_break, 1);
    expect_same_order();
}

static void rising_and_falling_insertions_make_the_same_order(void **state)
{
    (void)state;
    for (int is_falling = 0; is_falling < 2; is_falling++) {
        set_up(NULL);
        for (size_t i = 0; i < 2000; i++) {
            size_t number = is_falling ? 2000 - i : i + 1;
            blocks[i] =
                (vw__block){.address = number * 512, .size_bytes = least_size(LAST_BIN) + number};
            insert(&blocks[i]);
        }
        expect_same_order();
    }
}

/* ---- change in place ------------------------------------------------------------------------- */

/* A block alone in its bin may shrink where it stands; one with company, or one that leaves its
 * bin, may not. */
static void a_block_that_shrinks_moves_to_its_new_place(void **state)
{
    (void)state;
    const uint64_t size_bytes = least_size(1000) + 3 * 512; /* its bin is wider than that */
    assert_int_equal(vw__free_index_bin(size_bytes), 1000);
    for (int has_company = 0; has_company < 2; has_company++) {
        for (uint64_t lost = 512; lost <= size_bytes - 512; lost += lost < 4096 ? 512 : 77 * 512) {
            set_up(NULL);
            blocks[0] = (vw__block){.address = 1 << 30, .size_bytes = size_bytes};
            blocks[1] = (vw__block){.address = 512, .size_bytes = least_size(1000) + 512};
            blocks[2] = (vw__block){.address = 1024, .size_bytes = 4096};
            insert(&blocks[0]);
            if (has_company)
                insert(&blocks[1]);
            insert(&blocks[2]);
            shrink(&blocks[0], lost);
            assert_int_equal(blocks[0].address, (1 << 30) + lost);
            assert_int_equal(blocks[0].size_bytes, size_bytes - lost);
            expect_same_order();
        }
    }
}

static void a_block_that_takes_a_neighbours_place_is_sorted_by_its_own_size(void **state)
{
    (void)state;
    const uint64_t gone_bytes = least_size(1000);
    for (int has_company = 0; has_company < 2; has_company++) {
        for (uint64_t gained = 512; gained <= gone_bytes; gained += gained < 4096 ? 512 : gained) {
            set_up(NULL);
            blocks[0] = (vw__block){.address = 1 << 30, .size_bytes = gone_bytes};
            blocks[1] = (vw__block){.address = 512, .size_bytes = gone_bytes + 512};
            blocks[2] = (vw__block){.address = 1024, .size_bytes = 2 * gone_bytes};
            blocks[3] =
                (vw__block){.address = (1 << 30) - gained, .size_bytes = gone_bytes + gained};
            insert(&blocks[0]);
            if (has_company)
                insert(&blocks[1]);
            insert(&blocks[2]);
            replace(&blocks[0], &blocks[3]);
            expect_same_order();
        }
    }
}

/* ---- everything at once ---------------------------------------------------------------------- */

static void random_work_leaves_both_alike(void **state)
{
    (void)state;
    random_state = UINT64_C(0x9E3779B97F4A7C15);
    size_t made = 0;
    vw__block *out[MOST_BLOCKS];
    size_t out_count = 0;
    for (int round = 0; round < 40000; round++) {
        uint64_t dice = random_number() % 100;
        if (dice < 35 && pair.count < 400) {
            if (out_count == 0)
                out[out_count++] = &blocks[made++];
            vw__block *block = out[--out_count];
            make_random(block);
            insert(block);
        } else if (dice < 60 && pair.count > 0) {
            vw__block *block = pair.sorted[random_number() % pair.count];
            take_out(block);
            out[out_count++] = block;
        } else if (dice < 75 && pair.count > 0) {
            vw__block *block = pair.sorted[random_number() % pair.count];
            uint64_t units = block->size_bytes / 512;
            if (units > 1)
                shrink(block, 512 * (1 + random_number() % (units - 1)));
        } else if (dice < 90 && pair.count > 0 && out_count > 0) {
            vw__block *gone = pair.sorted[random_number() % pair.count];
            vw__block *block = out[out_count - 1];
            *block = *gone;
            block->size_bytes += 512 * (1 + random_number() % 64);
            replace(gone, block);
            out[out_count - 1] = gone;
        }
        expect_same_answers(random_size());
        if (round % 500 == 0)
            expect_same_order();
    }
    expect_same_order();
}

/* ---- the check ------------------------------------------------------------------------------- */

enum { CROWD = 512 };

static void fill_one_bin(void)
{
    for (size_t i = 0; i < CROWD; i++) {
        blocks[i] = (vw__block){.address = 512 * (i + 1), .size_bytes = 4096};
        insert(&blocks[i]);
    }
    assert_null(vw__free_index_check(&pair.index));
}

/* A tree's shape depends on where its nodes lie, so the node to damage is looked for. */
static vw__block *find_node(bool (*is_fit)(const vw__tree_node *node))
{
    for (size_t i = 0; i < CROWD; i++)
        if (is_fit(&blocks[i].node))
            return &blocks[i];
    fail_msg("no node of that shape among %d", CROWD);
    return NULL;
}

static bool has_left(const vw__tree_node *node)
{
    return node->left != NULL;
}

static bool has_right(const vw__tree_node *node)
{
    return node->right != NULL;
}

static bool has_right_of_left(const vw__tree_node *node)
{
    return node->left != NULL && node->left->right != NULL;
}

/* A check that finds nothing is worth nothing: each damage is done, noticed, and undone. */
#define NOTICES(expected)                                                                          \
    do {                                                                                           \
        const char *wrong = vw__free_index_check(&pair.index);                                     \
        assert_non_null(wrong);                                                                    \
        assert_string_equal(wrong, expected);                                                      \
    } while (0)

static void check_notices_a_block_that_is_not_free(void **state)
{
    (void)state;
    fill_one_bin();
    for (size_t i = 0; i < CROWD; i++) {
        blocks[i].state = VW__BLOCK_PENDING;
        NOTICES("a block in the free index is not free");
        blocks[i].state = VW__BLOCK_FREE;
    }
    assert_null(vw__free_index_check(&pair.index));
}

static void check_notices_a_block_in_the_wrong_bin(void **state)
{
    (void)state;
    fill_one_bin();
    blocks[40].bin++;
    NOTICES("a block is in the bin of another size");
    blocks[40].bin--;
    blocks[40].size_bytes += 512;
    NOTICES("a block is in the bin of another size");
}

static void check_notices_children_out_of_order(void **state)
{
    (void)state;
    fill_one_bin();
    vw__block *parent = find_node(has_left);
    vw__block *left = vw__block_of_node(parent->node.left);
    uint64_t address = left->address;
    left->address = parent->address + 1;
    NOTICES("a bin's tree is out of order");
    left->address = address;
    parent = find_node(has_right);
    vw__block_of_node(parent->node.right)->address = parent->address - 1;
    NOTICES("a bin's tree is out of order");
}

/* A grandchild that is in order with its parent, and not with its parent's parent. */
static void check_notices_a_deeper_block_out_of_order(void **state)
{
    (void)state;
    fill_one_bin();
    vw__block *block = find_node(has_right_of_left);
    vw__block *grandchild = vw__block_of_node(block->node.left->right);
    grandchild->address = block->address + 1;
    assert_non_null(vw__free_index_check(&pair.index));
}

static void check_notices_bits_that_lie(void **state)
{
    (void)state;
    fill_one_bin();
    const char *bin_lies = "a bin's bit does not say whether the bin is empty";
    const char *word_lies = "a word's bit does not say whether the word is zero";
    unsigned bin = blocks[0].bin;
    pair.index.bins_in_use[bin / 64] ^= UINT64_C(1) << bin % 64;
    NOTICES(bin_lies);
    pair.index.bins_in_use[bin / 64] ^= UINT64_C(1) << bin % 64;
    pair.index.bins_in_use[LAST_BIN / 64] ^= UINT64_C(1) << LAST_BIN % 64;
    NOTICES(bin_lies);
    pair.index.bins_in_use[LAST_BIN / 64] ^= UINT64_C(1) << LAST_BIN % 64;
    pair.index.words_in_use ^= UINT64_C(1) << bin / 64;
    NOTICES(word_lies);
    pair.index.words_in_use ^= UINT64_C(1) << bin / 64;
    pair.index.words_in_use ^= UINT64_C(1) << 40;
    NOTICES(word_lies);
    pair.index.words_in_use ^= UINT64_C(1) << 40;
    assert_null(vw__free_index_check(&pair.index));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_bin_ends_where_the_next_begins, set_up),
        cmocka_unit_test_setup(an_empty_index_has_nothing_to_offer, set_up),
        cmocka_unit_test_setup(one_block_is_found_from_every_bin_below_it_and_none_above, set_up),
        cmocka_unit_test_setup(sizes_at_every_border_keep_their_order, set_up),
        cmocka_unit_test_setup(thousands_of_equal_sizes_come_out_by_tie_break_and_address, set_up),
        cmocka_unit_test_setup(rising_and_falling_insertions_make_the_same_order, set_up),
        cmocka_unit_test_setup(a_block_that_shrinks_moves_to_its_new_place, set_up),
        cmocka_unit_test_setup(a_block_that_takes_a_neighbours_place_is_sorted_by_its_own_size,
                               set_up),
        cmocka_unit_test_setup(random_work_leaves_both_alike, set_up),
        cmocka_unit_test_setup(check_notices_a_block_that_is_not_free, set_up),
        cmocka_unit_test_setup(check_notices_a_block_in_the_wrong_bin, set_up),
        cmocka_unit_test_setup(check_notices_children_out_of_order, set_up),
        cmocka_unit_test_setup(check_notices_a_deeper_block_out_of_order, set_up),
        cmocka_unit_test_setup(check_notices_bits_that_lie, set_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
