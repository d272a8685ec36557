// SPDX-License-Identifier: Apache-2.0
// The stand-in's functions as the backend's tables.
#pragma once

#include "engine/backends/cuda/cuda_module.h"
#include "tests/backends/cuda/stand_in/stand_in.h"

namespace tessera::test {

CudaApi cuda_table();
KernelApi kernel_table();
NcclApi nccl_table(int version);
std::unique_ptr<DeviceMath> make_twin_math(const MathOptions& options);
Result<std::string> find_fake_cufile();
Result<CufileApi> start_fake_cufile();

inline FakeStream* stream_of(CudaStream stream) { return reinterpret_cast<FakeStream*>(stream); }

// Runs `f` unless a fault is planted here; the code that `f` returns.
template <class F>
int called(Call call, F&& f) {
  StandIn& world = StandIn::current();
  const StandIn::Verdict verdict = world.enter(call);
  if (verdict.code != 0 || verdict.dropped) return verdict.code;
  return f(world);
}

}  // namespace tessera::test
