/* gpu_capture_views.h - between gpu_capture_scene.c and gpu_capture_views.c. */
#ifndef HR_TESTS_GPU_CAPTURE_VIEWS_H
#define HR_TESTS_GPU_CAPTURE_VIEWS_H

#include "headroom/device.h"

/* From now on what is mapped through this copy of a device is noted. One at a time. */
void capture_note_mappings(hr_device *device);

#endif /* HR_TESTS_GPU_CAPTURE_VIEWS_H */
