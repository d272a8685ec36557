// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "tessera/documents.h"

namespace tessera {
namespace {

constexpr std::size_t shown_keys = 12;

std::string unread_keys(const DocumentNotes& notes) {
  std::vector<std::string> keys;
  for (const auto& [key, lines] : notes.unread) {
    if (keys.size() == shown_keys) break;
    keys.push_back(fmt::format("{} ({} {})", key, lines, lines == 1 ? "line" : "lines"));
  }
  const std::size_t more = notes.unread.size() - keys.size();
  return fmt::format("{}{}", fmt::join(keys, ", "),
                     more > 0 ? fmt::format(" and {} more", more) : "");
}

}  // namespace

void note_tokens(std::span<const std::int32_t> tokens, const Tokenizer& tokenizer,
                 DocumentNotes& notes) {
  notes.tokens += std::ssize(tokens);
  const std::int32_t unknown = tokenizer.unknown();
  if (unknown >= 0) notes.unknown += std::count(tokens.begin(), tokens.end(), unknown);
}

std::vector<std::string> warnings_of(const DocumentNotes& notes, const std::string& source) {
  std::vector<std::string> warnings;
  if (!notes.unread.empty()) {
    warnings.push_back(
        fmt::format("{}: has keys that are not read: {}", source, unread_keys(notes)));
  }
  if (notes.without_answer > 0) {
    warnings.push_back(
        fmt::format("{}: answers without text, in documents: {}; of them only the end is learned",
                    source, notes.without_answer));
  }
  if (notes.with_marks > 0) {
    warnings.push_back(
        fmt::format("{}: tokens of the chat template in the text of messages, in documents: {}; "
                    "they are taken for what they say, not for text",
                    source, notes.with_marks));
  }
  if (notes.out_of_turn > 0) {
    warnings.push_back(fmt::format(
        "{}: chats in which user and assistant do not take turns, behind a system message if any: "
        "{}; they are written as they are, as the model may never have seen them",
        source, notes.out_of_turn));
  }
  if (notes.unknown > 0) {
    warnings.push_back(
        fmt::format("{}: {} of {} tokens stand for text that the tokenizer has no token for: is it "
                    "one for such texts?",
                    source, notes.unknown, notes.tokens));
  }
  return warnings;
}

}  // namespace tessera
