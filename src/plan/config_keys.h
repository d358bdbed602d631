/* config_keys.h - fields of a configuration by a table: what each is called, and where it goes. */
#ifndef VW_PLAN_CONFIG_KEYS_H
#define VW_PLAN_CONFIG_KEYS_H

#include <stddef.h>

#include "plan/config_read.h"

typedef enum vw__config_key_kind {
    VW__CONFIG_KEY_END,       /* of a table */
    VW__CONFIG_KEY_NUMBER,    /* from 1 on; must be there, under its name or the other */
    VW__CONFIG_KEY_NUMBER_IF, /* from 1 on; may be missing, as all below */
    VW__CONFIG_KEY_COUNT_IF,  /* from 0 on */
    VW__CONFIG_KEY_NUMBER_OR, /* from 1 on; missing: the field of `other_field` */
    VW__CONFIG_KEY_EXACTLY,   /* reads nothing: must be `most` if it is there */
    VW__CONFIG_KEY_WORD,      /* reads nothing: must be the word `other` if it is there */
    VW__CONFIG_KEY_FLAG,      /* true or false */
    VW__CONFIG_KEY_NOT,       /* the opposite of the field */
    VW__CONFIG_KEY_DROPOUT,   /* a probability; the field: is it above 0? */
    VW__CONFIG_KEY_CAP,       /* a number or null; the field: is it a number? */
    VW__CONFIG_KEY_FALSE,     /* refused if true: not known to the planner */
    VW__CONFIG_KEY_MULTIPLE,  /* reads nothing: the field of `name` must be a multiple of that of
                                 `other` */
    VW__CONFIG_KEY_CALL,      /* reads it in its own way */
    VW__CONFIG_KEY_ELSEWHERE, /* read by other code */
} vw__config_key_kind;

/* Fields that are missing in the file are left as they are. */
typedef struct vw__config_key vw__config_key;
struct vw__config_key {
    vw__config_key_kind kind;
    const char *name, *other;
    size_t field, other_field; /* offsets in what is filled */
    uint64_t most;             /* of a number; of a call: its usual number */
    double usual;              /* of a call */
    vw_status (*call)(const vw__config *config, const vw__config_key *key, void *into);
};

/* Reads the fields of a table, which ends with VW__CONFIG_KEY_END, in its order; stops at the first
 * failure. `into` is what the offsets count from. */
VW_MUST_CHECK vw_status vw__config_read_keys(const vw__config *config, const vw__config_key *keys,
                                             void *into);

/* `whole` must be a multiple of `part`: both are fields of the configuration. A part of 0 was not
 * given. */
VW_MUST_CHECK vw_status vw__config_check_multiple(const vw__config *config, const char *whole_name,
                                                  uint64_t whole, const char *part_name,
                                                  uint64_t part);

#endif /* VW_PLAN_CONFIG_KEYS_H */
