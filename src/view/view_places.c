/* view_places.c - see view_places.h. */
#include "view/view_places.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/error.h"
#include "base/host_memory.h"

hr_status hr__view_places_init(hr__view_places *places, const hr__model *model)
{
    size_t room = 2 * (model->stream_count + model->pool_count);
    *places = (hr__view_places){.model = model};
    places->memory = hr__host_alloc_zeroed(room, sizeof *places->memory);
    if (places->memory == NULL)
        return hr__fail_host_memory(room * sizeof *places->memory, "the streams of a view");
    places->stream_numbers = places->memory;
    places->streams = places->stream_numbers + model->stream_count;
    places->pool_numbers = places->streams + model->stream_count;
    places->pools = places->pool_numbers + model->pool_count;
    return HR_OK;
}

void hr__view_places_deinit(hr__view_places *places)
{
    hr__host_free(places->memory);
    *places = (hr__view_places){.model = NULL};
}

static uint16_t number(uint32_t *numbers, uint32_t *chosen, size_t *count, uint16_t of_model)
{
    if (numbers[of_model] == 0) {
        chosen[(*count)++] = of_model;
        numbers[of_model] = (uint32_t)*count;
    }
    return (uint16_t)(numbers[of_model] - 1);
}

uint16_t hr__view_places_stream(hr__view_places *places, uint16_t stream)
{
    return number(places->stream_numbers, places->streams, &places->stream_count, stream);
}

uint16_t hr__view_places_pool(hr__view_places *places, uint16_t pool)
{
    if (pool == HR__UNKNOWN_POOL)
        return HR__VIEW_NO_POOL;
    return number(places->pool_numbers, places->pools, &places->pool_count, pool);
}

void hr__view_places_json(const hr__view_places *places, hr__json *json)
{
    char text[64];
    hr__json_begin_array(json, "streams");
    for (size_t i = 0; i < places->stream_count; i++) {
        snprintf(text, sizeof text, "0x%" PRIx64, places->model->streams[places->streams[i]]);
        hr__json_text(json, NULL, text);
    }
    hr__json_end_array(json);
    hr__json_begin_array(json, "pools");
    for (size_t i = 0; i < places->pool_count; i++) {
        hr_private_id id = places->model->pools[places->pools[i]];
        if (places->pools[i] == HR__DEFAULT_POOL)
            snprintf(text, sizeof text, "default");
        else
            snprintf(text, sizeof text, "(%" PRIu64 ", %" PRIu64 ")", id.first, id.second);
        hr__json_text(json, NULL, text);
    }
    hr__json_end_array(json);
}
