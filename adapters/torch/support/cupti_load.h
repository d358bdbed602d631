/* cupti_load.h - CUPTI, found when the program runs.
 *
 * CUDA's own way to be called at the entry and exit of each driver function. It is a library that
 * comes with PyTorch, and is usually loaded already; there must be one in a process only, so that
 * one is taken before any other is looked for. Its types are declared here (CUPTI 13.0, the same
 * since 4.1), so that building needs no CUDA. */
#ifndef VRAMWISE_TORCH_CUPTI_LOAD_H
#define VRAMWISE_TORCH_CUPTI_LOAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* CUptiResult: only those we tell apart. */
enum { VW__CUPTI_SUCCESS = 0, VW__CUPTI_ERROR_MULTIPLE_SUBSCRIBERS = 39 };

enum { VW__CUPTI_DRIVER_API = 1 };                          /* CUPTI_CB_DOMAIN_DRIVER_API */
enum { VW__CUPTI_ENTER = 0, VW__CUPTI_EXIT = 1 };           /* CUpti_ApiCallbackSite */
typedef struct vw__cupti_subscriber_ *vw__cupti_subscriber; /* CUpti_SubscriberHandle; opaque */

/* CUpti_CallbackData */
typedef struct vw__cupti_call {
    int site;
    const char *function_name;
    const void *parameters;
    const void *return_value; /* a CUresult; valid at VW__CUPTI_EXIT */
    const char *symbol_name;
    void *context;
    uint32_t context_id;
    uint64_t *correlation_data;
    uint32_t correlation_id;
} vw__cupti_call;

/* CUpti_CallbackFunc */
typedef void (*vw__cupti_callback)(void *user_data, int domain, uint32_t id,
                                   const vw__cupti_call *call);

typedef struct vw__cupti {
    int (*subscribe)(vw__cupti_subscriber *subscriber, vw__cupti_callback callback, void *data);
    int (*unsubscribe)(vw__cupti_subscriber subscriber);
    int (*enable_callback)(uint32_t is_enabled, vw__cupti_subscriber subscriber, int domain,
                           uint32_t id);
    int (*get_callback_name)(int domain, uint32_t id, const char **name);
    int (*get_result_string)(int result, const char **text);
} vw__cupti;

/* The one that VRAMWISE_CUPTI names, where that is set; else one that is loaded; else the first
 * that can be, by its name or beside the CUDA runtime that is loaded. Never closed. False: none, or
 * one that lacks a function; `reason` says what was tried. */
bool vw__cupti_load(vw__cupti *out, char *reason, size_t capacity);

/* CUPTI's own words, or "unknown error". */
const char *vw__cupti_text(const vw__cupti *cupti, int result);

#endif /* VRAMWISE_TORCH_CUPTI_LOAD_H */
