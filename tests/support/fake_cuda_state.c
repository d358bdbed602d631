/* fake_cuda_state.c - finds the fake driver's own function in the library that is loaded. */
#include "support/fake_cuda_state.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "support/cmocka_here.h"

fake_cuda_state vw_test_fake_cuda_state(void)
{
    const char *hip = getenv("VRAMWISE_HIP_DRIVER");
    void *library =
        dlopen(hip != NULL ? hip : getenv("VRAMWISE_CUDA_DRIVER"), RTLD_NOW | RTLD_NOLOAD);
    assert_non_null(library);
    void *address = dlsym(library, FAKE_CUDA_GET_STATE);
    assert_non_null(address);
    dlclose(library); /* the driver table keeps it */
    fake_cuda_get_state_function get_state;
    memcpy(&get_state, &address, sizeof get_state);
    fake_cuda_state state;
    get_state(&state);
    return state;
}
