/* view_places.h - the streams and pools of one device that its page shows, numbered as met. */
#ifndef VW_VIEW_VIEW_PLACES_H
#define VW_VIEW_VIEW_PLACES_H

#include <stddef.h>
#include <stdint.h>

#include "vramwise/status.h"
#include "export/json_write.h"
#include "model/memory_model.h"

#define VW__VIEW_NO_POOL UINT16_MAX /* not known */

typedef struct vw__view_places {
    const vw__model *model;                  /* borrowed */
    uint32_t *memory;                        /* owned: what the next four point into */
    uint32_t *stream_numbers, *pool_numbers; /* by the model's: ours plus 1, or 0 */
    uint32_t *streams, *pools;               /* the model's, by ours */
    size_t stream_count, pool_count;
} vw__view_places;

VW_MUST_CHECK vw_status vw__view_places_init(vw__view_places *places, const vw__model *model);
void vw__view_places_deinit(vw__view_places *places);

uint16_t vw__view_places_stream(vw__view_places *places, uint16_t stream);
uint16_t vw__view_places_pool(vw__view_places *places, uint16_t pool);

/* "streams": ["0x0", ...], "pools": ["default", "(0, 1)", ...] */
void vw__view_places_json(const vw__view_places *places, vw__json *json);

#endif /* VW_VIEW_VIEW_PLACES_H */
