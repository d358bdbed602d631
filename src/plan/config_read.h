/* config_read.h - the fields of a model's configuration, asked for by name.
 *
 * A config.json is untrusted input, often written by hand. The caller states what each field has to
 * be, and any other value is refused with the field's name, what was expected and what was found:
 *
 *   num_hidden_layers: expected a whole number from 1 to 10000, found "twelve"
 *
 * A null field counts as missing. All functions return the same statuses:
 *
 * VW_ERR_CORRUPT_FILE  a needed field is missing, or a field has the wrong type
 * VW_ERR_UNSUPPORTED   a number is out of range, or a word is unknown
 *
 * On failure `*out` is untouched. No locks: one thread at a time. */
#ifndef VW_PLAN_CONFIG_READ_H
#define VW_PLAN_CONFIG_READ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vramwise/status.h"
#include "parse/document.h"

#define VW__CONFIG_PLACE_BYTES 64

/* An object of the file: the outermost, or a nested one. May be copied freely; valid as long as the
 * file. */
typedef struct vw__config {
    const vw__document *document;
    vw__value value;                    /* a dict */
    char place[VW__CONFIG_PLACE_BYTES]; /* "layers[3].", for messages; "" of the outermost */
    bool is_part; /* of a model of several: needed numbers may be missing (config_parts.h) */
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

/* True if the field is there and not null. */
bool vw__config_has(const vw__config *config, const char *name);
/* True if the field is there and null: set on purpose, not forgotten. */
bool vw__config_is_null(const vw__config *config, const char *name);
/* True if the field is a list; an object. */
bool vw__config_has_list(const vw__config *config, const char *name);
bool vw__config_has_object(const vw__config *config, const char *name);

/* A whole number from `least` to `most`; 8.0 is one too. The functions that end with _if accept a
 * missing field and then leave `*out` unchanged. */
VW_MUST_CHECK vw_status vw__config_number(const vw__config *config, const char *name,
                                          uint64_t least, uint64_t most, uint64_t *out);
VW_MUST_CHECK vw_status vw__config_number_if(const vw__config *config, const char *name,
                                             uint64_t least, uint64_t most, uint64_t *out);

/* A number from `least` to `most`. */
VW_MUST_CHECK vw_status vw__config_real_if(const vw__config *config, const char *name, double least,
                                           double most, double *out);

VW_MUST_CHECK vw_status vw__config_boolean_if(const vw__config *config, const char *name,
                                              bool *out);

/* Zero-terminated, without a zero inside; valid as long as the file. */
VW_MUST_CHECK vw_status vw__config_text_if(const vw__config *config, const char *name,
                                           const char **out);

/* The index of the value in `names`. The refusal of an unknown word names the nearest. */
VW_MUST_CHECK vw_status vw__config_choice(const vw__config *config, const char *name,
                                          const char *const *names, size_t name_count, size_t *out);
VW_MUST_CHECK vw_status vw__config_choice_if(const vw__config *config, const char *name,
                                             const char *const *names, size_t name_count,
                                             size_t *out);

/* ---- lists and objects inside ---------------------------------------------------------------- */

/* The number of pairs of an object or items of a list; 0 for anything else. */
size_t vw__config_count(const vw__config *config, const char *name);

VW_MUST_CHECK vw_status vw__config_object(const vw__config *config, const char *name,
                                          vw__config *out);

/* Counts a list of at most `most` items, and walks it. `*cursor` begins as 0; `*is_there` is false
 * behind the last item. A walk takes time in proportion to the list's length. */
VW_MUST_CHECK vw_status vw__config_list(const vw__config *config, const char *name, size_t most,
                                        size_t *count);
VW_MUST_CHECK vw_status vw__config_next_object(const vw__config *config, const char *name,
                                               uint64_t *cursor, vw__config *out, bool *is_there);

/* A list of whole numbers, at most `most_items` of them, into `numbers`. */
VW_MUST_CHECK vw_status vw__config_numbers(const vw__config *config, const char *name,
                                           uint64_t least, uint64_t most, size_t most_items,
                                           uint64_t *numbers, size_t *count);

/* A list of exactly `count` words: the index of each in `names`. */
VW_MUST_CHECK vw_status vw__config_choices(const vw__config *config, const char *name,
                                           const char *const *names, size_t name_count,
                                           size_t count, uint8_t *places);

/* The first item of a list if it is a text, else NULL. */
const char *vw__config_first_text(const vw__config *config, const char *name);

/* Refuses fields other than `names`: an unknown field is a spelling mistake. */
VW_MUST_CHECK vw_status vw__config_only(const vw__config *config, const char *const *names,
                                        size_t name_count);

/* ---- words ----------------------------------------------------------------------------------- */

/* Refuses the field's value: "field: expected ..., found VALUE". */
__attribute__((format(printf, 4, 5))) VW_MUST_CHECK vw_status vw__config_refuse(
    const vw__config *config, const char *name, vw_status status, const char *expected, ...);

/* Refuses true: the planner does not know what the field switches on. */
VW_MUST_CHECK vw_status vw__config_refuse_true(const vw__config *config, const char *name);

#endif /* VW_PLAN_CONFIG_READ_H */
