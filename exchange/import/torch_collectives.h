// SPDX-License-Identifier: Apache-2.0
// What c10d, NCCL, RCCL and gloo call their collectives, and what they are.
#pragma once

#include <optional>
#include <string_view>

#include "tessera/trace.h"

namespace tessera::exchange {

/// Of "_allgather_base", "allreduce_coalesced", "c10d::broadcast_", "ncclDevKernel_AllGather_...",
/// "gloo:all_reduce", in any spelling; nothing for sends, receives, gathers and scatters, which
/// are shown as copies, and for other names. A barrier is an all_reduce.
std::optional<OpKind> collective_kind(std::string_view name);

/// Whether `name` is a kernel of NCCL or RCCL.
bool is_nccl_kernel(std::string_view name);

/// "ring LL", ... of a kernel's name; "" if it says nothing.
std::string_view nccl_algorithm(std::string_view kernel);

struct TorchType {
  DType dtype = DType::uint8;
  std::int64_t size = 1;
};
/// Of "BFloat16", "c10::BFloat16", "float", "Long"; nothing for other names.
std::optional<TorchType> torch_type(std::string_view name);

}  // namespace tessera::exchange
