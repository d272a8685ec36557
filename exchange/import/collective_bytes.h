// SPDX-License-Identifier: Apache-2.0
// The size of a collective.
#pragma once

#include <algorithm>

#include "tessera/trace.h"

namespace tessera::exchange {

/// Bytes as nccl-tests define them: of the full buffer for all_gather and reduce_scatter, of one
/// rank's for the others. Elements are those that a rank gives and gets.
inline Bytes collective_bytes(OpKind kind, std::int64_t elements_in, std::int64_t elements_out,
                              std::int64_t element_size) {
  constexpr std::int64_t elements_max = std::int64_t{1} << 46;
  const std::int64_t in = std::clamp<std::int64_t>(elements_in, 0, elements_max);
  const std::int64_t out = std::clamp<std::int64_t>(elements_out, 0, elements_max);
  const bool full = kind == OpKind::all_gather || kind == OpKind::reduce_scatter;
  return Bytes{(full || in == 0 ? std::max(in, out) : in) *
               std::clamp<std::int64_t>(element_size, 0, 64)};
}

}  // namespace tessera::exchange
