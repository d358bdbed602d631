// Stands in for PyTorch's header of this name: see stand_in_tensor.h.
#pragma once
#include "../../stand_in_tensor.h"
