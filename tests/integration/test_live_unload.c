/* test_live_unload.c - a library that is unloaded takes its thread and its page with it.
 *
 * A plugin may bring libvramwise along and be unloaded before the process ends. The thread that
 * looks at pools must be gone by then: its code is. */
#include <dlfcn.h>
#include <stdlib.h>
#include <unistd.h>

#include "vramwise/vramwise.h"
#include "support/cmocka_here.h"
#include "support/live_folder.h"

/* What is unloaded leaves its page's memory behind: others may be writing to it. */
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
    return "detect_leaks=0";
}

/* The library's own functions, not those of the archive that the test is linked with. */
typedef struct library {
    void *handle;
    __typeof__(&vw_simulated_device_create) device_create;
    __typeof__(&vw_device_destroy) device_destroy;
    __typeof__(&vw_pool_create) pool_create;
    __typeof__(&vw_pool_destroy) pool_destroy;
} library;

static void find(void *handle, const char *name, void *function)
{
    *(void **)function = dlsym(handle, name);
    assert_non_null(*(void **)function);
}

static library load(void)
{
    library l = {.handle = dlopen(VW_SHARED_LIBRARY, RTLD_NOW | RTLD_LOCAL)};
    assert_non_null(l.handle);
    find(l.handle, "vw_simulated_device_create", &l.device_create);
    find(l.handle, "vw_device_destroy", &l.device_destroy);
    find(l.handle, "vw_pool_create", &l.pool_create);
    find(l.handle, "vw_pool_destroy", &l.pool_destroy);
    return l;
}

static bool has_device(const vw_jobs *jobs, void *context)
{
    (void)context;
    return jobs->job_count == 1 && jobs->jobs[0].device_count == 1;
}

static void a_library_may_be_loaded_and_unloaded_again_and_again(void **state)
{
    (void)state;
    live_folder folder;
    live_folder_make(&folder);
    for (int i = 0; i < 10; i++) {
        library l = load();
        vw_device *device = NULL;
        vw_pool *pool = NULL;
        assert_int_equal(l.device_create(NULL, &device), VW_OK);
        assert_int_equal(l.pool_create(device, NULL, &pool), VW_OK);
        if (i % 2 == 0) /* at work, or just started */
            vw_jobs_free(live_folder_wait(&folder, has_device, NULL));
        l.pool_destroy(pool);
        l.device_destroy(device);
        assert_int_equal(dlclose(l.handle), 0);
        assert_null(dlopen(VW_SHARED_LIBRARY, RTLD_NOW | RTLD_NOLOAD));
        assert_int_equal(live_folder_count(&folder), 0);
    }
    live_folder_remove(&folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_library_may_be_loaded_and_unloaded_again_and_again)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
