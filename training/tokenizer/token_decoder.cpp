// SPDX-License-Identifier: Apache-2.0
#include "training/tokenizer/token_decoder.h"

#include <fmt/format.h>

#include <charconv>

#include "engine/text/json_reader.h"
#include "training/tokenizer/byte_alphabet.h"
#include "training/tokenizer/pieces.h"
#include "training/tokenizer/unicode_text.h"

namespace tessera::tokens {
namespace {

using Json = nlohmann::json;

constexpr const char* replacement = "\xEF\xBF\xBD";  // U+FFFD

// What is no UTF-8 becomes U+FFFD, one for each longest beginning of a character.
std::string repaired(std::string_view bytes) {
  std::string out;
  while (!bytes.empty()) {
    const std::size_t good = std::min(utf8_mistake(bytes), bytes.size());
    out += bytes.substr(0, good);
    bytes.remove_prefix(good);
    if (bytes.empty()) break;
    out += replacement;
    std::size_t length = 1;
    while (length < bytes.size() && length < 4) {
      std::string begun(bytes.substr(0, length + 1));
      // A character that lacks its end: some continuation makes it whole.
      bool may_go_on = false;
      for (const char* end : {"\x80", "\x80\x80", "\xBF", "\xBF\xBF"}) {
        may_go_on = may_go_on || utf8_mistake(begun + end) == std::string_view::npos;
      }
      if (!may_go_on) break;
      ++length;
    }
    bytes.remove_prefix(length);
  }
  return out;
}

Texts byte_level_text(const Texts& tokens) {
  std::string bytes;
  for (const std::string& token : tokens) bytes += from_byte_alphabet(token).value_or(token);
  return {repaired(bytes)};
}

// "<0x0A>" and its like; -1: another token.
int byte_of(const std::string& token) {
  if (token.size() != 6 || !token.starts_with("<0x") || token.back() != '>') return -1;
  int value = -1;
  const auto [end, error] = std::from_chars(token.data() + 3, token.data() + 5, value, 16);
  return error == std::errc{} && end == token.data() + 5 ? value : -1;
}

Texts byte_fallback_text(const Texts& tokens) {
  Texts out;
  std::string bytes;
  const auto flush = [&] {
    if (bytes.empty()) return;
    if (utf8_mistake(bytes) == std::string_view::npos) {
      out.push_back(bytes);
    } else {
      out.insert(out.end(), bytes.size(), replacement);
    }
    bytes.clear();
  };
  for (const std::string& token : tokens) {
    const int byte = byte_of(token);
    if (byte >= 0) {
      bytes += static_cast<char>(byte);
      continue;
    }
    flush();
    out.push_back(token);
  }
  flush();
  return out;
}

Texts fuse(const Texts& tokens) {
  std::string all;
  for (const std::string& token : tokens) all += token;
  return {all};
}

std::string replaced(std::string text, const std::string& what, const std::string& with) {
  for (std::size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += with.size()) {
    text.replace(at, what.size(), with);
  }
  return text;
}

TokenDecoder metaspace_text(const Json& json) {
  const auto mark = json.value("replacement", std::string("\xE2\x96\x81"));
  const std::string standard = json.value("add_prefix_space", true) ? "always" : "never";
  const bool prepends = json.value("prepend_scheme", standard) != "never";
  return [=](Texts tokens) {
    for (std::size_t k = 0; k < tokens.size(); ++k) {
      tokens[k] = replaced(tokens[k], mark, k == 0 && prepends ? "" : " ");
    }
    return tokens;
  };
}

std::string cleaned(std::string text) {
  const std::pair<const char*, const char*> pairs[] = {
      {" .", "."},   {" ?", "?"},     {" !", "!"},    {" ,", ","},
      {" ' ", "'"},  {" n't", "n't"}, {" 'm", "'m"},  {" do not", " don't"},
      {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}};
  for (const auto& [what, with] : pairs) text = replaced(std::move(text), what, with);
  return text;
}

TokenDecoder word_piece_text(const Json& json) {
  const auto prefix = json.value("prefix", std::string("##"));
  const bool cleans = json.value("cleanup", true);
  return [=](Texts tokens) {
    for (std::size_t k = 0; k < tokens.size(); ++k) {
      std::string& token = tokens[k];
      if (k > 0) token = token.starts_with(prefix) ? token.substr(prefix.size()) : " " + token;
      if (cleans) token = cleaned(std::move(token));
    }
    return tokens;
  };
}

TokenDecoder stripping(const Json& json) {
  const auto what = json.at("content").get<std::string>();
  const auto first = json.value("start", std::size_t{0});
  const auto last = json.value("stop", std::size_t{0});
  return [=](Texts tokens) {
    for (std::string& token : tokens) {
      for (std::size_t k = 0; k < first && token.starts_with(what); ++k)
        token.erase(0, what.size());
      for (std::size_t k = 0; k < last && token.ends_with(what); ++k) {
        token.resize(token.size() - what.size());
      }
    }
    return tokens;
  };
}

Result<TokenDecoder> replacing_tokens(const Json& json) {
  TESSERA_ASSIGN(const Normaliser with, read_normaliser(json));
  return TokenDecoder([with](Texts tokens) {
    for (std::string& token : tokens) token = with({std::move(token)}).text;
    return tokens;
  });
}

Result<TokenDecoder> decoder_sequence(const Json& json) {
  std::vector<TokenDecoder> all;
  for (const Json& one : json.at("decoders")) {
    TESSERA_ASSIGN(all.emplace_back(), read_decoder(one));
  }
  return TokenDecoder([all](Texts tokens) {
    for (const TokenDecoder& one : all) tokens = one(std::move(tokens));
    return tokens;
  });
}

TokenDecoder of_suffix(const Json& json) {
  const auto suffix = json.value("suffix", std::string("</w>"));
  return [=](Texts tokens) {
    for (std::size_t k = 0; k < tokens.size(); ++k) {
      tokens[k] = replaced(tokens[k], suffix, k + 1 < tokens.size() ? " " : "");
    }
    return tokens;
  };
}

}  // namespace

Result<TokenDecoder> read_decoder(const Json& json) {
  if (json.is_null()) {
    return TokenDecoder([](Texts tokens) {
      for (std::size_t k = 1; k < tokens.size(); ++k) tokens[k] = " " + tokens[k];
      return tokens;
    });
  }
  const auto type = json.at("type").get<std::string>();
  if (type == "Sequence") return decoder_sequence(json);
  if (type == "ByteLevel") return TokenDecoder(byte_level_text);
  if (type == "ByteFallback") return TokenDecoder(byte_fallback_text);
  if (type == "Fuse") return TokenDecoder(fuse);
  if (type == "Metaspace") return metaspace_text(json);
  if (type == "WordPiece") return word_piece_text(json);
  if (type == "Strip") return stripping(json);
  if (type == "Replace") return replacing_tokens(json);
  if (type == "BPEDecoder") return of_suffix(json);
  return Status(Code::not_supported,
                fmt::format("decoder {} is not known: known are Sequence, ByteLevel, ByteFallback, "
                            "Fuse, Metaspace, WordPiece, Strip, Replace, BPEDecoder",
                            in_quotes(type)));
}

}  // namespace tessera::tokens
