// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "engine/text/json_reader.h"
#include "training/tokenizer/piece_model.h"
#include "training/tokenizer/unicode_text.h"

namespace tessera::tokens {
namespace {

using Json = nlohmann::json;

class WordPiece final : public PieceModel {
 public:
  Status read(const Json& json) {
    for (const auto& [token, id] : json.at("vocab").items()) {
      TESSERA_TRY(vocabulary_.add(token, id));
    }
    prefix_ = json.value("continuing_subword_prefix", std::string("##"));
    const auto longest = json.value("max_input_chars_per_word", std::int64_t{100});
    if (longest < 0) {
      return Status(Code::invalid_argument,
                    fmt::format("max_input_chars_per_word is {}, must be 0 or more", longest));
    }
    longest_ = static_cast<std::size_t>(longest);
    const auto unknown = json.value("unk_token", std::string("[UNK]"));
    unknown_ = vocabulary_.find(unknown);
    if (unknown_ >= 0) return {};
    return Status(Code::invalid_argument,
                  fmt::format("unk_token {} is no token of the vocabulary", in_quotes(unknown)));
  }

  Status encode(std::string_view piece, std::vector<std::int32_t>& ids) const override {
    const std::size_t before = ids.size();
    std::size_t at = characters_of(piece).size() > longest_ ? piece.size() + 1 : 0;
    while (at < piece.size()) {
      std::size_t end = piece.size();
      std::int32_t id = -1;
      for (; end > at; --end) {
        const bool cuts_character = end < piece.size() && (piece[end] & 0xC0) == 0x80;
        if (cuts_character) continue;
        id = vocabulary_.find((at > 0 ? prefix_ : "") + std::string(piece.substr(at, end - at)));
        if (id >= 0) break;
      }
      if (id < 0) break;
      ids.push_back(id);
      at = end;
    }
    if (at == piece.size()) return {};
    ids.resize(before);
    ids.push_back(unknown_);
    return {};
  }

 private:
  std::string prefix_;
  std::size_t longest_ = 100;
};

}  // namespace

MadeModel read_word_piece(const Json& json) {
  auto model = std::make_unique<WordPiece>();
  TESSERA_TRY(model->read(json));
  return std::unique_ptr<PieceModel>(std::move(model));
}

}  // namespace tessera::tokens
