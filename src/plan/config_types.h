/* config_types.h - the model types of config.json: what each is planned as, and which fields it
 * has.
 *
 * Fields that decide the size of a weight are required; the others have the defaults of
 * transformers' own classes. */
#ifndef VW_PLAN_CONFIG_TYPES_H
#define VW_PLAN_CONFIG_TYPES_H

#include "vramwise/status.h"
#include "plan/config_keys.h"
#include "plan/plan_model.h"

/* Limits beyond which a value is a mistake, and not a model. */
#define VW__CONFIG_MOST_LAYERS UINT64_C(4096)
#define VW__CONFIG_MOST_HEADS UINT64_C(65536)
#define VW__CONFIG_MOST_WIDTH (UINT64_C(1) << 20)
#define VW__CONFIG_MOST_INNER (UINT64_C(1) << 24)
#define VW__CONFIG_MOST_VOCABULARY (UINT64_C(1) << 27)
#define VW__CONFIG_MOST_POSITIONS (UINT64_C(1) << 30)
#define VW__CONFIG_MOST_EXPERTS UINT64_C(1024)
#define VW__CONFIG_MOST_PIXELS UINT64_C(65536)

typedef struct vw__config_type {
    const char *name;       /* "model_type" */
    const char *class_name; /* the usual one; others are called alike: config_heads.h */
    const vw__plan_family *family;
    vw__plan_shape defaults;    /* of fields that a file may leave out */
    const vw__config_key *keys; /* into a vw_plan_model */
} vw__config_type;

/* Tables of types, each ended by one without a name. */
extern const vw__config_type vw__config_text_types[];  /* config_types_text.c */
extern const vw__config_type vw__config_image_types[]; /* config_types_image.c */

/* All types, numbered from 0 on; NULL behind the last. */
const vw__config_type *vw__config_type_number(size_t number);

/* NULL: not known. */
const vw__config_type *vw__config_type_find(const char *name);

/* Reads a configuration of that type into a new model: family and numbers. */
VW_MUST_CHECK vw_status vw__config_type_read(const vw__config_type *type, const vw__config *config,
                                             vw_plan_model *model);

/* Fills in what follows from the other numbers, where it was not given: as many key heads as heads,
 * heads that fill the hidden width, an MLP four times as wide. */
void vw__config_complete(vw__plan_shape *shape);

#endif /* VW_PLAN_CONFIG_TYPES_H */
