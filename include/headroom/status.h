/* status.h - what can go wrong, and where the detail is kept.
 *
 * Every function that can fail returns hr_status. The code says what kind of failure it was;
 * hr_last_error() says which one, in words, on the thread that saw it. */
#ifndef HEADROOM_STATUS_H
#define HEADROOM_STATUS_H

#if defined(__GNUC__)
#define HR_API __attribute__((visibility("default")))
#define HR_MUST_CHECK __attribute__((warn_unused_result))
#else
#define HR_API
#define HR_MUST_CHECK
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* One list makes the enum, the names and the messages. Numbers are pinned, in bands, and never
 * reused: 1-9 the caller's mistake, 10-19 memory, 20-29 device and driver, 30-39 files. */
#define HR_STATUS_LIST(X)                                                                          \
    X(HR_OK, 0, "success")                                                                         \
    X(HR_ERR_INVALID_ARGUMENT, 1, "invalid argument")                                              \
    X(HR_ERR_UNKNOWN_ADDRESS, 2, "not the start of a live block of this pool")                     \
    X(HR_ERR_BAD_SETTING, 3, "the option string cannot be used")                                   \
    X(HR_ERR_UNSUPPORTED, 4, "not supported here")                                                 \
    X(HR_ERR_WRONG_PROCESS, 5, "the object belongs to the process that forked this one")           \
    X(HR_ERR_WRONG_STATE, 6, "not possible in the present state")                                  \
    X(HR_ERR_OUT_OF_MEMORY, 10, "out of device memory")                                            \
    X(HR_ERR_TOO_LARGE, 11, "larger than any device could serve")                                  \
    X(HR_ERR_HOST_MEMORY, 12, "out of host memory")                                                \
    X(HR_ERR_REJECTED, 13, "refused beforehand by the memory fraction")                            \
    X(HR_ERR_DEVICE, 20, "the device reported an error")                                           \
    X(HR_ERR_NO_DEVICE, 21, "no such device")                                                      \
    X(HR_ERR_NOT_READY, 22, "not complete yet")                                                    \
    X(HR_ERR_CORRUPT_FILE, 30, "file is damaged")                                                  \
    X(HR_ERR_FILE, 31, "file cannot be read or written")

typedef enum hr_status {
#define HR__STATUS_ENUM(name, number, message) name = number,
    HR_STATUS_LIST(HR__STATUS_ENUM)
#undef HR__STATUS_ENUM
} hr_status;

/* "HR_ERR_OUT_OF_MEMORY"; "HR_UNKNOWN_STATUS" for a number that is no status. Static strings. */
HR_API const char *hr_status_name(hr_status status);

/* "out of device memory": the kind, as a sentence fragment. Static strings. */
HR_API const char *hr_status_message(hr_status status);

/* What the last failing call on this thread had to say, or "" if none failed yet. Valid until the
 * next failing call on this thread; never NULL. A call that succeeds leaves it alone. */
HR_API const char *hr_last_error(void);

/* For those who extend the library (a device of your own, an adapter): what hr_last_error() says on
 * this thread from now on. The text is copied, and cut where it is longer than the library keeps;
 * NULL is "". */
HR_API void hr_set_last_error(const char *detail);

#ifdef __cplusplus
}
#endif
#endif /* HEADROOM_STATUS_H */
