// SPDX-License-Identifier: Apache-2.0
#include "analysis/operation_name.h"

#include <fmt/format.h>

namespace tessera::analysis {

std::string operation_of(const storage::OpRow& op) {
  const std::string phase(op.phase == Phase::none ? "" : fmt::format(", {}", name_of(op.phase)));
  if (op.kind == OpKind::copy && op.reason == Reason::offload) return "offload copies" + phase;
  if (op.kind != OpKind::compute) return std::string(name_of(op.kind)) + phase;
  switch (op.reason) {
    case Reason::recompute: return "recompute";
    case Reason::step: return "optimizer";
    case Reason::copy_in:
    case Reason::copy_out:
    case Reason::divide:
    case Reason::accumulate: return "work on buffers" + phase;
    default: break;
  }
  return op.phase == Phase::none ? "other compute" : fmt::format("{} compute", name_of(op.phase));
}

}  // namespace tessera::analysis
