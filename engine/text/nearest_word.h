// SPDX-License-Identifier: Apache-2.0
// "did you mean ...?" for words that people typed.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tessera {

/// The known word nearest to `word` by edit distance (Levenshtein 1966) if it is near enough for a
/// typo, a quarter of its letters, otherwise "". The result views into `known`.
std::string_view nearest_word(std::string_view word, const std::vector<std::string_view>& known);

/// ", did you mean \"layers.0\"?", or "" if no known word is near.
std::string did_you_mean(std::string_view word, const std::vector<std::string_view>& known);

}  // namespace tessera
