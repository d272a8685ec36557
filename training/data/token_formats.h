// SPDX-License-Identifier: Apache-2.0
// Files of tokens as other programs write them: llm.c's header, Megatron-LM's index.
#pragma once

#include <span>
#include <string>

#include "training/data/token_file.h"

namespace tessera {

inline constexpr std::int64_t llm_c_header = 1024;  // bytes

/// Whether these are tokens of more than 2 bytes, of which the upper ones are 0.
bool has_wide_tokens(std::span<const std::byte> numbers);
bool begins_as_llm_c(std::span<const std::byte> header);
/// Fails: invalid_argument, if the header or the size does not fit.
Result<TokenLayout> llm_c_layout(const std::string& source, std::span<const std::byte> header,
                                 std::int64_t size);

/// Whether NAME.bin and NAME.idx belong together: `path` is one of them and, unless the format says
/// so, the other is there.
bool is_megatron(const std::string& path, TokenFormat format);
std::string megatron_bin(const std::string& path);
std::string megatron_idx(const std::string& path);
/// Fails: io_error, invalid_argument (another version, a type that is no token's, sizes), naming
/// the index.
Result<TokenLayout> megatron_layout(const std::string& index, std::int64_t bin_size);

}  // namespace tessera
