// SPDX-License-Identifier: Apache-2.0
#include "training/tokenizer/added_tokens.h"

#include <fmt/format.h>

#include <algorithm>

#include "engine/text/json_reader.h"
#include "training/tokenizer/unicode_text.h"

namespace tessera::tokens {
namespace {

std::size_t space_before(std::string_view text) {
  std::size_t kept = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t length = utf8_length(text[at]);
    if (!is_whitespace(characters_of(text.substr(at, length)).front())) kept = at + length;
    at += length;
  }
  return kept;
}

std::size_t space_behind(std::string_view text) {
  std::size_t at = 0;
  while (at < text.size()) {
    const std::size_t length = utf8_length(text[at]);
    if (!is_whitespace(characters_of(text.substr(at, length)).front())) break;
    at += length;
  }
  return at;
}

}  // namespace

Status AddedTokens::read(const nlohmann::json& json, const Normaliser& normaliser,
                         Vocabulary& vocabulary) {
  if (json.is_null()) return {};
  for (const auto& one : json) {
    const auto content = one.at("content").get<std::string>();
    if (content.empty()) {
      return Status(Code::invalid_argument, "added_tokens has one without text");
    }
    const auto& number = one.at("id");
    const std::int32_t before = vocabulary.find(content);
    if (before >= 0 && number != before) {  // Python's tokenizers go by the model's
      return Status(Code::invalid_argument,
                    fmt::format("added token {} has the number {}, but had {} before",
                                in_quotes(content), number.dump(), before));
    }
    TESSERA_TRY(vocabulary.add(content, number));
    const auto id = number.get<std::int32_t>();
    if (one.value("single_word", false)) {
      return Status(
          Code::not_supported,
          fmt::format("added token {} is a single_word, which is not known", in_quotes(content)));
    }
    const bool special = one.value("special", false);
    const bool after = one.value("normalized", !special);
    const std::string text = after && normaliser ? normaliser({content}).text : content;
    all_.insert(id);
    if (special) special_.insert(id);
    if (text.empty()) continue;
    auto& same = (after ? normalised_ : raw_)[static_cast<std::uint8_t>(text[0])];
    same.push_back({text, id, one.value("lstrip", false), one.value("rstrip", false)});
  }
  for (ByFirst* tokens : {&raw_, &normalised_}) {
    for (auto& same : *tokens) {
      std::stable_sort(same.begin(), same.end(), [](const Added& a, const Added& b) {
        return a.text.size() > b.text.size();
      });
    }
  }
  return {};
}

std::vector<Section> AddedTokens::in_raw(std::string_view text) const {
  return find(raw_, {std::string(text), text.empty() ? 0 : utf8_length(text[0])});
}

std::vector<Section> AddedTokens::find(const ByFirst& tokens, const Piece& whole) {
  const std::string_view text = whole.text;
  std::vector<Section> out;
  std::size_t done = 0;
  const auto add_text = [&](std::size_t end) {
    if (end > done) out.push_back({-1, whole.part(done, end)});
  };
  for (std::size_t at = 0; at < text.size();) {
    const auto& same = tokens[static_cast<std::uint8_t>(text[at])];
    const auto found = std::find_if(same.begin(), same.end(), [&](const Added& token) {
      return text.substr(at).starts_with(token.text);
    });
    if (found == same.end()) {
      ++at;
      continue;
    }
    std::size_t begin = at;
    if (found->takes_space_before) begin = done + space_before(text.substr(done, at - done));
    at += found->text.size();
    if (found->takes_space_behind) at += space_behind(text.substr(at));
    add_text(begin);
    out.push_back({found->id, {}});
    done = at;
  }
  add_text(text.size());
  return out;
}

}  // namespace tessera::tokens
