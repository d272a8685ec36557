// SPDX-License-Identifier: Apache-2.0
#include "inspector/widgets/op_text.h"

#include <cctype>
#include <string_view>

namespace tessera::inspector {
namespace {

bool is_digit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }

}  // namespace

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

std::string foreign_name(const TraceRun& run, const storage::OpRow& op) {
  return run.backend == "import" && !is_collective(op.kind) ? op.label : "";
}

bool in_natural_order(const std::string& a, const std::string& b) {
  std::size_t i = 0, j = 0;
  while (i < a.size() && j < b.size()) {
    if (is_digit(a[i]) && is_digit(b[j])) {
      const auto number = [](const std::string& text, std::size_t& at) {
        std::uint64_t value = 0;
        for (; at < text.size() && is_digit(text[at]); ++at) {
          value = value * 10 + static_cast<std::uint64_t>(text[at] - '0');
        }
        return value;
      };
      const std::uint64_t x = number(a, i), y = number(b, j);
      if (x != y) return x < y;
      continue;
    }
    if (a[i] != b[j]) return a[i] < b[j];
    ++i;
    ++j;
  }
  return a.size() - i < b.size() - j;
}

}  // namespace tessera::inspector
