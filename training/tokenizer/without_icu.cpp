// SPDX-License-Identifier: Apache-2.0
// Stands where the build has no ICU, which knows the properties of characters.
#include "tessera/tokenizer.h"

namespace tessera {

struct Tokenizer::State {};

namespace {

Status without_icu() {
  return Status(Code::not_supported,
                "this build reads no tokenizers: install ICU (libicu-dev), then configure and "
                "build anew");
}

}  // namespace

Result<Tokenizer> Tokenizer::open(const std::string&) { return without_icu(); }
Result<Tokenizer> Tokenizer::parse(std::string_view, const std::string&) { return without_icu(); }
Result<std::vector<std::int32_t>> Tokenizer::encode(std::string_view, SpecialTokens) const {
  return without_icu();
}
Result<std::string> Tokenizer::decode(std::span<const std::int32_t>, SpecialTokens) const {
  return without_icu();
}
std::vector<std::string> Tokenizer::warnings() const { return {}; }
std::int32_t Tokenizer::size() const { return 0; }
std::int32_t Tokenizer::find(std::string_view) const { return -1; }
std::int32_t Tokenizer::unknown() const { return -1; }

}  // namespace tessera
