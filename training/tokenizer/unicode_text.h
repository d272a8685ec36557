// SPDX-License-Identifier: Apache-2.0
// What tokenizers want to know about characters. Texts are UTF-8 without errors.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/status.h"

namespace tessera::tokens {

/// The byte of the first mistake in `text`, or npos if it is UTF-8.
std::size_t utf8_mistake(std::string_view text);
std::vector<std::uint32_t> characters_of(std::string_view text);
void append(std::uint32_t character, std::string& text);
std::string utf8_of(const std::vector<std::uint32_t>& characters);
/// Bytes of the character that begins with `first`.
std::size_t utf8_length(char first);

bool is_whitespace(std::uint32_t character);  // White_Space
bool is_number(std::uint32_t character);      // categories N*
// As the tables of Python's tokenizers know them: those of BERT's steps are of Unicode 8, accents
// and normal forms of Unicode 9, where younger characters have no properties.
bool is_punctuation(std::uint32_t character);      // categories P*, and what ASCII calls so
bool is_nonspacing_mark(std::uint32_t character);  // category Mn, for BERT
bool is_combining_mark(std::uint32_t character);   // categories M*
bool is_other(std::uint32_t character);            // categories C*, but for the unassigned
/// The character's lower case by itself, which may be several.
std::string lower_case(std::string_view text);

enum class Form { nfc, nfd, nfkc, nfkd };
std::string normalised(Form form, std::string_view text);

/// A regular expression in the syntax of Oniguruma, as far as it is that of ICU.
class Pattern {
 public:
  /// Fails: invalid_argument, naming the place of the mistake.
  static Result<Pattern> make(const std::string& regex);
  /// Finds `text` itself.
  static Pattern literal(const std::string& text);

  struct Found {
    std::size_t begin, end;  // bytes
  };
  /// All matches, one after another; empty ones are left out.
  std::vector<Found> find(std::string_view text) const;

 private:
  struct Compiled;
  std::shared_ptr<const Compiled> compiled_;
  std::string literal_;
};

}  // namespace tessera::tokens
