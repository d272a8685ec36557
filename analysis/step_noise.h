// SPDX-License-Identifier: Apache-2.0
// What two runs differ by although nothing is different: steps of one run do not take equal times.
#pragma once

#include <vector>

#include "tessera/types.h"

namespace tessera::analysis {

/// The largest difference of two means that chance makes once in a thousand times, by Student's t
/// for as many steps and their variance (Student, The probable error of a mean, 1908); 0: of a
/// single step nobody can tell. One value per step, of equally many steps.
Time noise_of(const std::vector<Time>& a, const std::vector<Time>& b);

}  // namespace tessera::analysis
