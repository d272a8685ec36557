// SPDX-License-Identifier: Apache-2.0
// The values of a checkpoint as one safetensors file.
#include <fmt/format.h>

#include <algorithm>

#include "engine/checkpoint/checkpoint_reader.h"
#include "engine/checkpoint/weights_file.h"
#include "tessera/checkpoint.h"

namespace tessera {

Status export_checkpoint(const std::string& path, const std::string& file, DType dtype) {
  TESSERA_ASSIGN(CheckpointReader reader, CheckpointReader::open(system_files(), path));
  const auto& parameters = reader.manifest().parameters;
  TESSERA_ASSIGN(WeightsFile out, WeightsFile::create(file, parameters, dtype));
  std::vector<float> values;
  for (const CheckpointParameter& p : parameters) {
    const Numel numel = numel_of(p);
    for (Numel first{}; first < numel; first += piece_numel_max) {
      values.resize(static_cast<std::size_t>(std::min(piece_numel_max, numel - first).value));
      TESSERA_TRY(reader.read(p.name, StateTensor::value, 0, first, values));
      TESSERA_TRY(out.write(p.name, first, values));
    }
  }
  return out.finish();
}

}  // namespace tessera
