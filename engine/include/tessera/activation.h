// SPDX-License-Identifier: Apache-2.0
// The function between the matrices of an MLP: what a config.json calls `hidden_act`, and what
// kernels of CPUs and GPUs compute with its derivative.
#pragma once

#include <cstdint>

namespace tessera {

enum class Activation : std::uint8_t {
  gelu_tanh,  // GELU in the tanh form (arXiv 1606.08415): gelu_new of GPT-2
  gelu,       // exact: x Phi(x), Phi being the normal distribution
  relu,
  silu,  // x sigmoid(x), also called swish
};

}  // namespace tessera
