// SPDX-License-Identifier: Apache-2.0
// Differences for people: B less A, always with a sign.
#pragma once

#include <cmath>
#include <string>

#include "inspector/widgets/format.h"

namespace tessera::inspector {

/// "−36.6 %"
inline std::string signed_share(double share) {
  return (share < 0 ? "−" : "+") + format_percent(std::abs(share));
}
/// "+876 µs"
inline std::string signed_time(Time ns) { return (ns < 0 ? "−" : "+") + format_time(std::abs(ns)); }

}  // namespace tessera::inspector
