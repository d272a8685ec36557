// SPDX-License-Identifier: Apache-2.0
#include "engine/checkpoint/weights_file.h"

#include <fmt/format.h>

#include "engine/numbers/number.h"

namespace tessera {

bool is_weight_dtype(DType dtype) {
  return dtype == DType::float32 || dtype == DType::bfloat16 || dtype == DType::float16;
}

Result<WeightsFile> WeightsFile::create(const std::string& file,
                                        const std::vector<CheckpointParameter>& parameters,
                                        DType dtype) {
  if (!is_weight_dtype(dtype)) {
    return Status(Code::invalid_argument,
                  fmt::format("{}: weights cannot be {}: choose float32, bfloat16 or float16", file,
                              name_of(dtype)));
  }
  std::vector<StoredTensor> tensors;
  for (const CheckpointParameter& p : parameters) {
    tensors.push_back({.name = p.name, .dtype = dtype, .shape = p.shape});
  }
  // Hugging Face's loaders require this metadata.
  TESSERA_ASSIGN(auto writer, SafetensorsWriter::create(file, tensors, {{"format", "pt"}}));
  return WeightsFile(std::move(writer), dtype);
}

Status WeightsFile::write(const std::string& parameter, Numel first,
                          std::span<const float> values) {
  bytes_.resize(values.size() * static_cast<std::size_t>(size_of(dtype_).value));
  for (std::size_t i = 0; i < values.size(); ++i) store_number(bytes_, dtype_, i, values[i]);
  return writer_.write(parameter, first, bytes_);
}

}  // namespace tessera
