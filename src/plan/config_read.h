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
 * HR_ERR_CORRUPT_FILE  a field that is needed is missing, or is of another kind
 * HR_ERR_UNSUPPORTED   a number beyond the limits that were given, a word that is not known
 *
 * On failure `*out` is untouched. No locks: one thread at a time. */
#ifndef HR_PLAN_CONFIG_READ_H
#define HR_PLAN_CONFIG_READ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "headroom/status.h"
#include "format/document.h"

#define HR__CONFIG_PLACE_BYTES 64

/* An object of the file: the outermost, or one inside. A value: copied as it pleases, good as long
 * as the file it is from. */
typedef struct hr__config {
    const hr__document *document;
    hr__value value;                    /* a dict */
    char place[HR__CONFIG_PLACE_BYTES]; /* "layers[3].", for messages; "" of the outermost */
} hr__config;

/* ---- the file -------------------------------------------------------------------------------- */

typedef struct hr__config_file hr__config_file;

/* `path` may be "-": standard input. HR_ERR_CORRUPT_FILE: it is not JSON (where, what was
 * expected), or not an object. HR_ERR_UNSUPPORTED: larger than any configuration. HR_ERR_FILE,
 * HR_ERR_HOST_MEMORY. */
HR_MUST_CHECK hr_status hr__config_open(const char *path, hr__config_file **out);
HR_MUST_CHECK hr_status hr__config_open_memory(const void *bytes, size_t size_bytes,
                                               hr__config_file **out);
void hr__config_close(hr__config_file *file); /* NULL does nothing */

hr__config hr__config_root(const hr__config_file *file);

/* ---- fields ---------------------------------------------------------------------------------- */

/* Is it there, and not null? */
bool hr__config_has(const hr__config *config, const char *name);
/* Is it there, and null? Then it was said, and not forgotten. */
bool hr__config_is_null(const hr__config *config, const char *name);
/* As hr__config_has(), and a list; an object. */
bool hr__config_has_list(const hr__config *config, const char *name);
bool hr__config_has_object(const hr__config *config, const char *name);

/* A whole number from `least` to `most`; 8.0 is one too. The second is for fields that may be
 * missing: `*out` is then left as it is. */
HR_MUST_CHECK hr_status hr__config_number(const hr__config *config, const char *name,
                                          uint64_t least, uint64_t most, uint64_t *out);
HR_MUST_CHECK hr_status hr__config_number_if(const hr__config *config, const char *name,
                                             uint64_t least, uint64_t most, uint64_t *out);

/* Any number; not below `least`, not above `most`. Missing: `*out` is left as it is. */
HR_MUST_CHECK hr_status hr__config_real_if(const hr__config *config, const char *name, double least,
                                           double most, double *out);

/* true or false. Missing: `*out` is left as it is. */
HR_MUST_CHECK hr_status hr__config_boolean_if(const hr__config *config, const char *name,
                                              bool *out);

/* Zero-terminated, without a zero inside, good as long as the file. */
HR_MUST_CHECK hr_status hr__config_text(const hr__config *config, const char *name,
                                        const char **out);
HR_MUST_CHECK hr_status hr__config_text_if(const hr__config *config, const char *name,
                                           const char **out);

/* One of `names`, by its place among them; the nearest is named where it is none. */
HR_MUST_CHECK hr_status hr__config_choice(const hr__config *config, const char *name,
                                          const char *const *names, size_t name_count, size_t *out);
HR_MUST_CHECK hr_status hr__config_choice_if(const hr__config *config, const char *name,
                                             const char *const *names, size_t name_count,
                                             size_t *out);

/* ---- lists and objects inside ---------------------------------------------------------------- */

/* Pairs of an object, items of a list. Missing, or neither: 0. */
size_t hr__config_count(const hr__config *config, const char *name);

HR_MUST_CHECK hr_status hr__config_object(const hr__config *config, const char *name,
                                          hr__config *out);

/* A list of at most `most` items: how many, then each. Walking a list from its beginning to its end
 * takes time in proportion to its length with hr__config_next_object(); `*cursor` begins as 0, and
 * `*is_there` tells the end. */
HR_MUST_CHECK hr_status hr__config_list(const hr__config *config, const char *name, size_t most,
                                        size_t *count);
HR_MUST_CHECK hr_status hr__config_next_object(const hr__config *config, const char *name,
                                               uint64_t *cursor, hr__config *out, bool *is_there);

/* A list of whole numbers, at most `most_items` of them, into `numbers`. */
HR_MUST_CHECK hr_status hr__config_numbers(const hr__config *config, const char *name,
                                           uint64_t least, uint64_t most, size_t most_items,
                                           uint64_t *numbers, size_t *count);

/* A list of as many words as `count`, each one of `names`: its place among them. */
HR_MUST_CHECK hr_status hr__config_choices(const hr__config *config, const char *name,
                                           const char *const *names, size_t name_count,
                                           size_t count, uint8_t *places);

/* The first item of a list, where that is a text; NULL otherwise. */
const char *hr__config_first_text(const hr__config *config, const char *name);

/* Refuses a field that is none of these: what nobody reads was meant to be read. */
HR_MUST_CHECK hr_status hr__config_only(const hr__config *config, const char *const *names,
                                        size_t name_count);

/* ---- words ----------------------------------------------------------------------------------- */

/* A refusal of the field's value in words of one's own: "field: expected ..., found VALUE". */
__attribute__((format(printf, 4, 5))) HR_MUST_CHECK hr_status hr__config_refuse(
    const hr__config *config, const char *name, hr_status status, const char *expected, ...);

/* Fails with a field that is set and must not be: what would be planned is not what it asks for. */
HR_MUST_CHECK hr_status hr__config_refuse_true(const hr__config *config, const char *name);

#endif /* HR_PLAN_CONFIG_READ_H */
