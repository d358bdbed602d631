/* host_stock.c - lending pieces of host memory, and the thread that makes them ahead.
 *
 * Whoever makes one reserves its bytes first, under the lock, makes it without, and then either
 * keeps the bytes or puts them back: so the limit holds whoever is at it at the same time. The
 * thread sleeps until there is a wish. */
#include "pool/host_stock.h"

#include <pthread.h>
#include <stdbool.h>
#include <string.h>

#include "base/checked_math.h" /* vw__min_u64 */
#include "base/error.h"
#include "base/guest_thread.h"
#include "base/host_memory.h"
#include "base/pinned_budget.h"
#include "pool/locked_memory.h"

struct vw__stock {
    const vw_device *device; /* set at creation, then read-only, like the next three */
    vw__stock_kind kind;
    vw_pinned_budget *budget; /* or NULL */
    uint64_t limit_bytes;

    pthread_mutex_t lock; /* guards everything below */
    pthread_cond_t has_news;
    vw__lender_handle *ready;
    vw__lender_handle *stuck; /* the device would not unmap their windows: tried again at the end */
    vw__lender_numbers numbers;
    uint64_t wishes_bytes[VW__LENDER_WISHES];
    size_t wish_count; /* 0: none, or given up */
    bool has_thread;
    bool is_ending;
    vw__guest_thread_listed listed; /* the list's, once there is a thread */
};

vw_status vw__stock_create(const vw_device *device, vw__stock_kind kind, vw_pinned_budget *budget,
                           uint64_t limit_bytes, vw__stock **out)
{
    vw__stock *stock = vw__host_alloc_zeroed(1, sizeof *stock);
    if (stock == NULL)
        return vw__fail_host_memory(sizeof *stock, "a stock of host handles");
    stock->device = device;
    stock->kind = kind;
    stock->budget = budget;
    stock->limit_bytes = limit_bytes;
    if (pthread_mutex_init(&stock->lock, NULL) != 0) {
        vw__host_free(stock);
        return vw__fail(VW_ERR_HOST_MEMORY, "no lock for a stock of host handles");
    }
    if (!vw__guest_thread_condition(&stock->has_news)) {
        pthread_mutex_destroy(&stock->lock);
        vw__host_free(stock);
        return vw__fail(VW_ERR_HOST_MEMORY, "no condition for a stock of host handles");
    }
    *out = stock;
    return VW_OK;
}

/* ---- bytes ----------------------------------------------------------------------------------- */

static bool reserve_bytes(vw__stock *stock, uint64_t size_bytes)
{
    if (size_bytes > stock->limit_bytes - stock->numbers.held_bytes ||
        !vw__pinned_budget_draw(stock->budget, size_bytes))
        return false;
    stock->numbers.held_bytes += size_bytes;
    return true;
}

static void put_back_bytes(vw__stock *stock, uint64_t size_bytes)
{
    stock->numbers.held_bytes -= size_bytes;
    vw__pinned_budget_put_back(stock->budget, size_bytes);
}

/* ---- one handle ------------------------------------------------------------------------------ */

static bool is_locked(const vw__lender_handle *handle)
{
    return handle->device_handle == 0;
}

/* False: the device refuses, and the memory stays where it is. Without a window it does nothing. */
static bool close_window(const vw_device *device, vw__lender_handle *handle)
{
    if (handle->window == VW_NULL)
        return true;
    if (is_locked(handle)) {
        if (vw__locked_memory_give_back(device, (void *)(uintptr_t)handle->window) != VW_OK)
            return false;
        handle->window = VW_NULL;
        return true;
    }
    if (device->table->unmap(device->context, handle->window, handle->size_bytes) != VW_OK)
        return false;
    (void)device->table->unreserve(device->context, handle->window, handle->size_bytes);
    handle->window = VW_NULL;
    return true;
}

/* On failure `handle->window` is VW_NULL, or what could not be closed again. */
static vw_status open_window(const vw_device *device, vw__lender_handle *handle)
{
    const vw_device_table *table = device->table;
    uint64_t size_bytes = handle->size_bytes;
    vw_device_ptr window;
    VW__TRY(table->reserve(device->context, size_bytes, &window));
    vw_status status = table->map(device->context, window, size_bytes, handle->device_handle);
    if (status != VW_OK) {
        (void)table->unreserve(device->context, window, size_bytes);
        return status;
    }
    handle->window = window;
    status = table->set_access(device->context, window, size_bytes);
    if (status != VW_OK)
        (void)close_window(device, handle);
    return status;
}

static vw_status fill_in_locked(const vw_device *device, vw__lender_handle *handle)
{
    void *memory = NULL;
    size_t size_bytes;
    if (!vw__narrow_size(handle->size_bytes, &size_bytes))
        return vw__fail(VW_ERR_TOO_LARGE, "more host memory than this machine can address");
    VW__TRY(vw__locked_memory_take(device, size_bytes, vw__locked_memory_thread_count(), &memory));
    handle->window = (uintptr_t)memory;
    return VW_OK;
}

