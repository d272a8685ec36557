// SPDX-License-Identifier: Apache-2.0
#include "analysis/compared_work.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace tessera::analysis {
namespace {

constexpr double least_change = 0.01;
constexpr double least_of_all = 0.001;  // of what all collectives move

struct Work {
  double count = 0, bytes = 0;  // per step
};

bool differ(double a, double b) { return std::abs(a - b) > least_change * std::max(a, b); }

using WorkOfKinds = std::array<Work, static_cast<std::size_t>(op_kind_last) + 1>;

WorkOfKinds work_of(const Trace& trace, std::int32_t first, std::int32_t end) {
  WorkOfKinds work{};
  for (const storage::OpRow& op : trace.ops()) {
    if (op.step < first || op.step >= end || !is_collective(op.kind)) continue;
    Work& kind = work[static_cast<std::size_t>(op.kind)];
    kind.count += 1.0 / (end - first);
    kind.bytes += static_cast<double>(op.bytes.value) / (end - first);
  }
  return work;
}

}  // namespace

std::string changed_work(const Trace& a, const Trace& b, std::int32_t first, std::int32_t end) {
  constexpr double mib = 1 << 20;
  const WorkOfKinds of_a = work_of(a, first, end), of_b = work_of(b, first, end);
  double all = 0;
  for (std::size_t k = 0; k < of_a.size(); ++k) all += std::max(of_a[k].bytes, of_b[k].bytes);
  std::string text;
  for (std::size_t k = 0; k < of_a.size(); ++k) {
    const Work &before = of_a[k], &after = of_b[k];
    const bool count = differ(before.count, after.count);
    const bool bytes = differ(before.bytes, after.bytes) &&
                       std::abs(after.bytes - before.bytes) > least_of_all * all;
    if (!count && !bytes) continue;
    text += fmt::format("{}{}:", text.empty() ? "" : "; ", name_of(static_cast<OpKind>(k)));
    if (count) text += fmt::format(" {:.0f} a step instead of {:.0f}", after.count, before.count);
    if (bytes) {
      text += fmt::format("{} {:.1f} MiB a step instead of {:.1f}", count ? "," : "",
                          after.bytes / mib, before.bytes / mib);
    }
  }
  return text;
}

bool same_computations(const Trace& a, const Trace& b, const OpPairs& pairs) {
  const auto computes = [](const Trace& trace) {
    return [&trace](std::size_t i) { return trace.ops()[i].kind == OpKind::compute; };
  };
  return !pairs.collectives_only &&
         std::none_of(pairs.only_a.begin(), pairs.only_a.end(), computes(a)) &&
         std::none_of(pairs.only_b.begin(), pairs.only_b.end(), computes(b));
}

}  // namespace tessera::analysis
