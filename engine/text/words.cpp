// SPDX-License-Identifier: Apache-2.0
#include "engine/text/words.h"

#include <sstream>

namespace tessera {

std::vector<std::string> words_of(std::string_view text) {
  std::vector<std::string> out;
  std::istringstream all{std::string(text)};
  for (std::string one; all >> one;) out.push_back(one);
  return out;
}

bool lists(std::string_view words, std::string_view word) {
  std::istringstream all{std::string(words)};
  for (std::string one; all >> one;) {
    if (one == word) return true;
  }
  return false;
}

}  // namespace tessera
