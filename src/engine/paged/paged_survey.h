/* paged_survey.h - which handles are free, and where a request would best go. See paged_survey.c.
 */
#ifndef VW_ENGINE_PAGED_PAGED_SURVEY_H
#define VW_ENGINE_PAGED_PAGED_SURVEY_H

#include "engine/paged/paged_engine.h"

/* Where a request would go. */
typedef struct vw__paged_window {
    vw__segment *segment;
    vw__block *first; /* the first block it touches */
    uint64_t address;
    uint64_t size_bytes;
    uint64_t cost_bytes;  /* of it, without a mapping that can be used, and what is in the way */
    uint64_t range_bytes; /* of the range it lies in */
} vw__paged_window;

/* For a request on `stream`: lists the free handles in engine->candidates, none while it is
 * captured, and learns which ghosts can be dropped. */
vw_status vw__paged_survey(vw__paged_engine *engine, vw_stream stream);
/* Only the list. */
vw_status vw__paged_survey_all(vw__paged_engine *engine);

/* The best range of a lane's addresses for a request, after vw__paged_survey(); with `at_end_only`
 * one at the end of an arena. Ghosts in it are of free handles, or can be dropped. False: there is
 * none. */
bool vw__paged_choose_window(vw__paged_engine *engine, const vw__lane *lane, uint64_t size_bytes,
                             bool at_end_only, vw__paged_window *out);

/* True if the place lies in one of the units that the window touches. */
bool vw__paged_is_inside(const vw__paged_engine *engine, const vw__paged_window *window,
                         const vw__paged_place *place);

#endif /* VW_ENGINE_PAGED_PAGED_SURVEY_H */
