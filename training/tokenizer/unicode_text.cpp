// SPDX-License-Identifier: Apache-2.0
#include "training/tokenizer/unicode_text.h"

#include <fmt/format.h>
#include <unicode/normalizer2.h>
#include <unicode/regex.h>
#include <unicode/uchar.h>
#include <unicode/uniset.h>
#include <unicode/unistr.h>
#include <unicode/utf8.h>

#include "tessera/assert.h"

namespace tessera::tokens {

std::size_t utf8_mistake(std::string_view text) {
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(text.data());
  const auto size = static_cast<std::int64_t>(text.size());
  for (std::int64_t at = 0; at < size;) {
    const std::int64_t begin = at;
    UChar32 c = 0;
    U8_NEXT(bytes, at, size, c);
    if (c < 0) return static_cast<std::size_t>(begin);
  }
  return std::string_view::npos;
}

std::vector<std::uint32_t> characters_of(std::string_view text) {
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(text.data());
  const auto size = static_cast<std::int64_t>(text.size());
  std::vector<std::uint32_t> out;
  for (std::int64_t at = 0; at < size;) {
    UChar32 c = 0;
    U8_NEXT(bytes, at, size, c);
    out.push_back(c < 0 ? 0xFFFD : static_cast<std::uint32_t>(c));
  }
  return out;
}

void append(std::uint32_t character, std::string& text) {
  std::uint8_t bytes[4];
  std::int32_t length = 0;
  U8_APPEND_UNSAFE(bytes, length, character);
  text.append(reinterpret_cast<const char*>(bytes), static_cast<std::size_t>(length));
}

std::string utf8_of(const std::vector<std::uint32_t>& characters) {
  std::string text;
  for (const std::uint32_t c : characters) append(c, text);
  return text;
}

std::size_t utf8_length(char first) {
  const auto byte = static_cast<std::uint8_t>(first);
  return byte < 0x80 ? 1 : byte < 0xE0 ? 2 : byte < 0xF0 ? 3 : 4;
}

namespace {

bool is_in(std::uint32_t character, std::uint32_t categories) {
  return (U_GET_GC_MASK(static_cast<UChar32>(character)) & categories) != 0;
}

// As is_in, of characters that Unicode `version` had.
bool was_in(std::uint32_t character, std::uint32_t categories, int version) {
  UVersionInfo age;
  u_charAge(static_cast<UChar32>(character), age);
  return age[0] <= version && is_in(character, categories);
}

// Unicode called them otherwise in versions 8 and 9.
constexpr std::uint32_t canadian_sign = 0x166D;    // punctuation then
constexpr std::uint32_t sharada_mark = 0x111C9;    // punctuation then
constexpr std::uint32_t hanunoo_sign = 0x1734;     // a nonspacing mark then, spacing since
constexpr std::uint32_t balinese_sign = 0xA9BD;    // a spacing mark then
constexpr std::uint32_t mongolian_signs = 0x1885;  // two letters then
constexpr std::uint32_t vedic_signs = 0x1CF2;      // two marks then

}  // namespace

bool is_whitespace(std::uint32_t character) {
  return u_isUWhiteSpace(static_cast<UChar32>(character)) != 0;
}
bool is_number(std::uint32_t character) { return is_in(character, U_GC_N_MASK); }
bool is_nonspacing_mark(std::uint32_t c) {
  if (c == hanunoo_sign) return true;
  const bool other =
      c == sharada_mark || c == balinese_sign || c == mongolian_signs || c == mongolian_signs + 1;
  return !other && was_in(c, U_GC_MN_MASK, 8);
}
bool is_combining_mark(std::uint32_t c) {
  if (c == vedic_signs || c == vedic_signs + 1) return true;
  return c != sharada_mark && was_in(c, U_GC_M_MASK, 9);
}
bool is_other(std::uint32_t character) {
  return was_in(character, U_GC_CC_MASK | U_GC_CF_MASK | U_GC_CS_MASK | U_GC_CO_MASK, 8);
}
bool is_punctuation(std::uint32_t character) {
  const bool ascii = (character >= 33 && character <= 47) || (character >= 58 && character <= 64) ||
                     (character >= 91 && character <= 96) || (character >= 123 && character <= 126);
  return ascii || character == canadian_sign || character == sharada_mark ||
         was_in(character, U_GC_P_MASK, 8);
}

std::string lower_case(std::string_view text) {
  std::string out;
  for (const std::uint32_t c : characters_of(text)) {
    if (c == 0x130) {  // the only character whose lower case alone is two: i and a dot above
      out += "i\xCC\x87";
    } else {
      append(static_cast<std::uint32_t>(u_tolower(static_cast<UChar32>(c))), out);
    }
  }
  return out;
}

namespace {

// ICU's, for the characters of Unicode 9; the others stay as they are.
icu::FilteredNormalizer2 of_unicode_9(Form form) {
  UErrorCode error = U_ZERO_ERROR;
  static const icu::UnicodeSet known(u"[:age=9.0:]", error);
  const auto* normalizer = form == Form::nfc    ? icu::Normalizer2::getNFCInstance(error)
                           : form == Form::nfd  ? icu::Normalizer2::getNFDInstance(error)
                           : form == Form::nfkc ? icu::Normalizer2::getNFKCInstance(error)
                                                : icu::Normalizer2::getNFKDInstance(error);
  TESSERA_ASSERT(U_SUCCESS(error) != 0, "ICU has its data");
  return icu::FilteredNormalizer2(*normalizer, known);
}

}  // namespace

std::string normalised(Form form, std::string_view text) {
  UErrorCode error = U_ZERO_ERROR;
  const icu::FilteredNormalizer2 normalizer = of_unicode_9(form);
  const auto wide = icu::UnicodeString::fromUTF8({text.data(), static_cast<int32_t>(text.size())});
  icu::UnicodeString changed;
  normalizer.normalize(wide, changed, error);
  std::string out;
  changed.toUTF8String(out);
  return out;
}

struct Pattern::Compiled {
  std::unique_ptr<icu::RegexPattern> pattern;
};

namespace {

// ICU's \s leaves out two of Unicode's white space, Oniguruma's does not.
std::string for_icu(const std::string& regex) {
  std::string out;
  for (std::size_t k = 0; k < regex.size(); ++k) {
    if (regex[k] != '\\' || k + 1 == regex.size()) {
      out += regex[k];
      continue;
    }
    const char next = regex[++k];
    if (next == 's') {
      out += "\\p{White_Space}";
    } else if (next == 'S') {
      out += "\\P{White_Space}";
    } else {
      out += {'\\', next};
    }
  }
  return out;
}

}  // namespace

Result<Pattern> Pattern::make(const std::string& regex) {
  UErrorCode error = U_ZERO_ERROR;
  UParseError place{};
  const auto source = icu::UnicodeString::fromUTF8(for_icu(regex));
  auto compiled = std::make_shared<Compiled>();
  compiled->pattern.reset(icu::RegexPattern::compile(source, 0, place, error));
  if (U_FAILURE(error) != 0) {
    return Status(Code::invalid_argument,
                  fmt::format("the pattern {} is not understood at character {} ({})", regex,
                              place.offset, u_errorName(error)));
  }
  Pattern out;
  out.compiled_ = std::move(compiled);
  return out;
}

Pattern Pattern::literal(const std::string& text) {
  Pattern out;
  out.literal_ = text;
  return out;
}

std::vector<Pattern::Found> Pattern::find(std::string_view text) const {
  std::vector<Found> out;
  if (!compiled_) {
    for (std::size_t at = 0; !literal_.empty();) {
      at = text.find(literal_, at);
      if (at == std::string_view::npos) break;
      out.push_back({at, at + literal_.size()});
      at += literal_.size();
    }
    return out;
  }
  const auto wide = icu::UnicodeString::fromUTF8({text.data(), static_cast<int32_t>(text.size())});
  // Matches are found in UTF-16; their places are counted on in UTF-8.
  UErrorCode error = U_ZERO_ERROR;
  const std::unique_ptr<icu::RegexMatcher> matcher(compiled_->pattern->matcher(wide, error));
  std::int32_t unit = 0;
  std::size_t byte = 0;
  const auto byte_of = [&](std::int32_t target) {
    while (unit < target) {
      const UChar32 c = wide.char32At(unit);
      unit += U16_LENGTH(c);
      byte += static_cast<std::size_t>(U8_LENGTH(c));
    }
    return byte;
  };
  while (U_SUCCESS(error) != 0 && matcher->find(error) != 0) {
    const std::int32_t begin = matcher->start(error);
    const std::int32_t end = matcher->end(error);
    if (begin == end) continue;
    const std::size_t first = byte_of(begin);
    out.push_back({first, byte_of(end)});
  }
  return out;
}

}  // namespace tessera::tokens
