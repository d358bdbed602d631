// Stands in for PyTorch's header of this name: see stand_in_cudart.h.
#pragma once
#include "stand_in_cudart.h"
