// Stands in for PyTorch's header of this name.
#pragma once
#define TORCH_VERSION_MAJOR 2
#define TORCH_VERSION_MINOR 11
#define TORCH_VERSION "2.11.0"
