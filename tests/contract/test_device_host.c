/* test_device_host.c - the device contract, on host memory. */
#include "contract/device_contract.h"

static vw_status make(void *context, vw_device **out)
{
    (void)context;
    return vw_host_device_create(UINT64_C(256) << 20, out);
}

int main(void)
{
    const vw_test_device_factory factory = {"host: 256 MiB", make, NULL};
    return vw_test_device_contract(&factory);
}
