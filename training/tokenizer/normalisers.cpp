// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "engine/text/json_reader.h"
#include "training/tokenizer/pieces.h"
#include "training/tokenizer/unicode_text.h"

namespace tessera::tokens {
namespace {

using Json = nlohmann::json;

std::string without(bool (*is_mark)(std::uint32_t), const std::string& text) {
  std::string out;
  for (const std::uint32_t c : characters_of(text)) {
    if (!is_mark(c)) append(c, out);
  }
  return out;
}

Piece stripped(const Piece& piece, bool left, bool right) {
  const auto all = characters_of(piece.text);
  std::size_t begin = 0;
  std::size_t end = piece.text.size();
  for (auto c = all.begin(); left && c != all.end() && is_whitespace(*c); ++c) {
    begin += utf8_length(piece.text[begin]);
  }
  for (auto c = all.rbegin(); right && end > begin && is_whitespace(*c); ++c) {
    std::string last;
    append(*c, last);
    end -= last.size();
  }
  return piece.part(begin, end);
}

// Blocks of CJK ideographs, as BERT knows them.
bool is_chinese(std::uint32_t c) {
  return (c >= 0x4E00 && c <= 0x9FFF) || (c >= 0x3400 && c <= 0x4DBF) ||
         (c >= 0x20000 && c <= 0x2A6DF) || (c >= 0x2A700 && c <= 0x2B73F) ||
         (c >= 0x2B740 && c <= 0x2B81F) || (c >= 0x2B920 && c <= 0x2CEAF) ||
         (c >= 0xF900 && c <= 0xFAFF) || (c >= 0x2F800 && c <= 0x2FA1F);
}

struct Bert {
  bool cleans, spaces_chinese, strips_accents, lowers;

  std::string operator()(const std::string& text) const {
    std::string out;
    for (std::uint32_t c : characters_of(text)) {
      const bool breaks = c == '\t' || c == '\n' || c == '\r';
      if (cleans) {
        if (c == 0 || c == 0xFFFD || (!breaks && is_other(c))) continue;
        if (breaks || is_whitespace(c)) c = ' ';
      }
      const bool apart = spaces_chinese && is_chinese(c);
      if (apart) out += ' ';
      append(c, out);
      if (apart) out += ' ';
    }
    if (strips_accents) out = without(is_nonspacing_mark, normalised(Form::nfd, out));
    return lowers ? lower_case(out) : out;
  }
};

Result<Normaliser> replacing(const Json& json) {
  const Json& pattern = json.at("pattern");
  const auto content = json.at("content").get<std::string>();
  Pattern what = Pattern::literal(pattern.value("String", ""));
  if (pattern.contains("Regex")) {
    TESSERA_ASSIGN(what, Pattern::make(pattern.at("Regex").get<std::string>()));
  }
  return Normaliser([what, content](Piece piece) {
    piece.replace(what, content);
    return piece;
  });
}

// A step that takes each character by itself, so that what becomes of the head is known alone.
template <typename Change>
Normaliser each_character(Change change) {
  return [change](const Piece& piece) {
    return Piece{change(piece.text), change(piece.text.substr(0, piece.head)).size()};
  };
}

// Marks may change places with the head's, and a character may take marks behind the head in.
Normaliser form(Form which) {
  return [which](const Piece& piece) {
    Piece out{normalised(which, piece.text)};
    if (!piece.first() || out.text.empty()) return out;
    const std::string head = normalised(which, piece.text.substr(0, piece.head));
    const bool composes = which == Form::nfc || which == Form::nfkc;
    std::size_t same = 0;
    while (same < head.size() &&
           out.text.substr(same).starts_with(head.substr(same, utf8_length(head[same])))) {
      same += utf8_length(head[same]);
    }
    const bool takes_next = same == 0 || (composes && same < head.size());
    out.head = takes_next ? same + utf8_length(out.text[same]) : same;
    return out;
  };
}

Result<Normaliser> normaliser_sequence(const Json& json) {
  std::vector<Normaliser> all;
  for (const Json& one : json.at("normalizers")) {
    TESSERA_ASSIGN(all.emplace_back(), read_normaliser(one));
  }
  return Normaliser([all](Piece piece) {
    for (const Normaliser& one : all) {
      if (one) piece = one(std::move(piece));
    }
    return piece;
  });
}

Normaliser bert(const Json& json) {
  const bool lowers = json.value("lowercase", true);
  const Json accents = json.value("strip_accents", Json());
  return each_character(Bert{json.value("clean_text", true),
                             json.value("handle_chinese_chars", true),
                             accents.is_boolean() ? accents.get<bool>() : lowers, lowers});
}

}  // namespace

Result<Normaliser> read_normaliser(const Json& json) {
  if (json.is_null()) return Normaliser{};
  const auto type = json.at("type").get<std::string>();
  if (type == "Sequence") return normaliser_sequence(json);
  if (type == "NFC") return form(Form::nfc);
  if (type == "NFD") return form(Form::nfd);
  if (type == "NFKC") return form(Form::nfkc);
  if (type == "NFKD") return form(Form::nfkd);
  if (type == "Lowercase") {
    return each_character([](const std::string& text) { return lower_case(text); });
  }
  if (type == "StripAccents") {
    return each_character([](const std::string& text) { return without(is_combining_mark, text); });
  }
  if (type == "Replace") return replacing(json);
  if (type == "BertNormalizer") return bert(json);
  if (type == "Strip") {
    const bool left = json.value("strip_left", true);
    const bool right = json.value("strip_right", true);
    return Normaliser([=](const Piece& piece) { return stripped(piece, left, right); });
  }
  if (type == "Prepend") {
    const auto what = json.at("prepend").get<std::string>();
    return Normaliser([=](Piece piece) {
      piece.prepend(what);
      return piece;
    });
  }
  return Status(Code::not_supported,
                fmt::format("normalizer {} is not known: known are Sequence, NFC, NFD, NFKC, NFKD, "
                            "Lowercase, Strip, StripAccents, Replace, Prepend, BertNormalizer",
                            in_quotes(type)));
}

}  // namespace tessera::tokens
