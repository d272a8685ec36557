// SPDX-License-Identifier: Apache-2.0
// The JSON header of a safetensors file.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/safetensors.h"

namespace tessera {

/// A file begins with the size of its header, a little-endian integer of so many bytes.
inline constexpr std::int64_t safetensors_size_bytes = 8;

struct SafetensorsHeader {
  std::vector<StoredTensor> tensors;  // in the order of their data
  std::map<std::string, std::string> metadata;
};

/// Parses the header and checks all of it; `data` is the size of the data behind the header.
/// Fails: corrupt, not_supported, naming `source` and the tensor.
Result<SafetensorsHeader> parse_safetensors_header(std::string_view json, Bytes data,
                                                   const std::string& source);

/// The header as text, padded with spaces so that the data are aligned to 8 bytes.
std::string safetensors_header(const SafetensorsHeader& header);

/// The number of elements of `shape`. Fails: invalid_argument (a negative size, or more bytes than
/// 64 bits can count).
Result<Numel> checked_numel(const std::vector<std::int64_t>& shape, DType dtype);

}  // namespace tessera
