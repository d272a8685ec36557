// SPDX-License-Identifier: Apache-2.0
// Families of published models: a row of a table each.
//
// Defaults are those of the transformers config classes (5.x); checkpoints leave out what equals
// them.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "engine/model/blueprint.h"
#include "engine/text/json_reader.h"

namespace tessera {

/// Which blocks attend to a part of what lies before them.
enum class WindowStyle {
  none,
  all,      // `sliding_window`
  after,    // blocks from `max_window_layers` on, if `use_sliding_window`
  beyond,   // the same without such a switch
  chosen,   // all, if `use_sliding_window`
  pattern,  // all but each `every`th
  first,    // all but the first of each `every`
  chunks,   // the same, in chunks that do not slide
  listed,   // those that `layer_types` names
};

struct WindowDefaults {
  WindowStyle style = WindowStyle::none;
  std::int64_t width = 0;  // 0: none unless it is given
  std::int64_t every = 0;
  const char* every_key = "";  // what says it
};

struct Family {
  std::string model_type;
  std::string causal = {};  // class of the causal language model, prefix and "ForCausalLM" if empty
  std::string other_names = {};  // further classes and model types of the same, separated by spaces
  Blueprint blueprint = {};
  std::string attention_bias = {};  // roles that `attention_bias` gives a bias
  bool biased = false;              // its default
  bool mlp_bias = false;            // whether there is such a key
  WindowDefaults windows = {};
  bool trains = false;  // real training knows it
  /// What the family reads beyond sizes; null: nothing.
  void (*read)(JsonReader& config, Blueprint& out) = nullptr;
  /// What real training needs to know beyond keys that all families share; null: nothing.
  void (*compute)(JsonReader& config, const Blueprint& b, Model& out) = nullptr;
  double rotary_base = 10000;
  std::int64_t padding_token = -1;  // by default; -1: none
};

/// Keys of GPT-NeoX and BioGPT.
inline constexpr SizeKeys neox_keys{
    .key_value_heads = "", .head_dim = "", .epsilon = "layer_norm_eps"};

/// Those whose row says `trains`, in words.
constexpr const char* trained_families =
    "GPT-2, GPT-NeoX, Llama, Mistral, Qwen 2 and 3, SmolLM3, Phi-3, Gemma 1 to 3 and OLMo 2";

const std::vector<Family>& dense_families();
const std::vector<Family>& gpt_families();
const std::vector<Family>& plain_families();
const std::vector<Family>& normed_families();
const std::vector<Family>& expert_families();
const std::vector<Family>& latent_families();
const std::vector<Family>& routed_families();
const std::vector<Family>& state_space_families();
const std::vector<Family>& linear_attention_families();
const std::vector<Family>& windowed_families();
const std::vector<Family>& shared_expert_families();
const std::vector<Family>& gated_encoder_families();
const std::vector<Family>& image_text_families();

/// A model that is no decoder alone.
struct EncoderFamily {
  std::string model_type, prefix;
  std::string heads;  // classes, without the prefix, separated by spaces
  /// `head` is one of `heads`.
  std::function<Result<Model>(JsonReader& config, const std::string& head, const std::string& name)>
      build;
  bool nested = false;  // its sizes are in objects, which `build` looks at
};

const std::vector<EncoderFamily>& encoder_families();
const std::vector<EncoderFamily>& bart_families();

/// The integer at the first key of `keys` ("n_embd|hidden_size") that is there.
std::int64_t integer_of(JsonReader& config, const std::string& keys, std::int64_t least,
                        std::int64_t otherwise);
/// Whether what blocks add is dropped out, by a key of probability.
bool drops(JsonReader& config, const char* key, double otherwise);
/// Which blocks have a window of `width`, if `layer_types` names their attention one by one.
void read_layer_types(JsonReader& config, std::int64_t width, Blueprint& b);

/// `layer_types` says instead of `full`, by block, which attend to all; the others have a window,
/// or, with `chunks`, may have those.
void read_full_blocks(JsonReader& config, std::vector<bool>& full, bool chunks = false);
/// Wider than any model, and far from where products of sizes leave 64 bits.
inline constexpr std::int64_t width_max = std::int64_t{1} << 40;
/// Fails, naming `key`, if so many heads of `head_dim` are wider than that.
void check_heads_width(JsonReader& config, const char* key, std::int64_t head_dim,
                       const std::string& heads_key, std::int64_t heads);
/// Fails if heads times head_dim is not the width of the model, where a class takes one for the
/// other: transformers then builds weights that fit nowhere.
void require_full_heads(JsonReader& config, const Blueprint& b);
/// The number of classes of a head that classifies.
std::int64_t labels_of(JsonReader& config);
/// Whether experts are two tensors, as transformers 5 keeps them, or a module each.
bool fused_experts(JsonReader& config);

/// A decoder of `family`; `suffix` says its head: "ForCausalLM", "Model", ...
Result<Model> decoder_model(const Family& family, const std::string& suffix, JsonReader& config,
                            const std::string& name);

}  // namespace tessera
