/* test_device_simulated.c - the device contract, on arithmetic. */
#include "contract/device_contract.h"

static vw_status make(void *context, vw_device **out)
{
    return vw_simulated_device_create(context, out);
}

int main(void)
{
    vw_simulated_options small = {.struct_size = sizeof small,
                                  .capacity_bytes = UINT64_C(256) << 20};
    vw_simulated_options fine_grained = {.struct_size = sizeof fine_grained,
                                         .granularity_bytes = UINT64_C(64) << 10};
    vw_simulated_options plain_only = {.struct_size = sizeof plain_only,
                                       .without_virtual_memory = true};
    const vw_test_device_factory factories[] = {
        {"simulated: 80 GiB", make, NULL},
        {"simulated: 256 MiB", make, &small},
        {"simulated: granules of 64 KiB", make, &fine_grained},
        {"simulated: without virtual memory", make, &plain_only},
    };
    int failed = 0;
    for (size_t i = 0; i < sizeof factories / sizeof factories[0]; i++)
        failed += vw_test_device_contract(&factories[i]);
    return failed;
}
