/* device_idle.c - see device_idle.h. The driver is the one libvramwise uses, by its name. */
#include "device_idle.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* ---- the driver ------------------------------------------------------------------------------ */

enum {
    SUCCESS = 0, /* CUDA_SUCCESS, and so on */
    ERROR_NOT_INITIALIZED = 3,
    ERROR_NO_DEVICE = 100,
    CAPTURE_MODE_RELAXED = 2 /* CU_STREAM_CAPTURE_MODE_RELAXED */
};

typedef struct driver_functions {
    int (*get_count)(int *count);
    int (*get_device)(int *device, int index);
    int (*get_state)(int device, unsigned *flags, int *is_active);
    int (*retain)(void **context, int device);
    int (*release)(int device);
    int (*push)(void *context);
    int (*pop)(void **context);
    int (*synchronize)(void);
    int (*exchange_capture_mode)(int *mode); /* may be NULL */
} driver_functions;

typedef struct wanted_function {
    const char *name;
    const char *fallback; /* or NULL */
    size_t offset_bytes;
    bool is_required;
} wanted_function;

static const wanted_function wanted[] = {
    {"cuDeviceGetCount", NULL, offsetof(driver_functions, get_count), true},
    {"cuDeviceGet", NULL, offsetof(driver_functions, get_device), true},
    {"cuDevicePrimaryCtxGetState", NULL, offsetof(driver_functions, get_state), true},
    {"cuDevicePrimaryCtxRetain", NULL, offsetof(driver_functions, retain), true},
    {"cuDevicePrimaryCtxRelease_v2", "cuDevicePrimaryCtxRelease",
     offsetof(driver_functions, release), true},
    {"cuCtxPushCurrent_v2", NULL, offsetof(driver_functions, push), true},
    {"cuCtxPopCurrent_v2", NULL, offsetof(driver_functions, pop), true},
    {"cuCtxSynchronize", NULL, offsetof(driver_functions, synchronize), true},
    {"cuThreadExchangeStreamCaptureMode", NULL, offsetof(driver_functions, exchange_capture_mode),
     false},
};

/* Written once, by load_driver(). */
static driver_functions driver;
static bool has_driver;
static bool is_driver_usable;

static void load_driver(void)
{
    const char *chosen = secure_getenv("VRAMWISE_CUDA_DRIVER");
    const char *name = chosen != NULL && chosen[0] != '\0' ? chosen : "libcuda.so.1";
    void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL)
        return; /* and nobody has work on a GPU */
    has_driver = true;
    is_driver_usable = true;
    for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++) {
        void *address = dlsym(library, wanted[i].name);
        if (address == NULL && wanted[i].fallback != NULL)
            address = dlsym(library, wanted[i].fallback);
        if (address == NULL && wanted[i].is_required)
            is_driver_usable = false;
        memcpy((char *)&driver + wanted[i].offset_bytes, &address, sizeof address);
    }
}

static bool synchronize_context(void *context)
{
    void *popped = NULL;
    int mode = CAPTURE_MODE_RELAXED; /* a capture elsewhere is none of our business */
    if (driver.push(context) != SUCCESS)
        return false;
    bool is_relaxed =
        driver.exchange_capture_mode != NULL && driver.exchange_capture_mode(&mode) == SUCCESS;
    bool is_done = driver.synchronize() == SUCCESS;
    if (is_relaxed)
        (void)driver.exchange_capture_mode(&mode);
    (void)driver.pop(&popped);
    return is_done;
}

static bool synchronize_device(int index)
{
    int device = 0, is_active = 0;
    unsigned flags = 0;
    void *context = NULL;
    if (driver.get_device(&device, index) != SUCCESS ||
        driver.get_state(device, &flags, &is_active) != SUCCESS)
        return false;
    if (!is_active)
        return true;
    if (driver.retain(&context, device) != SUCCESS)
        return false;
    bool is_done = synchronize_context(context);
    (void)driver.release(device);
    return is_done;
}

static void see_to_driver(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, load_driver);
}

const void *vw__driver_address(void)
{
    const void *address = NULL;
    see_to_driver();
    memcpy(&address, &driver.get_count, sizeof address);
    return address;
}

