// SPDX-License-Identifier: Apache-2.0
// Lists of words in one text, as tables of names have them: "q_proj k_proj v_proj".
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tessera {

/// The words of a list that is separated by spaces.
std::vector<std::string> words_of(std::string_view text);

/// Whether `word` is one of them.
bool lists(std::string_view words, std::string_view word);

}  // namespace tessera
