// SPDX-License-Identifier: Apache-2.0
// LoRA (Hu et al., arXiv 2106.09685): a frozen model with small matrices beside some of its own,
// which alone are trained: y = x W^T + (alpha / rank) x A^T B^T.
//
// The idea: adapters are modules of the model like any other, so that schemes shard them,
// checkpoints keep them and simulations count them. A is called q_proj.lora_A.weight, as PEFT does.
//
//   TESSERA_ASSIGN(Model model, load_model("config.json"));
//   TESSERA_ASSIGN(model, with_lora(model, {.rank = 8, .alpha = 16, .targets = {"q_proj"}}));
//   ... train, export_weights(*engine, "all.safetensors", {}) ...
//   TESSERA_TRY(merge_lora("all.safetensors", model, lora, "merged.safetensors"));
//   TESSERA_TRY(export_lora("all.safetensors", model, lora, "adapter"));   // for PEFT
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/model.h"

namespace tessera {

struct LoraOptions {
  std::int64_t rank = 8;
  double alpha = 16;
  /// Names of modules ("q_proj"), or ends of their paths ("self_attn.q_proj"). "all-linear": all
  /// but the one that gives logits.
  std::vector<std::string> targets = {"all-linear"};
  /// QLoRA (Dettmers et al., arXiv 2305.14314): frozen matrices of blocks are kept as 4-bit numbers
  /// with a float32 scale for every 64, and become 16-bit ones whenever they are multiplied.
  bool packed = false;
  /// Of what adapters are given: costs of simulated runs. Training with real numbers has none.
  double dropout = 0;

  double scale() const { return alpha / static_cast<double>(rank); }
};

/// "rank=8,alpha=32,target=q_proj,v_proj,dropout=0.1,base=nf4"; r is rank. Fails: invalid_argument,
/// naming the part.
Result<LoraOptions> parse_lora(std::string_view text);
/// As parse_lora reads it.
std::string to_text(const LoraOptions& options);

/// The model with adapters, and everything else of it frozen. Where it is packed, a weight becomes
/// a `qweight` of 16-bit elements, a quarter as many, and a buffer of scales: as FSDP shards them,
/// whose parameters have one dtype (bitsandbytes, quant_storage). Such a model has no real numbers.
/// Fails: invalid_argument (no such module, a rank or alpha that is not above 0, a model that has
/// adapters), not_supported (a target that is no linear layer), naming it.
Result<Model> with_lora(const Model& model, const LoraOptions& options);
/// Whether that parameter belongs to an adapter.
bool is_adapter(const Parameter& parameter);

/// "" or one sentence: adapters whose rank is above a side of the matrix that they change, where a
/// lower rank can say the same with fewer elements. `model` has the adapters.
std::string rank_note(const Model& model);

/// Writes the model without adapters, W + scale B A, from a file of all weights, tensor by tensor
/// in float32, rounded to `dtype` at last: float32, bfloat16 or float16. `model` has the adapters,
/// or not. Fails: what reading and writing safetensors fail with; corrupt (half an adapter, other
/// shapes).
Status merge_lora(const std::string& weights, const Model& model, const LoraOptions& options,
                  const std::string& merged, DType dtype = DType::float32);
/// Writes adapter_config.json and adapter_model.safetensors into `folder`, which it makes, as PEFT
/// reads them. Fails: as merge_lora; io_error.
Status export_lora(const std::string& weights, const Model& model, const LoraOptions& options,
                   const std::string& folder);

}  // namespace tessera
