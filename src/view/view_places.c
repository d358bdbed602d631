/* view_places.c - see view_places.h. */
#include "view/view_places.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/error.h"
#include "base/host_memory.h"

vw_status vw__view_places_init(vw__view_places *places, const vw__model *model)
{
    size_t room = 2 * (model->stream_count + model->pool_count);
    *places = (vw__view_places){.model = model};
    places->memory = vw__host_alloc_zeroed(room, sizeof *places->memory);
    if (places->memory == NULL)
        return vw__fail_host_memory(room * sizeof *places->memory, "the streams of a view");
    places->stream_numbers = places->memory;
    places->streams = places->stream_numbers + model->stream_count;
    places->pool_numbers = places->streams + model->stream_count;
    places->pools = places->pool_numbers + model->pool_count;
    return VW_OK;
}

void vw__view_places_deinit(vw__view_places *places)
{
    vw__host_free(places->memory);
    *places = (vw__view_places){.model = NULL};
}

static uint16_t number(uint32_t *numbers, uint32_t *chosen, size_t *count, uint16_t of_model)
{
    if (numbers[of_model] == 0) {
        chosen[(*count)++] = of_model;
        numbers[of_model] = (uint32_t)*count;
    }
    return (uint16_t)(numbers[of_model] - 1);
}

uint16_t vw__view_places_stream(vw__view_places *places, uint16_t stream)
{
    return number(places->stream_numbers, places->streams, &places->stream_count, stream);
}

uint16_t vw__view_places_pool(vw__view_places *places, uint16_t pool)
{
    if (pool == VW__UNKNOWN_POOL)
        return VW__VIEW_NO_POOL;
    return number(places->pool_numbers, places->pools, &places->pool_count, pool);
}

void vw__view_places_json(const vw__view_places *places, vw__json *json)
{
    char text[64];
    vw__json_begin_array(json, "streams");
    for (size_t i = 0; i < places->stream_count; i++) {
        snprintf(text, sizeof text, "0x%" PRIx64, places->model->streams[places->streams[i]]);
        vw__json_text(json, NULL, text);
    }
    vw__json_end_array(json);
    vw__json_begin_array(json, "pools");
    for (size_t i = 0; i < places->pool_count; i++) {
        vw_private_id id = places->model->pools[places->pools[i]];
        if (places->pools[i] == VW__DEFAULT_POOL)
            snprintf(text, sizeof text, "default");
        else
            snprintf(text, sizeof text, "(%" PRIu64 ", %" PRIu64 ")", id.first, id.second);
        vw__json_text(json, NULL, text);
    }
    vw__json_end_array(json);
}
