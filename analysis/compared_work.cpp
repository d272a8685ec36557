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

bool differ(double a, double b) { return std::abs(a - b) > least_change * std::max(a, b); }

}  // namespace

std::string changed_work(const WorkOfKinds& a, const WorkOfKinds& b, std::int32_t steps) {
  constexpr double mib = 1 << 20;
  const auto count_of = [steps](const OpWork& w) { return static_cast<double>(w.count) / steps; };
  const auto bytes_of = [steps](const OpWork& w) { return w.bytes / steps; };
  double all = 0;
  for (std::size_t k = 0; k < a.size(); ++k) {
    if (is_collective(static_cast<OpKind>(k))) all += std::max(bytes_of(a[k]), bytes_of(b[k]));
  }
  std::string text;
  for (std::size_t k = 0; k < a.size(); ++k) {
    if (!is_collective(static_cast<OpKind>(k))) continue;
    const double count_a = count_of(a[k]), count_b = count_of(b[k]);
    const double bytes_a = bytes_of(a[k]), bytes_b = bytes_of(b[k]);
    const bool count = differ(count_a, count_b);
    const bool bytes = differ(bytes_a, bytes_b) && std::abs(bytes_b - bytes_a) > least_of_all * all;
    if (!count && !bytes) continue;
    text += fmt::format("{}{}:", text.empty() ? "" : "; ", name_of(static_cast<OpKind>(k)));
    if (count) text += fmt::format(" {:.0f} a step instead of {:.0f}", count_b, count_a);
    if (bytes) {
      text += fmt::format("{} {:.1f} MiB a step instead of {:.1f}", count ? "," : "", bytes_b / mib,
                          bytes_a / mib);
    }
  }
  return text;
}

bool same_computations(const OpTable& a, const OpTable& b, const OpPairs& pairs) {
  const auto computes = [](const OpTable& table) {
    return [&table](std::int32_t i) {
      return table.look(static_cast<std::size_t>(i)).kind == OpKind::compute;
    };
  };
  return !pairs.collectives_only &&
         std::none_of(pairs.only_a.begin(), pairs.only_a.end(), computes(a)) &&
         std::none_of(pairs.only_b.begin(), pairs.only_b.end(), computes(b));
}

}  // namespace tessera::analysis
