/* config_read.h - the fields of a model's configuration, asked for by name.
 *
 * A config.json was written by somebody else, by hand as often as not. So every field is asked for
 * with what it has to be, and a field that is something else is refused with its name, what was
 * expected and what was found:
 *
 *   num_hidden_layers: expected a whole number from 1 to 10000, found "twelve"
 *
 * A field that is null is not there. The statuses are everywhere the same:
 *
 * VW_ERR_CORRUPT_FILE  a field that is needed is missing, or is of another kind
 * VW_ERR_UNSUPPORTED   a number beyond the limits that were given, a word that is not known
 *
 * On failure `*out` is untouched. No locks: one thread at a time. */
#ifndef VW_PLAN_CONFIG_READ_H
#define VW_PLAN_CONFIG_READ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vramwise/status.h"
#include "format/document.h"

#define VW__CONFIG_PLACE_BYTES 64

/* An object of the file: the outermost, or one inside. A value: copied as it pleases, good as long
 * as the file it is from. */
typedef struct vw__config {
    const vw__document *document;
    vw__value value;                    /* a dict */
    char place[VW__CONFIG_PLACE_BYTES]; /* "layers[3].", for messages; "" of the outermost */
} vw__config;

/* ---- the file -------------------------------------------------------------------------------- */

typedef struct vw__config_file vw__config_file;

/* `path` may be "-": standard input. VW_ERR_CORRUPT_FILE: it is not JSON (where, what was
 * expected), or not an object. VW_ERR_UNSUPPORTED: larger than any configuration. VW_ERR_FILE,
 * VW_ERR_HOST_MEMORY. */
VW_MUST_CHECK vw_status vw__config_open(const char *path, vw__config_file **out);
VW_MUST_CHECK vw_status vw__config_open_memory(const void *bytes, size_t size_bytes,
                                               vw__config_file **out);
void vw__config_close(vw__config_file *file); /* NULL does nothing */

vw__config vw__config_root(const vw__config_file *file);

/* ---- fields ---------------------------------------------------------------------------------- */

/* Is it there, and not null? */
bool vw__config_has(const vw__config *config, const char *name);
/* Is it there, and null? Then it was said, and not forgotten. */
bool vw__config_is_null(const vw__config *config, const char *name);
/* As vw__config_has(), and a list; an object. */
bool vw__config_has_list(const vw__config *config, const char *name);
bool vw__config_has_object(const vw__config *config, const char *name);

/* A whole number from `least` to `most`; 8.0 is one too. The second is for fields that may be
 * missing: `*out` is then left as it is. */
VW_MUST_CHECK vw_status vw__config_number(const vw__config *config, const char *name,
                                          uint64_t least, uint64_t most, uint64_t *out);
VW_MUST_CHECK vw_status vw__config_number_if(const vw__config *config, const char *name,
                                             uint64_t least, uint64_t most, uint64_t *out);

/* Any number; not below `least`, not above `most`. Missing: `*out` is left as it is. */
VW_MUST_CHECK vw_status vw__config_real_if(const vw__config *config, const char *name, double least,
                                           double most, double *out);

/* true or false. Missing: `*out` is left as it is. */
VW_MUST_CHECK vw_status vw__config_boolean_if(const vw__config *config, const char *name,
                                              bool *out);

/* Zero-terminated, without a zero inside, good as long as the file. */
VW_MUST_CHECK vw_status vw__config_text(const vw__config *config, const char *name,
                                        const char **out);
VW_MUST_CHECK vw_status vw__config_text_if(const vw__config *config, const char *name,
                                           const char **out);

/* One of `names`, by its place among them; the nearest is named where it is none. */
VW_MUST_CHECK vw_status vw__config_choice(const vw__config *config, const char *name,
                                          const char *const *names, size_t name_count, size_t *out);
VW_MUST_CHECK vw_status vw__config_choice_if(const vw__config *config, const char *name,
                                             const char *const *names, size_t name_count,
                                             size_t *out);

/* ---- lists and objects inside ---------------------------------------------------------------- */

/* Pairs of an object, items of a list. Missing, or neither: 0. */
size_t vw__config_count(const vw__config *config, const char *name);

VW_MUST_CHECK vw_status vw__config_object(const vw__config *config, const char *name,
                                          vw__config *out);

/* A list of at most `most` items: how many, then each. Walking a list from its beginning to its end
 * takes time in proportion to its length with vw__config_next_object(); `*cursor` begins as 0, and
 * `*is_there` tells the end. */
VW_MUST_CHECK vw_status vw__config_list(const vw__config *config, const char *name, size_t most,
                                        size_t *count);
VW_MUST_CHECK vw_status vw__config_next_object(const vw__config *config, const char *name,
                                               uint64_t *cursor, vw__config *out, bool *is_there);

/* A list of whole numbers, at most `most_items` of them, into `numbers`. */
VW_MUST_CHECK vw_status vw__config_numbers(const vw__config *config, const char *name,
                                           uint64_t least, uint64_t most, size_t most_items,
                                           uint64_t *numbers, size_t *count);

/* A list of as many words as `count`, each one of `names`: its place among them. */
VW_MUST_CHECK vw_status vw__config_choices(const vw__config *config, const char *name,
                                           const char *const *names, size_t name_count,
                                           size_t count, uint8_t *places);

/* The first item of a list, where that is a text; NULL otherwise. */
const char *vw__config_first_text(const vw__config *config, const char *name);

/* Refuses a field that is none of these: what nobody reads was meant to be read. */
VW_MUST_CHECK vw_status vw__config_only(const vw__config *config, const char *const *names,
                                        size_t name_count);

/* ---- words ----------------------------------------------------------------------------------- */

/* A refusal of the field's value in words of one's own: "field: expected ..., found VALUE". */
__attribute__((format(printf, 4, 5))) VW_MUST_CHECK vw_status vw__config_refuse(
    const vw__config *config, const char *name, vw_status status, const char *expected, ...);

/* Fails with a field that is set and must not be: what would be planned is not what it asks for. */
VW_MUST_CHECK vw_status vw__config_refuse_true(const vw__config *config, const char *name);

#endif /* VW_PLAN_CONFIG_READ_H */
