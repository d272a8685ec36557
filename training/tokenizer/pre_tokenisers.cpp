// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <map>

#include "engine/text/json_reader.h"
#include "training/tokenizer/byte_alphabet.h"
#include "training/tokenizer/pieces.h"
#include "training/tokenizer/unicode_text.h"

namespace tessera::tokens {
namespace {

using Json = nlohmann::json;

enum class Behaviour { removed, isolated, with_previous, with_next, contiguous };

const std::map<std::string, Behaviour> behaviours = {
    {"Removed", Behaviour::removed},
    {"Isolated", Behaviour::isolated},
    {"MergedWithPrevious", Behaviour::with_previous},
    {"MergedWithNext", Behaviour::with_next},
    {"Contiguous", Behaviour::contiguous}};

struct Part {
  std::size_t begin, end;
  bool matches;
};

// Matches and what lies between them.
std::vector<Part> parts_of(const std::vector<Pattern::Found>& found, std::size_t size,
                           bool invert) {
  std::vector<Part> parts;
  std::size_t at = 0;
  for (const auto& f : found) {
    if (f.begin > at) parts.push_back({at, f.begin, invert});
    parts.push_back({f.begin, f.end, !invert});
    at = f.end;
  }
  if (at < size) parts.push_back({at, size, invert});
  return parts;
}

std::vector<Part> joined(const std::vector<Part>& parts, Behaviour behaviour) {
  std::vector<Part> out;
  for (std::size_t k = 0; k < parts.size(); ++k) {
    const Part& part = parts[k];
    if (behaviour == Behaviour::removed && part.matches) continue;
    bool extends = false;
    if (behaviour == Behaviour::contiguous) extends = k > 0 && parts[k - 1].matches == part.matches;
    if (behaviour == Behaviour::with_previous) {
      extends = k > 0 && part.matches && !parts[k - 1].matches;
    }
    if (behaviour == Behaviour::with_next) {
      extends = k > 0 && parts[k - 1].matches && !part.matches;
    }
    if (extends && !out.empty()) {
      out.back().end = part.end;
    } else {
      out.push_back(part);
    }
  }
  return out;
}

std::vector<Piece> pieces_of(const Piece& whole, const std::vector<Part>& parts) {
  std::vector<Piece> out;
  for (const Part& part : parts) out.push_back(whole.part(part.begin, part.end));
  return out;
}

PreTokeniser by_pattern(const Pattern& pattern, Behaviour behaviour, bool invert) {
  return [=](const Piece& piece) {
    const auto parts = parts_of(pattern.find(piece.text), piece.text.size(), invert);
    return pieces_of(piece, joined(parts, behaviour));
  };
}

PreTokeniser by_character(bool (*is)(std::uint32_t), Behaviour behaviour) {
  return [=](const Piece& piece) {
    std::vector<Pattern::Found> found;
    std::size_t at = 0;
    for (const std::uint32_t c : characters_of(piece.text)) {
      const std::size_t end = at + utf8_length(piece.text[at]);
      if (is(c)) found.push_back({at, end});
      at = end;
    }
    return pieces_of(piece, joined(parts_of(found, piece.text.size(), false), behaviour));
  };
}

Result<Behaviour> behaviour_of(const Json& json, const char* otherwise) {
  const auto name = json.value("behavior", std::string(otherwise));
  const auto found = behaviours.find(name);
  if (found != behaviours.end()) return found->second;
  return Status(Code::not_supported, fmt::format("behavior {} is not known", in_quotes(name)));
}

Result<PreTokeniser> split(const Json& json) {
  const Json& pattern = json.at("pattern");
  Pattern what = Pattern::literal(pattern.value("String", ""));
  if (pattern.contains("Regex")) {
    TESSERA_ASSIGN(what, Pattern::make(pattern.at("Regex").get<std::string>()));
  }
  TESSERA_ASSIGN(const Behaviour behaviour, behaviour_of(json, "Removed"));
  return by_pattern(what, behaviour, json.value("invert", false));
}

Result<PreTokeniser> byte_level_words(const Json& json) {
  const bool adds_space = json.value("add_prefix_space", true);
  PreTokeniser words;
  if (json.value("use_regex", true)) {
    TESSERA_ASSIGN(const Pattern pattern,
                   Pattern::make("'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| "
                                 "?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"));
    words = by_pattern(pattern, Behaviour::isolated, false);
  }
  return PreTokeniser([=](Piece piece) {
    if (adds_space && !piece.text.starts_with(' ')) piece.prepend(" ");
    std::vector<Piece> out = words ? words(piece) : std::vector<Piece>{piece};
    for (Piece& one : out) {
      const std::size_t head = to_byte_alphabet(one.text.substr(0, one.head)).size();
      one = {to_byte_alphabet(one.text), head};
    }
    return out;
  });
}

// Llama's: spaces are written as a visible character, which begins a word.
PreTokeniser metaspace_words(const Json& json) {
  const auto mark = json.value("replacement", std::string("\xE2\x96\x81"));
  const std::string standard = json.value("add_prefix_space", true) ? "always" : "never";
  const auto scheme = json.value("prepend_scheme", standard);
  const bool splits = json.value("split", true);
  const PreTokeniser words = by_pattern(Pattern::literal(mark), Behaviour::with_next, false);
  const Pattern space = Pattern::literal(" ");
  return [=](Piece piece) {
    piece.replace(space, mark);
    const bool prepends = scheme == "always" || (scheme == "first" && piece.first());
    if (prepends && !piece.text.starts_with(mark)) piece.prepend(mark);
    return splits ? words(piece) : std::vector<Piece>{piece};
  };
}

PreTokeniser one_after_another(const std::vector<PreTokeniser>& all) {
  return [all](const Piece& piece) {
    std::vector<Piece> pieces = {piece};
    for (const PreTokeniser& one : all) pieces = cut(one, pieces);
    return pieces;
  };
}

Result<PreTokeniser> pre_tokeniser_sequence(const Json& json) {
  std::vector<PreTokeniser> all;
  for (const Json& one : json.at("pretokenizers")) {
    TESSERA_ASSIGN(all.emplace_back(), read_pre_tokeniser(one));
  }
  return one_after_another(all);
}

}  // namespace

Result<PreTokeniser> read_pre_tokeniser(const Json& json) {
  if (json.is_null()) return PreTokeniser{};
  const auto type = json.at("type").get<std::string>();
  if (type == "Sequence") return pre_tokeniser_sequence(json);
  if (type == "ByteLevel") return byte_level_words(json);
  if (type == "Split") return split(json);
  if (type == "Metaspace") return metaspace_words(json);
  if (type == "WhitespaceSplit") return by_character(is_whitespace, Behaviour::removed);
  if (type == "BertPreTokenizer") {
    return one_after_another({by_character(is_whitespace, Behaviour::removed),
                              by_character(is_punctuation, Behaviour::isolated)});
  }
  if (type == "Digits") {
    const bool each = json.value("individual_digits", false);
    return by_character(is_number, each ? Behaviour::isolated : Behaviour::contiguous);
  }
  if (type == "Punctuation") {
    TESSERA_ASSIGN(const Behaviour behaviour, behaviour_of(json, "Isolated"));
    return by_character(is_punctuation, behaviour);
  }
  if (type == "Whitespace") {
    TESSERA_ASSIGN(const Pattern words, Pattern::make("\\w+|[^\\w\\s]+"));
    return by_pattern(words, Behaviour::removed, true);
  }
  return Status(Code::not_supported,
                fmt::format("pre_tokenizer {} is not known: known are Sequence, ByteLevel, Split, "
                            "Metaspace, Whitespace, WhitespaceSplit, BertPreTokenizer, Digits, "
                            "Punctuation",
                            in_quotes(type)));
}

}  // namespace tessera::tokens
