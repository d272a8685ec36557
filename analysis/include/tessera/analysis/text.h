// SPDX-License-Identifier: Apache-2.0
// Times and numbers for people, the same in reports, findings and pictures.
//
//   time_text(1'240'000)                     // "1.24 ms"
//   moment_text(2'365'500'250'000, 100'000)  // "2,365,500.250 ms"
#pragma once

#include <cstdint>
#include <string>

#include "tessera/types.h"

namespace tessera::analysis {

/// A duration with three significant digits: "84.1 µs", "2.03 s", "39.4 min", "3.20 h".
std::string time_text(Time ns);
/// A moment with as many digits as tell hundredths of `range` apart: "24,287.12 ms".
std::string moment_text(Time time, Time range);

/// "8,030,261,248"
std::string with_separators(std::int64_t value);
/// The same of a number that is text already: "36431.0" becomes "36,431.0".
std::string with_separators(std::string number);

}  // namespace tessera::analysis
