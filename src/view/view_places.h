/* view_places.h - the streams and pools of one device that its page shows, numbered as met. */
#ifndef HR_VIEW_VIEW_PLACES_H
#define HR_VIEW_VIEW_PLACES_H

#include <stddef.h>
#include <stdint.h>

#include "headroom/status.h"
#include "export/json_write.h"
#include "model/memory_model.h"

#define HR__VIEW_NO_POOL UINT16_MAX /* not known */

typedef struct hr__view_places {
    const hr__model *model;                  /* borrowed */
    uint32_t *memory;                        /* owned: what the next four point into */
    uint32_t *stream_numbers, *pool_numbers; /* by the model's: ours plus 1, or 0 */
    uint32_t *streams, *pools;               /* the model's, by ours */
    size_t stream_count, pool_count;
} hr__view_places;

HR_MUST_CHECK hr_status hr__view_places_init(hr__view_places *places, const hr__model *model);
void hr__view_places_deinit(hr__view_places *places);

uint16_t hr__view_places_stream(hr__view_places *places, uint16_t stream);
uint16_t hr__view_places_pool(hr__view_places *places, uint16_t pool);

/* "streams": ["0x0", ...], "pools": ["default", "(0, 1)", ...] */
void hr__view_places_json(const hr__view_places *places, hr__json *json);

#endif /* HR_VIEW_VIEW_PLACES_H */
