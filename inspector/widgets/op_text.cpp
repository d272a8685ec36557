// SPDX-License-Identifier: Apache-2.0
#include "inspector/widgets/op_text.h"

#include <string_view>

namespace tessera::inspector {

std::string title_of(const storage::OpRow& op) {
  if (op.reason == Reason::copy_in) return "copy-in";
  if (op.reason == Reason::copy_out) return "copy-out";
  if (op.kind != OpKind::compute) return std::string(name_of(op.kind));
  if (op.reason == Reason::divide) return "divide gradients";
  if (op.reason == Reason::accumulate) return "add gradients";
  if (op.reason == Reason::clip) return "clip gradients";
  if (op.reason == Reason::unscale) return "unscale gradients";
  if (op.reason == Reason::step) return "optimizer step";
  if (op.reason == Reason::recompute) return "recompute";
  return op.phase == Phase::none ? "compute" : std::string(name_of(op.phase));
}

std::string short_name(const std::string& path) {
  constexpr std::string_view prefix = "model.";
  return path.starts_with(prefix) ? path.substr(prefix.size()) : path;
}

const std::string& subject_of(const storage::OpRow& op) {
  return op.module.empty() ? op.unit : op.module;
}

}  // namespace tessera::inspector
