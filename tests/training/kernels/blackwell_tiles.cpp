// SPDX-License-Identifier: Apache-2.0
// The gradients of attention once more, as they are compiled for Blackwell.
#define TESSERA_OF_BLACKWELL
#define tiles_backward blackwell_tiles_backward
#include "engine/backends/cuda/module/attention_tiles_gradient.cu"
