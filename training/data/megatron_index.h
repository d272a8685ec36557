// SPDX-License-Identifier: Apache-2.0
// NAME.idx of Megatron-LM, which says what the tokens of NAME.bin are.
#pragma once

#include <string>

#include "training/data/token_file.h"

namespace tessera {

/// Whether NAME.bin and NAME.idx belong together: `path` is one of them and, unless the format says
/// so, the other is there.
bool is_megatron(const std::string& path, TokenFormat format);
std::string megatron_bin(const std::string& path);
std::string megatron_idx(const std::string& path);
/// Reads all of the index, a part at a time. Fails: io_error, invalid_argument (another version, a
/// type that is no token's, sizes; sequences that do not follow one another in the file of tokens,
/// or documents that do not), naming the index.
Result<TokenLayout> megatron_layout(const std::string& index, std::int64_t bin_size);

}  // namespace tessera
