// SPDX-License-Identifier: Apache-2.0
// A safetensors file of parameters, which takes floats and stores them as its dtype.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "tessera/checkpoint.h"
#include "tessera/safetensors.h"

namespace tessera {

class WeightsFile {
 public:
  /// Fails: invalid_argument (no dtype of weights), io_error.
  static Result<WeightsFile> create(const std::string& file,
                                    const std::vector<CheckpointParameter>& parameters,
                                    DType dtype);
  Status write(const std::string& parameter, Numel first, std::span<const float> values);
  Status finish() { return writer_.finish(); }

 private:
  WeightsFile(SafetensorsWriter writer, DType dtype) : writer_(std::move(writer)), dtype_(dtype) {}

  SafetensorsWriter writer_;
  DType dtype_;
  std::vector<std::byte> bytes_;
};

/// float32, bfloat16, float16.
bool is_weight_dtype(DType dtype);

}  // namespace tessera
