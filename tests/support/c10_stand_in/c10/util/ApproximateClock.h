// Stands in for PyTorch's header of this name: see stand_in_c10.h.
#pragma once
#include "../../stand_in_c10.h"
