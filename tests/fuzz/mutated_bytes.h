// SPDX-License-Identifier: Apache-2.0
// Damage to a file: what disks, transfers and people with an editor do to bytes.
#pragma once

#include <string>

#include "tests/random.h"

namespace tessera::test {

/// Changes, cuts, repeats, moves or replaces a part of `bytes`, by what is found elsewhere in them
/// or by what means much in one of the formats. They stay at least one byte.
void mutate_bytes(std::string& bytes, Random& random);

/// A whole number on which readers like to stumble, in decimal.
std::string odd_number(Random& random);

}  // namespace tessera::test
