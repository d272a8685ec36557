// SPDX-License-Identifier: Apache-2.0
// Writes the parameters of an engine into one safetensors file with the published names, and reads
// them from one.
//
// The idea: the ranks' elements stream through one small buffer into the file of rank 0, so no rank
// needs memory for the whole model. Reading needs no communication: every rank reads its own
// elements.
//
//   TESSERA_TRY(import_weights(*engine, "model.safetensors"));
//   ...
//   TESSERA_TRY(export_weights(*engine, "trained.safetensors", {}));
//
// A parameter with several names (tied embeddings) is written once, under the name of
// Model::parameters; any of its names is read. The optimizer's state is not touched.
#pragma once

#include <functional>
#include <string>

#include "tessera/engine.h"

namespace tessera {

struct ExportOptions {
  DType dtype = DType::float32;  // dtype in the file: float32, bfloat16 or float16
  Bytes staging{16LL << 20};     // device memory that the export may take at most
};

/// Call it on all ranks at the same time, between two steps. The file appears on the first rank's
/// machine when it is complete. Fails: invalid_argument (another dtype; in forward or backward; too
/// little staging), not_supported (an Engine that another library implements; a runtime without
/// numbers), io_error. If it fails on one rank, it fails on all.
Status export_weights(Engine& engine, const std::string& file, const ExportOptions& options);

struct ImportOptions {
  /// Values of adapters (tessera/lora.h) that the file lacks, as Engine::initialise takes them;
  /// null: it has to have all parameters.
  std::function<float(ParameterId, Numel)> adapters = {};
};

/// `file` may be the index of several (model.safetensors.index.json). Call it on all ranks at the
/// same time, between two steps. Numbers of another float dtype are converted. Fails: io_error;
/// invalid_argument (a file that says `format` of another framework than PyTorch's); corrupt (no
/// safetensors file; a tensor with infinities or what is no number, of which a part may
/// have been written then); invalid_argument (a parameter that is missing, a tensor that the
/// model does not have, another shape, no floats), naming file and tensor: nothing has changed
/// then.
Status import_weights(Engine& engine, const std::string& file, const ImportOptions& options = {});

}  // namespace tessera
