// SPDX-License-Identifier: Apache-2.0
// Models from the `config.json` of Hugging Face checkpoints.
#pragma once

#include "engine/text/json_reader.h"
#include "tessera/model.h"

namespace tessera {

/// Sizes of a model of the Llama family: pre-norm blocks of grouped-query attention and a gated MLP
/// or a mixture of such experts.
struct LlamaDimensions {
  std::string architecture;
  std::int64_t vocabulary, hidden, intermediate, layers, heads, kv_heads, head_dim;
  std::int64_t experts = 0;  // 0: a plain MLP
  std::int64_t experts_per_token = 0;
  bool qkv_bias = false, output_bias = false, mlp_bias = false, tied = false;
  DType dtype = DType::float32;
  std::int64_t sequence_length_max = 0;
  double norm_epsilon = 1e-6;
  RotaryEmbedding rotary;
  std::int64_t sliding_window = 0;  // 0: none
  Mathematics mathematics = {};
};

/// LlamaForCausalLM, MistralForCausalLM, Qwen2ForCausalLM, MixtralForCausalLM.
Result<Model> llama_model(const LlamaDimensions& dimensions, const std::string& name,
                          const std::string& source);

/// GPT2LMHeadModel.
Result<Model> gpt2_model(JsonReader& config, const std::string& name);

/// The dtype of the checkpoint: "dtype", or "torch_dtype" before transformers 4.56.
DType config_dtype(JsonReader& config);

/// Any of the above, told apart by "architectures" or "model_type".
Result<Model> hugging_face_model(const nlohmann::json& json, const std::string& source,
                                 const std::string& name);

/// A module-tree JSON (docs/model-format.md).
Result<Model> module_tree_model(const nlohmann::json& json, const std::string& source);

}  // namespace tessera
