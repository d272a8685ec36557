// SPDX-License-Identifier: Apache-2.0
#include "training/tokenizer/piece_model.h"

#include <fmt/format.h>

#include "engine/text/json_reader.h"

namespace tessera::tokens {

std::int32_t Vocabulary::find(std::string_view token) const {
  const auto found = ids_.find(token);
  return found == ids_.end() ? -1 : found->second;
}

const std::string* Vocabulary::text(std::int32_t id) const {
  const auto place = static_cast<std::size_t>(id);
  return id >= 0 && place < texts_.size() && known_[place] ? &texts_[place] : nullptr;
}

Status Vocabulary::add(const std::string& token, const nlohmann::json& number) {
  constexpr std::uint64_t numbers_max = 1 << 24;  // many times those of published models
  if (!number.is_number_unsigned() || number.get<std::uint64_t>() >= numbers_max) {
    return Status(Code::invalid_argument,
                  fmt::format("token {} has the number {}, choose 0 to {}", in_quotes(token),
                              number.dump(), numbers_max - 1));
  }
  const auto place = number.get<std::size_t>();
  const std::string* const other = text(static_cast<std::int32_t>(place));
  if (other != nullptr && *other != token) {
    return Status(Code::invalid_argument,
                  fmt::format("token {} has the number {}, which is that of {}", in_quotes(token),
                              place, in_quotes(*other)));
  }
  if (place >= texts_.size()) {
    texts_.resize(place + 1);
    known_.resize(place + 1);
  }
  texts_[place] = token;
  known_[place] = true;
  const auto id = static_cast<std::int32_t>(place);
  const auto [entry, fresh] = ids_.insert_or_assign(token, id);
  if (!fresh && other == nullptr && twice_.empty()) twice_ = entry->first;
  return {};
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
