// SPDX-License-Identifier: Apache-2.0
#include "training/tokenizer/piece_model.h"

#include <fmt/format.h>

namespace tessera::tokens {

std::int32_t Vocabulary::find(std::string_view token) const {
  const auto found = ids_.find(token);
  return found == ids_.end() ? -1 : found->second;
}

const std::string* Vocabulary::text(std::int32_t id) const {
  const auto place = static_cast<std::size_t>(id);
  return id >= 0 && place < texts_.size() && known_[place] ? &texts_[place] : nullptr;
}

void Vocabulary::add(const std::string& token, std::int32_t id) {
  const auto place = static_cast<std::size_t>(id);
  if (place >= texts_.size()) {
    texts_.resize(place + 1);
    known_.resize(place + 1);
  }
  texts_[place] = token;
  known_[place] = true;
  ids_[token] = id;
}

std::vector<std::int32_t> Vocabulary::of_bytes(std::string_view bytes) const {
  std::vector<std::int32_t> out;
  for (const char byte : bytes) {
    const std::int32_t id = find(fmt::format("<0x{:02X}>", static_cast<std::uint8_t>(byte)));
    if (id < 0) return {};
    out.push_back(id);
  }
  return out;
}

}  // namespace tessera::tokens
