// Stands in for PyTorch's header of this name: see stand_in_cuda.h.
#pragma once
#include "../../stand_in_cuda.h"
