/* fake_cuda_state.h - asks the fake driver that VRAMWISE_CUDA_DRIVER names, and that was loaded. */
#ifndef VW_TESTS_FAKE_CUDA_STATE_H
#define VW_TESTS_FAKE_CUDA_STATE_H

#include "support/fake_cuda/fake_libcuda.h"

/* As a program beside us would ask: through the library, not through our driver table. */
fake_cuda_state vw_test_fake_cuda_state(void);

#endif /* VW_TESTS_FAKE_CUDA_STATE_H */
