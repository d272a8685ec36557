// SPDX-License-Identifier: Apache-2.0
// Files of tokens as other programs write them: llm.c's header, and what tells widths apart.
#pragma once

#include <span>
#include <string>

#include "training/data/token_file.h"

namespace tessera {

inline constexpr std::int64_t llm_c_header = 1024;  // bytes

/// The little-endian number of `width` bytes.
std::int64_t number_at(std::span<const std::byte> bytes, std::size_t at, std::size_t width);
/// Whether these are tokens of more than 2 bytes, of which the upper ones are 0.
bool has_wide_tokens(std::span<const std::byte> numbers);
bool begins_as_llm_c(std::span<const std::byte> header);
/// Fails: invalid_argument, if the header or the size does not fit.
Result<TokenLayout> llm_c_layout(const std::string& source, std::span<const std::byte> header,
                                 std::int64_t size);

}  // namespace tessera
