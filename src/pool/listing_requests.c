/* listing_requests.c - what others ask of the process, carried out on one pool.
 *
 * In the thread that keeps the page, without the list's lock. A parked job that goes on finds its
 * launches held and its requests for memory waiting, for as long as it takes. */
#include "pool/listing.h"

#include <string.h>

#include "engine/private_pools.h"
#include "pool/pool.h"

static bool find_region(const vw_pool *pool, const char *name, vw_private_id *id)
{
    vw__pool_lock(pool);
    const vw__private_pool *found = vw__private_find_region(pool->engine, name);
    if (found != NULL)
        *id = found->id;
    vw__pool_unlock(pool);
    return found != NULL;
}

/* Notes whether this parked anything: a pool may have been parked before, or keep a part of it that
 * could not come back. */
static vw_status park(vw__listing *listing, const vw_private_id *only, vw_park_report *done)
{
    const vw_park_options options = {
        .struct_size = sizeof options, .only = only, .wait_ms = UINT64_MAX};
    vw_paged_stats before = {.parks = 0}, after = {.parks = 0};
    (void)vw__pool_move_stats(listing->pool, &before);
    vw_status status = vw_pool_park(listing->pool, &options, done);
    (void)vw__pool_move_stats(listing->pool, &after);
    listing->has_parked = after.parks != before.parks || after.parked_bytes > before.parked_bytes;
    return status;
}

vw_status vw__listing_carry_out(vw__listing *listing, const vw__live_request *request,
                                vw__listing_work *work)
{
    vw_private_id id = {0, 0};
    const vw_private_id *only = NULL;
    vw_park_report done = {.struct_size = sizeof done};
    vw_pool *pool = listing->pool;
    if (pool == NULL || !vw__pool_can_park(pool) || (work->is_undo && !listing->has_parked))
        return VW_OK;
    if (request->region[0] != '\0') {
        if (!find_region(pool, request->region, &id))
            return VW_OK;
        only = &id;
    }
    vw_status status =
        request->is_wake ? vw_pool_wake(pool, only, &done) : park(listing, only, &done);
    work->pool_count++;
    work->moved_bytes += done.moved_bytes;
    work->wait_ns += done.wait_ns;
    return status;
}
