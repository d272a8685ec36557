// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <queue>

#include "engine/text/json_reader.h"
#include "training/tokenizer/piece_model.h"
#include "training/tokenizer/unicode_text.h"

namespace tessera::tokens {
namespace {

using Json = nlohmann::json;

struct Merge {
  std::int32_t rank, into;
};

struct Symbol {
  std::int32_t id;
  int before, behind;  // neighbours; -1: none
};

// The lowest rank, then the leftmost.
struct Candidate {
  std::int32_t rank;
  int left;
  std::int32_t into;
  bool operator<(const Candidate& other) const {
    return rank != other.rank ? rank > other.rank : left > other.left;
  }
};

class Bpe final : public PieceModel {
 public:
  Status read(const Json& json) {
    for (const auto& [token, id] : json.at("vocab").items()) {
      TESSERA_TRY(vocabulary_.add(token, id));
    }
    prefix_ = text_of(json, "continuing_subword_prefix");
    suffix_ = text_of(json, "end_of_word_suffix");
    fuses_ = json.value("fuse_unk", false);
    by_bytes_ = json.value("byte_fallback", false);
    whole_first_ = json.value("ignore_merges", false);
    const std::string unknown = text_of(json, "unk_token");
    if (!unknown.empty()) unknown_ = vocabulary_.find(unknown);
    const Json dropout = json.value("dropout", Json());
    if (!dropout.is_null() && dropout != 0) {
      return Status(Code::not_supported, "dropout of merges is not supported: set it to null");
    }
    std::int32_t rank = 0;
    for (const Json& merge : json.at("merges")) TESSERA_TRY(add_merge(merge, rank++));
    return {};
  }

  Status encode(std::string_view piece, std::vector<std::int32_t>& ids) const override {
    if (whole_first_) {
      const std::int32_t whole = vocabulary_.find(piece);
      if (whole >= 0) {
        ids.push_back(whole);
        return {};
      }
    }
    TESSERA_ASSIGN(std::vector<Symbol> symbols, symbols_of(piece));
    merge(symbols);
    for (int k = symbols.empty() ? -1 : 0; k >= 0;
         k = symbols[static_cast<std::size_t>(k)].behind) {
      ids.push_back(symbols[static_cast<std::size_t>(k)].id);
    }
    return {};
  }

 private:
  static std::string text_of(const Json& json, const char* key) {
    const Json value = json.value(key, Json());
    return value.is_string() ? value.get<std::string>() : "";
  }
  static std::uint64_t pair_of(std::int32_t a, std::int32_t b) {
    return static_cast<std::uint64_t>(a) << 32 | static_cast<std::uint32_t>(b);
  }

  // "a b", or since 2024 ["a", "b"].
  Status add_merge(const Json& merge, std::int32_t rank) {
    std::string a;
    std::string b;
    if (merge.is_array() && merge.size() == 2) {
      a = merge[0].get<std::string>();
      b = merge[1].get<std::string>();
    } else {
      const auto both = merge.get<std::string>();
      const std::size_t space = both.find(' ');
      if (space != std::string::npos) {
        a = both.substr(0, space);
        b = both.substr(space + 1);
      }
    }
    const bool continues = !prefix_.empty() && b.starts_with(prefix_);
    const std::int32_t left = vocabulary_.find(a);
    const std::int32_t right = vocabulary_.find(b);
    const std::int32_t into = vocabulary_.find(a + (continues ? b.substr(prefix_.size()) : b));
    if (left < 0 || right < 0 || into < 0) {
      return Status(Code::invalid_argument,
                    fmt::format("merge {} of {} and {}: one of them, or both together, is no token "
                                "of the vocabulary",
                                rank, in_quotes(a), in_quotes(b)));
    }
    merges_[pair_of(left, right)] = {rank, into};
    return {};
  }

  static Status without_token(std::string_view character) {
    return Status(
        Code::invalid_argument,
        fmt::format("{} has no token, and the tokenizer none for the unknown: take it out "
                    "of the text (tokenizers of Python drop it without a word), or name an "
                    "unk_token in the tokenizer.json",
                    in_quotes(character)));
  }

  Result<std::vector<Symbol>> symbols_of(std::string_view piece) const {
    std::vector<Symbol> out;
    const auto add = [&](std::int32_t id) {
      const int at = static_cast<int>(out.size());
      if (!out.empty()) out.back().behind = at;
      out.push_back({id, at - 1, -1});
    };
    // An unknown character's number waits for the next known one, so bytes between overtake it and
    // do not separate it from others, as in Python's tokenizers.
    bool waits = false;
    const auto add_waiting = [&] {
      if (waits) add(unknown_);
      waits = false;
    };
    for (std::size_t at = 0; at < piece.size();) {
      const std::size_t length = utf8_length(piece[at]);
      const std::string_view character = piece.substr(at, length);
      std::string text = (at > 0 ? prefix_ : "") + std::string(character);
      at += length;
      if (at >= piece.size()) text += suffix_;
      const std::int32_t id = vocabulary_.find(text);
      if (id >= 0) {
        add_waiting();
        add(id);
        continue;
      }
      const auto bytes = by_bytes_ ? vocabulary_.of_bytes(text) : std::vector<int>{};
      for (const std::int32_t byte : bytes) add(byte);
      if (!bytes.empty()) continue;
      if (unknown_ < 0) return without_token(character);
      if (!fuses_) add_waiting();
      waits = true;
    }
    add_waiting();
    return out;
  }

  void merge(std::vector<Symbol>& symbols) const {
    std::priority_queue<Candidate> waiting;
    const auto at = [&](int k) -> Symbol& { return symbols[static_cast<std::size_t>(k)]; };
    const auto consider = [&](int left) {
      if (left < 0 || at(left).behind < 0) return;
      const auto found = merges_.find(pair_of(at(left).id, at(at(left).behind).id));
      if (found != merges_.end()) waiting.push({found->second.rank, left, found->second.into});
    };
    for (int k = 0; k + 1 < static_cast<int>(symbols.size()); ++k) consider(k);
    while (!waiting.empty()) {
      const Candidate next = waiting.top();
      waiting.pop();
      Symbol& left = at(next.left);
      if (left.id < 0 || left.behind < 0) continue;  // merged into another
      const auto found = merges_.find(pair_of(left.id, at(left.behind).id));
      if (found == merges_.end() || found->second.into != next.into) continue;  // another pair now
      Symbol& right = at(left.behind);
      left.id = next.into;
      right.id = -1;
      left.behind = right.behind;
      if (left.behind >= 0) at(left.behind).before = next.left;
      consider(left.before);
      consider(next.left);
    }
  }

  std::unordered_map<std::uint64_t, Merge> merges_;  // looked up only
  std::string prefix_, suffix_;
  bool fuses_ = false, by_bytes_ = false, whole_first_ = false;
};

}  // namespace

MadeModel read_bpe(const Json& json) {
  auto model = std::make_unique<Bpe>();
  TESSERA_TRY(model->read(json));
  return std::unique_ptr<PieceModel>(std::move(model));
}

}  // namespace tessera::tokens
