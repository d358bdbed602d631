/* fake_cuda_state.h - asks the fake driver that HEADROOM_CUDA_DRIVER names, and that was loaded. */
#ifndef HR_TESTS_FAKE_CUDA_STATE_H
#define HR_TESTS_FAKE_CUDA_STATE_H

#include "support/fake_cuda/fake_libcuda.h"

/* As a program beside us would ask: through the library, not through our driver table. */
fake_cuda_state hr_test_fake_cuda_state(void);

#endif /* HR_TESTS_FAKE_CUDA_STATE_H */
