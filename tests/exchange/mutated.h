// SPDX-License-Identifier: Apache-2.0
// Damaged files of a format: whatever is in them, an import ends, stays small, and gives a whole
// trace or one sentence.
//
// TESSERA_MUTATIONS=100000 runs more of them, TESSERA_MUTATION_SEED=17 begins at another seed.
#pragma once

#include <string>

namespace tessera::test {

/// Imports `count` mutations of `bytes`, each with the bytes of a few places changed, cut, repeated
/// or replaced by what is found elsewhere in it. Fails the test with the seed.
void check_mutations(const std::string& bytes, int count);

std::string bytes_of_file(const std::string& path);

}  // namespace tessera::test
