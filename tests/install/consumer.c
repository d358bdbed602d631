/* consumer.c - the smallest program that uses an installed headroom. */
#include <stdio.h>
#include <string.h>

#include <headroom/device.h>
#include <headroom/version.h>

int main(void)
{
    hr_device *device = NULL;
    if (hr_simulated_device_create(NULL, &device) != HR_OK)
        return 1;
    printf("%s on %s\n", hr_version_string(), device->properties.name);
    hr_device_destroy(device);
    return strcmp(hr_version_string(), HR_VERSION_STRING) == 0 ? 0 : 1;
}