static vw_status fill_in_handle(const vw_device *device, vw__lender_handle *handle)
{
    const vw_device_table *table = device->table;
    VW__TRY(table->create_on_host(device->context, handle->size_bytes, &handle->device_handle));
    vw_status status = open_window(device, handle);
    if (status != VW_OK && handle->window == VW_NULL)
        (void)table->release(device->context, handle->device_handle);
    return status;
}

/* Under the lock. Its bytes stay reserved: they are in use. */
static void put_stuck(vw__stock *stock, vw__lender_handle *handle)
{
    handle->next = stock->stuck;
    stock->stuck = handle;
}

/* Its bytes are reserved, and are again free where it cannot be made. Without the lock. */
static vw_status make(vw__stock *stock, uint64_t size_bytes, vw__lender_handle **out)
{
    vw__lender_handle *made = vw__host_alloc_zeroed(1, sizeof *made);
    vw_status status = VW_ERR_HOST_MEMORY;
    if (made != NULL) {
        made->size_bytes = size_bytes;
        status = stock->kind == VW__STOCK_LOCKED ? fill_in_locked(stock->device, made)
                                                 : fill_in_handle(stock->device, made);
    } else {
        (void)vw__fail_host_memory(sizeof *made, "a handle in host memory");
    }
    if (status == VW_OK) {
        *out = made;
        return VW_OK;
    }
    pthread_mutex_lock(&stock->lock);
    if (made != NULL && made->window != VW_NULL) {
        put_stuck(stock, made);
        made = NULL;
    } else {
        put_back_bytes(stock, size_bytes);
    }
    stock->numbers.failed_creations++;
    pthread_mutex_unlock(&stock->lock);
    vw__host_free(made);
    return VW_ERR_HOST_MEMORY;
}

/* Ends a handle that is in no list. Without the lock. */
static void end(vw__stock *stock, vw__lender_handle *handle)
{
    const vw_device *device = stock->device;
    bool is_closed = close_window(device, handle);
    if (is_closed && !is_locked(handle))
        (void)device->table->release(device->context, handle->device_handle);
    pthread_mutex_lock(&stock->lock);
    if (is_closed)
        put_back_bytes(stock, handle->size_bytes);
    else
        put_stuck(stock, handle);
    pthread_mutex_unlock(&stock->lock);
    if (is_closed)
        vw__host_free(handle);
}

/* The same with the lock, which is dropped meanwhile. */
static void end_without_lock(vw__stock *stock, vw__lender_handle *handle)
{
    pthread_mutex_unlock(&stock->lock);
    end(stock, handle);
    pthread_mutex_lock(&stock->lock);
}

/* At the stock's end: once more, and then what the device refuses is lost. */
static void abandon_stuck(vw__stock *stock)
{
    const vw_device *device = stock->device;
    for (vw__lender_handle *handle; (handle = stock->stuck) != NULL;) {
        stock->stuck = handle->next;
        (void)close_window(device, handle);
        if (!is_locked(handle))
            (void)device->table->release(device->context, handle->device_handle);
        put_back_bytes(stock, handle->size_bytes);
        vw__host_free(handle);
    }
}

/* Takes a handle of the given size out of the stock, of any size for 0; NULL: it has none. */
static vw__lender_handle *take_ready(vw__stock *stock, uint64_t size_bytes)
{
    vw__lender_handle **link = &stock->ready;
    while (*link != NULL && size_bytes != 0 && (*link)->size_bytes != size_bytes)
        link = &(*link)->next;
    vw__lender_handle *found = *link;
    if (found != NULL) {
        *link = found->next;
        stock->numbers.ready_bytes -= found->size_bytes;
    }
    return found;
}

static void put_ready(vw__stock *stock, vw__lender_handle *handle)
{
    handle->next = stock->ready;
    stock->ready = handle;
    stock->numbers.ready_bytes += handle->size_bytes;
}

/* ---- lending --------------------------------------------------------------------------------- */

static vw_status take(void *context, uint64_t size_bytes, vw__lender_handle **out)
{
    vw__stock *stock = context;
    pthread_mutex_lock(&stock->lock);
    vw__lender_handle *found = take_ready(stock, size_bytes);
    while (found == NULL && !reserve_bytes(stock, size_bytes)) {
        vw__lender_handle *unused = take_ready(stock, 0);
        if (unused == NULL) {
            pthread_mutex_unlock(&stock->lock);
            return VW_ERR_OUT_OF_MEMORY;
        }
        end_without_lock(stock, unused);
    }
    pthread_mutex_unlock(&stock->lock);
    if (found == NULL)
        return make(stock, size_bytes, out);
    *out = found;
    return VW_OK;
}

