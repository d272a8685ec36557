// SPDX-License-Identifier: Apache-2.0
// The JSON header of a safetensors file.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/safetensors.h"

namespace tessera {

struct SafetensorsHeader {
  std::vector<StoredTensor> tensors;  // in the order of their data
  std::map<std::string, std::string> metadata;
};

/// Checks everything that can be wrong, `data` being the size of what follows the header.
/// Fails: corrupt, not_supported, naming `source` and the tensor.
Result<SafetensorsHeader> parse_safetensors_header(std::string_view json, Bytes data,
                                                   const std::string& source);

/// Padded with spaces so that data are aligned to 8 bytes.
std::string safetensors_header(const SafetensorsHeader& header);

/// Elements of `shape`. Fails: invalid_argument (negative, or too many bytes for 64 bits).
Result<Numel> checked_numel(const std::vector<std::int64_t>& shape, DType dtype);

}  // namespace tessera
