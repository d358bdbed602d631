/* status.h - status codes and error messages.
 *
 * Every function that can fail returns a vw_status. The code says what kind of failure it was;
 * vw_last_error() has the details, on the same thread. */
#ifndef VRAMWISE_STATUS_H
#define VRAMWISE_STATUS_H

#if defined(__GNUC__)
#define VW_API __attribute__((visibility("default")))
#define VW_MUST_CHECK __attribute__((warn_unused_result))
#else
#define VW_API
#define VW_MUST_CHECK
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* One list makes the enum, the names and the messages. Numbers are pinned, in bands, and never
 * reused: 1-9 the caller's mistake, 10-19 memory, 20-29 device and driver, 30-39 files. */
#define VW_STATUS_LIST(X)                                                                          \
    X(VW_OK, 0, "success")                                                                         \
    X(VW_ERR_INVALID_ARGUMENT, 1, "invalid argument")                                              \
    X(VW_ERR_UNKNOWN_ADDRESS, 2, "not the start of a live block of this pool")                     \
    X(VW_ERR_BAD_SETTING, 3, "the option string cannot be used")                                   \
    X(VW_ERR_UNSUPPORTED, 4, "not supported here")                                                 \
    X(VW_ERR_WRONG_PROCESS, 5, "the object belongs to the process that forked this one")           \
    X(VW_ERR_WRONG_STATE, 6, "not possible in the present state")                                  \
    X(VW_ERR_OUT_OF_MEMORY, 10, "out of device memory")                                            \
    X(VW_ERR_TOO_LARGE, 11, "larger than any device could serve")                                  \
    X(VW_ERR_HOST_MEMORY, 12, "out of host memory")                                                \
    X(VW_ERR_REJECTED, 13, "refused beforehand by the memory fraction")                            \
    X(VW_ERR_PARKED, 14, "the memory is parked")                                                   \
    X(VW_ERR_DEVICE, 20, "the device reported an error")                                           \
    X(VW_ERR_NO_DEVICE, 21, "no such device")                                                      \
    X(VW_ERR_NOT_READY, 22, "not complete yet")                                                    \
    X(VW_ERR_CORRUPT_FILE, 30, "file is damaged")                                                  \
    X(VW_ERR_FILE, 31, "file cannot be read or written")

typedef enum vw_status {
#define VW__STATUS_ENUM(name, number, message) name = number,
    VW_STATUS_LIST(VW__STATUS_ENUM)
#undef VW__STATUS_ENUM
} vw_status;

/* "VW_ERR_OUT_OF_MEMORY"; "VW_UNKNOWN_STATUS" for an unknown number. Static strings. */
VW_API const char *vw_status_name(vw_status status);

/* "out of device memory": the kind, as a sentence fragment. Static strings. */
VW_API const char *vw_status_message(vw_status status);

/* The message of the last failing call on this thread, or "" if none has failed yet. Valid until
 * the next failing call on this thread; never NULL. A call that succeeds leaves it alone. */
VW_API const char *vw_last_error(void);

/* For extensions of the library (your own device, an adapter): sets what vw_last_error() returns on
 * this thread. The text is copied, and cut to the length that the library keeps; NULL is "". */
VW_API void vw_set_last_error(const char *detail);

#ifdef __cplusplus
}
#endif
#endif /* VRAMWISE_STATUS_H */