bool vw__devices_have_context(const void *context)
{
    int count = 0, device = 0, is_active = 0;
    unsigned flags = 0;
    bool is_found = false;
    see_to_driver();
    if (!is_driver_usable || driver.get_count(&count) != SUCCESS)
        return false;
    for (int i = 0; i < count && !is_found; i++) {
        void *primary = NULL;
        if (driver.get_device(&device, i) != SUCCESS ||
            driver.get_state(device, &flags, &is_active) != SUCCESS || !is_active ||
            driver.retain(&primary, device) != SUCCESS)
            continue;
        is_found = primary == context;
        (void)driver.release(device);
    }
    return is_found;
}

bool vw__devices_synchronize(void)
{
    see_to_driver();
    if (!has_driver)
        return true;
    if (!is_driver_usable)
        return false;
    int count = 0, result = driver.get_count(&count);
    if (result == ERROR_NOT_INITIALIZED || result == ERROR_NO_DEVICE)
        return true;
    bool is_done = result == SUCCESS;
    for (int i = 0; i < count && is_done; i++)
        is_done = synchronize_device(i);
    return is_done;
}

/* ---- the thread that waits ------------------------------------------------------------------- */

typedef enum waiter_state {
    WAITER_RESTS,
    WAITER_IS_ASKED,
    WAITER_WAITS,
    WAITER_IS_DONE
} waiter_state;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards what follows */
static pthread_cond_t changed;                           /* by the monotonic clock */
static bool has_waiter;
static waiter_state state;
static bool is_idle;          /* at WAITER_IS_DONE */
static bool is_wanted;        /* somebody waits for the answer */
static _Atomic int waiter_id; /* the thread's; 0: there is none */

static void *wait_for_devices(void *unused)
{
    (void)unused;
    atomic_store(&waiter_id, (int)syscall(SYS_gettid));
    pthread_mutex_lock(&lock);
    for (;;) {
        while (state != WAITER_IS_ASKED)
            pthread_cond_wait(&changed, &lock);
        state = WAITER_WAITS;
        pthread_mutex_unlock(&lock);
        bool is_done = vw__devices_synchronize();
        pthread_mutex_lock(&lock);
        is_idle = is_done;
        state = is_wanted ? WAITER_IS_DONE : WAITER_RESTS;
        pthread_cond_broadcast(&changed);
    }
    return NULL;
}

/* A child of fork() has no such thread, and no right to the driver either. */
static void forget_waiter(void)
{
    lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
    has_waiter = false;
    atomic_store(&waiter_id, 0);
    is_wanted = false;
    state = WAITER_RESTS;
}

static void prepare(void)
{
    pthread_condattr_t by_monotonic_clock;
    pthread_condattr_init(&by_monotonic_clock);
    pthread_condattr_setclock(&by_monotonic_clock, CLOCK_MONOTONIC);
    pthread_cond_init(&changed, &by_monotonic_clock);
    pthread_condattr_destroy(&by_monotonic_clock);
    pthread_atfork(NULL, NULL, forget_waiter);
}

/* Signals are for the program's own threads. */
static bool start_waiter(void)
{
    pthread_t thread;
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    bool is_started = pthread_create(&thread, NULL, wait_for_devices, NULL) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (is_started)
        pthread_detach(thread);
    return is_started;
}

int vw__devices_waiter(void)
{
    return atomic_load(&waiter_id);
}

bool vw__devices_are_idle_within(uint64_t most_ns)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, prepare);

    struct timespec end;
    clock_gettime(CLOCK_MONOTONIC, &end);
    uint64_t nanoseconds = (uint64_t)end.tv_nsec + most_ns;
    end.tv_sec += (time_t)(nanoseconds / 1000000000);
    end.tv_nsec = (long)(nanoseconds % 1000000000);

    pthread_mutex_lock(&lock);
    if (!has_waiter)
        has_waiter = start_waiter();
    bool answer = false;
    if (has_waiter && state == WAITER_RESTS) {
        state = WAITER_IS_ASKED;
        is_wanted = true;
        pthread_cond_broadcast(&changed);
        int result = 0;
        while (state != WAITER_IS_DONE && result != ETIMEDOUT)
            result = pthread_cond_timedwait(&changed, &lock, &end);
        is_wanted = false;
        if (state == WAITER_IS_DONE) {
            answer = is_idle;
            state = WAITER_RESTS;
        } else if (state == WAITER_IS_ASKED) {
            state = WAITER_RESTS; /* it never got to run */
        }
    }
    pthread_mutex_unlock(&lock);
    return answer;
}
