/* consumer.c - the smallest program that uses an installed vramwise. */
#include <stdio.h>
#include <string.h>

#include <vramwise/device.h>
#include <vramwise/version.h>

int main(void)
{
    vw_device *device = NULL;
    if (vw_simulated_device_create(NULL, &device) != VW_OK)
        return 1;
    printf("%s on %s\n", vw_version_string(), device->properties.name);
    vw_device_destroy(device);
    return strcmp(vw_version_string(), VW_VERSION_STRING) == 0 ? 0 : 1;
}
