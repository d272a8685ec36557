// SPDX-License-Identifier: Apache-2.0
// Profiles as the PyTorch profiler writes them of FSDP2 on GPUs, made from a plan that is known.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace tessera::test {

struct MadeProfile {
  int rank = 0, world = 4;
  int steps = 3, layers = 3;
  std::int64_t skew = 0;        // ns that the rank's clock is ahead
  std::int64_t jitter = 2'000;  // ns within which ranks end a collective
  int kernels = 4;              // per layer and pass
  int python_functions = 0;     // events per layer that no import reads
  bool rocm = false;
  bool sequence = false;                  // collectives are numbered
  std::string nccl_arguments = "kernel";  // who tells of a collective: "kernel", "host"
};

/// Collectives of one rank: gathers of each layer and the root in forward, of each layer in
/// backward, reductions of all.
inline int made_collectives(const MadeProfile& p) { return p.steps * (3 * p.layers + 2); }
inline int made_kernels(const MadeProfile& p) { return p.steps * 2 * p.layers * p.kernels; }

/// Gives the file to `write` in parts.
void make_profile(const MadeProfile& plan, const std::function<void(const std::string&)>& write);
std::string made_profile(const MadeProfile& plan);

}  // namespace tessera::test
