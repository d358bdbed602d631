/* test_device_host.c - the device contract, on host memory. */
#include "contract/device_contract.h"

static hr_status make(void *context, hr_device **out)
{
    (void)context;
    return hr_host_device_create(UINT64_C(256) << 20, out);
}

int main(void)
{
    const hr_test_device_factory factory = {"host: 256 MiB", make, NULL};
    return hr_test_device_contract(&factory);
}
