// Stands in for PyTorch's header of this name.
#pragma once
#include "../../stand_in_c10.h"
#if STAND_IN_TORCH == 215
#define TORCH_VERSION "2.15.0a0"
#elif STAND_IN_TORCH == 212
#define TORCH_VERSION "2.12.0"
#elif STAND_IN_TORCH == 211
#define TORCH_VERSION "2.11.0"
#elif STAND_IN_TORCH == 210
#define TORCH_VERSION "2.10.0"
#elif STAND_IN_TORCH == 208
#define TORCH_VERSION "2.8.0"
#elif STAND_IN_TORCH == 207
#define TORCH_VERSION "2.7.1"
#elif STAND_IN_TORCH == 205
#define TORCH_VERSION "2.5.1"
#else
#error "no stand-in of this version"
#endif
