/* gpu_capture_views.h - between gpu_capture_scene.c and gpu_capture_views.c. */
#ifndef VW_TESTS_GPU_CAPTURE_VIEWS_H
#define VW_TESTS_GPU_CAPTURE_VIEWS_H

#include "vramwise/device.h"

/* From now on what is mapped through this copy of a device is noted. One at a time. */
void capture_note_mappings(vw_device *device);

#endif /* VW_TESTS_GPU_CAPTURE_VIEWS_H */