static void give_back(void *context, vw__lender_handle *handle)
{
    vw__stock *stock = context;
    pthread_mutex_lock(&stock->lock);
    put_ready(stock, handle);
    pthread_mutex_unlock(&stock->lock);
}

/* ---- making ahead ---------------------------------------------------------------------------- */

static size_t count_wishes(const vw__stock *stock, uint64_t size_bytes)
{
    size_t count = 0;
    for (size_t i = 0; i < stock->wish_count; i++)
        count += stock->wishes_bytes[i] == size_bytes;
    return count;
}

static size_t count_ready(const vw__stock *stock, uint64_t size_bytes)
{
    size_t count = 0;
    for (const vw__lender_handle *each = stock->ready; each != NULL; each = each->next)
        count += each->size_bytes == size_bytes;
    return count;
}

/* A size of which fewer are ready than wished for; 0: none. */
static uint64_t find_missing(const vw__stock *stock)
{
    for (size_t i = 0; i < stock->wish_count; i++) {
        uint64_t size_bytes = stock->wishes_bytes[i];
        if (count_ready(stock, size_bytes) < count_wishes(stock, size_bytes))
            return size_bytes;
    }
    return 0;
}

static void *make_ahead(void *context)
{
    vw__stock *stock = context;
    pthread_mutex_lock(&stock->lock);
    while (!stock->is_ending) {
        uint64_t size_bytes = find_missing(stock);
        if (size_bytes == 0 || !reserve_bytes(stock, size_bytes)) {
            stock->wish_count = 0;
            (void)vw__guest_thread_wait(&stock->has_news, &stock->lock, NULL);
            continue;
        }
        pthread_mutex_unlock(&stock->lock);
        vw__lender_handle *made = NULL;
        vw_status status = make(stock, size_bytes, &made);
        pthread_mutex_lock(&stock->lock);
        if (status != VW_OK)
            stock->wish_count = 0;
        else if (stock->wish_count != 0)
            put_ready(stock, made);
        else
            end_without_lock(stock, made); /* the stock was emptied meanwhile */
    }
    pthread_mutex_unlock(&stock->lock);
    return NULL;
}

static void tell_to_end(void *context)
{
    vw__stock *stock = context;
    pthread_mutex_lock(&stock->lock);
    stock->is_ending = true;
    pthread_cond_signal(&stock->has_news);
    pthread_mutex_unlock(&stock->lock);
}

/* Without a thread everything is made when it is needed. */
static void wish(void *context, const uint64_t *sizes_bytes, size_t count)
{
    vw__stock *stock = context;
    pthread_mutex_lock(&stock->lock);
    stock->wish_count = count < VW__LENDER_WISHES ? count : VW__LENDER_WISHES;
    memcpy(stock->wishes_bytes, sizes_bytes, stock->wish_count * sizeof *sizes_bytes);
    bool is_first =
        !stock->has_thread &&
        vw__guest_thread_start(&stock->listed.thread, "vramwise-spill", make_ahead, stock);
    stock->has_thread = stock->has_thread || is_first;
    pthread_cond_signal(&stock->has_news);
    pthread_mutex_unlock(&stock->lock);
    if (!is_first)
        return;
    stock->listed.tell_to_end = tell_to_end;
    stock->listed.context = stock;
    vw__guest_thread_list(&stock->listed); /* takes a lock that comes before ours */
}

/* ---- looking, and the end -------------------------------------------------------------------- */

static void look(void *context, vw__lender_numbers *out)
{
    vw__stock *stock = context;
    pthread_mutex_lock(&stock->lock);
    *out = stock->numbers;
    uint64_t lent_bytes = out->held_bytes - out->ready_bytes;
    uint64_t left_bytes = vw__pinned_budget_left(stock->budget);
    out->free_bytes = vw__min_u64(
        stock->limit_bytes - lent_bytes,
        left_bytes < UINT64_MAX - out->ready_bytes ? left_bytes + out->ready_bytes : UINT64_MAX);
    pthread_mutex_unlock(&stock->lock);
}

vw__lender vw__stock_lender(vw__stock *stock)
{
    return (vw__lender){stock, take, give_back, wish, look};
}

void vw__stock_empty(vw__stock *stock)
{
    pthread_mutex_lock(&stock->lock);
    stock->wish_count = 0;
    for (vw__lender_handle *handle; (handle = take_ready(stock, 0)) != NULL;)
        end_without_lock(stock, handle);
    pthread_mutex_unlock(&stock->lock);
}

void vw__stock_destroy(vw__stock *stock)
{
    if (stock == NULL)
        return;
    if (stock->has_thread && !vw__guest_thread_end(&stock->listed))
        return; /* the process ends, and the thread still has it */
    for (vw__lender_handle *handle; (handle = take_ready(stock, 0)) != NULL;)
        end(stock, handle);
    abandon_stuck(stock);
    pthread_cond_destroy(&stock->has_news);
    pthread_mutex_destroy(&stock->lock);
    vw__host_free(stock);
}
