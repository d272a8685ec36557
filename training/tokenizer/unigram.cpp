// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "engine/text/json_reader.h"
#include "training/tokenizer/piece_model.h"
#include "training/tokenizer/unicode_text.h"

namespace tessera::tokens {
namespace {

using Json = nlohmann::json;

constexpr double unknown_penalty = 10;  // below the worst score (SentencePiece)

class Unigram final : public PieceModel {
 public:
  Status read(const Json& json) {
    const Json& tokens = json.at("vocab");
    worst_ = std::numeric_limits<double>::infinity();
    for (std::size_t k = 0; k < tokens.size(); ++k) {
      const auto token = tokens[k].at(0).get<std::string>();
      TESSERA_TRY(vocabulary_.add(token, k));
      scores_.push_back(tokens[k].at(1).get<double>());
      worst_ = std::min(worst_, scores_.back());
      longest_ = std::max(longest_, token.size());
    }
    const Json unknown = json.value("unk_id", Json());
    by_bytes_ = json.value("byte_fallback", false);
    if (unknown.is_null()) return {};
    if (unknown.is_number_unsigned() && unknown.get<std::uint64_t>() < tokens.size()) {
      unknown_ = unknown.get<std::int32_t>();
      return {};
    }
    return Status(Code::invalid_argument,
                  fmt::format("unk_id {} is no token of the vocabulary", shown_value(unknown)));
  }

  Status encode(std::string_view piece, std::vector<std::int32_t>& ids) const override {
    TESSERA_ASSIGN(const auto parts, parts_of(piece));
    for (const std::string& part : parts) {
      const std::int32_t id = vocabulary_.find(part);
      if (id >= 0) {
        ids.push_back(id);
        continue;
      }
      const auto bytes = by_bytes_ ? vocabulary_.of_bytes(part) : std::vector<std::int32_t>{};
      ids.insert(ids.end(), bytes.begin(), bytes.end());
      if (!bytes.empty()) continue;
      ids.push_back(unknown_);
    }
    return {};
  }

 private:
  struct Best {
    double score = 0;
    std::size_t begins = 0;
    std::int32_t id = -1;
    bool reached = false;
  };

  // Viterbi's way over bytes; unknown characters that follow each other are one part. Without a
  // token for them no way may so much as try one, whatever bytes there are, as in Python.
  Result<std::vector<std::string>> parts_of(std::string_view text) const {
    std::vector<Best> best(text.size() + 1);
    for (std::size_t at = 0; at < text.size(); at += utf8_length(text[at])) {
      const std::size_t character = utf8_length(text[at]);
      const double here = best[at].score;
      bool alone = false;
      const auto offer = [&](std::size_t end, double score, std::int32_t id) {
        if (best[end].reached && !(score > best[end].score)) return false;
        best[end] = {score, at, id, true};
        return true;
      };
      for (std::size_t end = at + character; end <= text.size() && end - at <= longest_;) {
        const std::int32_t id = vocabulary_.find(text.substr(at, end - at));
        if (id >= 0) offer(end, scores_[static_cast<std::size_t>(id)] + here, id);
        alone = alone || (id >= 0 && end == at + character);
        if (end == text.size()) break;
        end += utf8_length(text[end]);
      }
      const double of_unknown = worst_ - unknown_penalty + here;
      if (!alone && offer(at + character, of_unknown, unknown_) && unknown_ < 0) {
        return without_unknown(text.substr(at, character));
      }
    }
    std::vector<std::string> out;
    bool after_unknown = false;
    for (std::size_t end = text.size(); end > 0; end = best[end].begins) {
      const bool unknown = unknown_ >= 0 && best[end].id == unknown_;
      const std::string part(text.substr(best[end].begins, end - best[end].begins));
      if (unknown && after_unknown) {
        out.back() = part + out.back();
      } else {
        out.push_back(part);
      }
      after_unknown = unknown;
    }
    std::reverse(out.begin(), out.end());
    return out;
  }

  static Status without_unknown(std::string_view character) {
    return Status(Code::invalid_argument,
                  fmt::format("{} has no token, and the tokenizer none for the unknown: take it "
                              "out of the text, or name an unk_id in the tokenizer.json",
                              in_quotes(character)));
  }

  std::vector<double> scores_;
  double worst_ = 0;
  std::size_t longest_ = 0;  // bytes of a token
  bool by_bytes_ = false;
};

}  // namespace

MadeModel read_unigram(const Json& json) {
  auto model = std::make_unique<Unigram>();
  TESSERA_TRY(model->read(json));
  return std::unique_ptr<PieceModel>(std::move(model));
}

}  // namespace tessera::tokens
