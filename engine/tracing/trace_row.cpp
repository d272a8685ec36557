// SPDX-License-Identifier: Apache-2.0
#include "engine/tracing/trace_row.h"

#include <fmt/format.h>

namespace tessera {
namespace {

// An operation that moves bytes is named after its purpose.
std::string_view verb_of(const Op& op) {
  const auto* copy = std::get_if<Copy>(&op.what);
  if (copy != nullptr && reads_files(copy->route)) return "read";
  if (copy != nullptr && writes_files(copy->route)) return "write";
  if (op.cause.reason == Reason::copy_in) return "copy-in";
  return op.cause.reason == Reason::copy_out ? "copy-out" : name_of(kind_of(op));
}

std::string label_of(const Op& op) {
  const Cause& cause = op.cause;
  if (kind_of(op) != OpKind::compute) {
    const std::string what(verb_of(op));
    return cause.unit.empty() ? what : fmt::format("{} {}", what, cause.unit);
  }
  if (cause.reason == Reason::step) return "optimizer";
  if (cause.reason == Reason::accumulate) return fmt::format("accumulate {}", cause.unit);
  const char* pass = cause.reason == Reason::recompute ? "recompute"
                     : cause.phase == Phase::backward  ? "backward"
                     : cause.phase == Phase::forward   ? "forward"
                                                       : "init";
  return fmt::format("{} {}", pass, cause.module.empty() ? cause.unit : cause.module);
}

struct DTypeOf {
  DType operator()(const Copy& o) const {
    return o.pieces.empty() ? DType::uint8 : o.pieces.front().to.dtype;
  }
  DType operator()(const Compute& o) const { return o.cost.dtype; }
  DType operator()(const Wait&) const { return DType::uint8; }
  DType operator()(const Mark&) const { return DType::uint8; }
  DType operator()(const Broadcast& o) const { return o.data.dtype; }
  template <class Collective>
  DType operator()(const Collective& o) const {
    return o.output.dtype;
  }
};

}  // namespace

TraceRow::TraceRow(const Op& from, EventId event) : label(label_of(from)) {
  const auto* compute = std::get_if<Compute>(&from.what);
  op = {
      .id = event.value,
      .kind = kind_of(from),
      .stream = from.stream.value,
      .communicator = communicator_of(from).value,
      .step = from.cause.step,
      .micro_batch = from.cause.micro_batch,
      .phase = from.cause.phase,
      .reason = from.cause.reason,
      .unit = from.cause.unit,
      .module = from.cause.module,
      .label = label,
      .bytes = bytes_of(from),
      .dtype = std::visit(DTypeOf{}, from.what),
      .flops = compute == nullptr ? 0 : compute->cost.matmul_flops + compute->cost.attention_flops,
      .algorithm = {},
      .after = {}};
}

}  // namespace tessera
