/* fake_cuda_state.h - queries the loaded fake driver (VRAMWISE_CUDA_DRIVER, or
 * VRAMWISE_HIP_DRIVER where that is set). */
#ifndef VW_TESTS_FAKE_CUDA_STATE_H
#define VW_TESTS_FAKE_CUDA_STATE_H

#include "support/fake_cuda/fake_libcuda.h"

/* Asks the library directly, as another program would, not through our driver table. */
fake_cuda_state vw_test_fake_cuda_state(void);

#endif /* VW_TESTS_FAKE_CUDA_STATE_H */
