/* secret_hash.h - hashes of what files say, which nobody can foresee.
 *
 * A table whose hash is known can be filled with keys that all have one place, and each then takes
 * as long to find as there are keys: a file of megabytes keeps a reader busy for hours. A secret
 * start alone does not help: where a state is multiplied by a known number, flipping two bits of
 * one word and three of the next leaves it as it was, whatever the start. So the multiplier is
 * secret, too, and the upper half of the product is folded into the lower one.
 *
 * The secret is the process's, drawn when it is first asked for. Safe from any thread. */
#ifndef VW_BASE_SECRET_HASH_H
#define VW_BASE_SECRET_HASH_H

#include <stdint.h>

typedef struct vw__secret_hash {
    uint64_t start;      /* the state that a hash begins with */
    uint64_t multiplier; /* odd */
} vw__secret_hash;

vw__secret_hash vw__secret_hash_of_process(void);

/* The state with one more word. Its low bits are as good as its high ones. */
static inline uint64_t vw__secret_hash_add(const vw__secret_hash *secret, uint64_t state,
                                           uint64_t word)
{
    __extension__ typedef unsigned __int128 product_of_two;
    product_of_two product = (product_of_two)(state ^ word) * secret->multiplier;
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

#endif /* VW_BASE_SECRET_HASH_H */
