// SPDX-License-Identifier: Apache-2.0
// Models from the `config.json` of Hugging Face checkpoints.
#pragma once

#include "engine/text/json_reader.h"
#include "tessera/model.h"

namespace tessera {

/// The dtype of the checkpoint: "dtype", or "torch_dtype" before transformers 4.56.
DType config_dtype(JsonReader& config);

/// A model of any family that family.h lists, told apart by "architectures" or
/// "model_type".
Result<Model> hugging_face_model(const nlohmann::json& json, const std::string& source,
                                 const std::string& name);

}  // namespace tessera
