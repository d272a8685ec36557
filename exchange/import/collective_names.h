// SPDX-License-Identifier: Apache-2.0
// What names of collectives mean, as PyTorch, NCCL and RCCL write them.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "tessera/trace.h"

namespace tessera::exchange {

/// The kind behind "nccl:_all_gather_base", "AllGather", "ncclDevKernel_AllGather_RING_LL(...)",
/// "c10d::allgather_", "gloo:barrier" (an all_reduce of nothing). None for what no kind stands for:
/// gather, scatter, send, recv, and what is no communication.
std::optional<OpKind> collective_kind(std::string_view name);

/// Whether a kernel of a communication library is called so: "ncclDevKernel_SendRecv(...)".
bool is_communication_kernel(std::string_view name);

/// "ring", "tree", "nvls", ... of a kernel's name; "" if it does not say.
std::string_view collective_algorithm(std::string_view kernel);

/// "Float", "BFloat16", "c10::BFloat16", "float32", "torch.half", ...; none for dtypes that a trace
/// has no name for.
std::optional<DType> torch_dtype(std::string_view name);

/// Elements as bytes, the size as nccl-tests define it: that of the full buffer for all_gather and
/// reduce_scatter, of one rank's for the others.
Bytes collective_bytes(OpKind kind, std::int64_t elements_in, std::int64_t elements_out,
                       std::int64_t element_size);

}  // namespace tessera::exchange
