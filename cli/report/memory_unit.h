// SPDX-License-Identifier: Apache-2.0
// The unit in which a table of bytes is printed.
#pragma once

#include <fmt/format.h>

#include <cmath>
#include <cstdint>
#include <string>

#include "tessera/analysis/text.h"
#include "tessera/types.h"

namespace tessera::cli {

// GiB, or MiB where the largest number would be less than one of them.
struct MemoryUnit {
  explicit MemoryUnit(Bytes largest) : large(largest.value >= std::int64_t{1} << 30) {}
  const char* name() const { return large ? "GiB" : "MiB"; }
  std::string operator()(Bytes bytes) const {
    return analysis::with_separators(
        fmt::format("{:.2f}", static_cast<double>(bytes.value) / (1 << (large ? 30 : 20))));
  }
  /// As shown, so that differences of what is shown are what is shown.
  Bytes rounded(Bytes bytes) const {
    const double hundredth = (1 << (large ? 30 : 20)) / 100.0;
    const double count = std::round(static_cast<double>(bytes.value) / hundredth);
    return Bytes{static_cast<std::int64_t>(std::llround(count * hundredth))};
  }
  bool large;
};

}  // namespace tessera::cli
