// SPDX-License-Identifier: Apache-2.0
#include "engine/architectures/config_keys.h"

#include <fmt/format.h>

#include <algorithm>

#include "engine/text/words.h"

namespace tessera {
namespace {

constexpr std::string_view decoders =
    "llama mistral qwen2 mixtral qwen3 smollm3 phi3 gemma gemma2 gemma3_text olmo2 gpt_neox";
constexpr std::string_view rms_decoders =
    "llama mistral qwen2 mixtral qwen3 smollm3 phi3 gemma gemma2 gemma3_text olmo2";
constexpr std::string_view gemmas = "gemma gemma2 gemma3_text";

struct NamedActivation {
  std::string_view name;
  Activation activation;
};

// gelu_fast, gelu_accurate and gelu_pytorch_tanh are the same formula in other words.
constexpr NamedActivation activations[] = {
    {"gelu_new", Activation::gelu_tanh},
    {"gelu_pytorch_tanh", Activation::gelu_tanh},
    {"gelu_python_tanh", Activation::gelu_tanh},
    {"gelu_fast", Activation::gelu_tanh},
    {"gelu_accurate", Activation::gelu_tanh},
    {"gelu", Activation::gelu},
    {"gelu_python", Activation::gelu},
    {"relu", Activation::relu},
    {"silu", Activation::silu},
    {"swish", Activation::silu},
};
constexpr std::string_view activation_names =
    "gelu_new gelu_pytorch_tanh gelu_python_tanh gelu_fast gelu_accurate gelu gelu_python relu "
    "silu swish";
static_assert(std::all_of(std::begin(activations), std::end(activations), [](const auto& each) {
  return activation_names.find(each.name) != std::string_view::npos;
}));
static_assert(std::count(activation_names.begin(), activation_names.end(), ' ') + 1 ==
              std::size(activations));

constexpr ConfigKey keys[] = {
    {"vocab_size", "", KeyRule::acts, "", "rows of the embedding"},
    {"tie_word_embeddings", "", KeyRule::acts, "", "whether the head is the embedding"},
    {"n_positions", "gpt2", KeyRule::acts, "", "places that are learned"},
    {"n_embd", "gpt2", KeyRule::acts, "", "width"},
    {"n_layer", "gpt2", KeyRule::acts, "", "blocks"},
    {"n_head", "gpt2", KeyRule::acts, "", "heads"},
    {"n_inner", "gpt2", KeyRule::acts, "", "width of the MLP"},
    {"layer_norm_epsilon", "gpt2", KeyRule::acts, "", "of the norms"},
    {"activation_function", "gpt2", KeyRule::values, activation_names, "of the MLP"},
    {"scale_attn_weights", "gpt2", KeyRule::acts, "", "scores divided by the root of head_dim"},
    {"scale_attn_by_inverse_layer_idx", "gpt2", KeyRule::acts, "",
     "and by the number of the block"},
    {"add_cross_attention", "", KeyRule::values, "false", "attention to an encoder"},
    {"hidden_size", decoders, KeyRule::acts, "", "width"},
    {"intermediate_size", decoders, KeyRule::acts, "", "width of the MLP"},
    {"num_hidden_layers", decoders, KeyRule::acts, "", "blocks"},
    {"num_attention_heads", decoders, KeyRule::acts, "", "heads"},
    {"num_key_value_heads", rms_decoders, KeyRule::acts, "", "heads of keys and values"},
    {"head_dim", rms_decoders, KeyRule::acts, "", "width of a head"},
    {"max_position_embeddings", decoders, KeyRule::acts, "", "the longest sequence"},
    {"rms_norm_eps", rms_decoders, KeyRule::acts, "", "of the norms"},
    {"layer_norm_eps", "gpt_neox", KeyRule::acts, "", "of the norms"},
    {"hidden_act", decoders, KeyRule::values, activation_names,
     "of the MLP, or of its gate; Gemma's `gelu` is `gelu_pytorch_tanh`"},
    {"hidden_activation", gemmas, KeyRule::values, activation_names,
     "the same; refused if both are given and differ"},
    {"attention_bias", "llama qwen3 smollm3 gemma gemma2 gemma3_text olmo2 gpt_neox", KeyRule::acts,
     "", "biases of q, k, v and o"},
    {"mlp_bias", "llama smollm3", KeyRule::acts, "", "biases of the MLP"},
    {"use_parallel_residual", "gpt_neox", KeyRule::acts, "",
     "attention and MLP add to the same input"},
    {"query_pre_attn_scalar", "gemma2 gemma3_text", KeyRule::acts, "",
     "scores are divided by its root"},
    {"attn_logit_softcapping", "gemma2", KeyRule::acts, "", "cap of scores; null: none"},
    {"attn_logit_softcapping", "gemma3_text", KeyRule::values, "", "its class ignores it"},
    {"final_logit_softcapping", "gemma2 gemma3_text", KeyRule::acts, "", "cap of logits"},
    {"use_bidirectional_attention", gemmas, KeyRule::values, "false",
     "attention to what comes later"},
    {"rope_theta", decoders, KeyRule::acts, "", "base of the rotation"},
    {"rotary_emb_base", "gpt_neox", KeyRule::acts, "", "the same"},
    {"rope_local_base_freq", "gemma3_text", KeyRule::acts, "", "that of blocks with a window"},
    {"rope_scaling", decoders, KeyRule::values, "default linear dynamic yarn llama3",
     "how positions are stretched, its `rope_type`; `rope_parameters` is the same"},
    {"rope_parameters", decoders, KeyRule::values, "default linear dynamic yarn llama3",
     "with `factor`, `original_max_position_embeddings` and what else the type has"},
    {"partial_rotary_factor", "phi3 gpt_neox", KeyRule::acts, "", "the share that is rotated"},
    {"partial_rotary_factor",
     "llama mistral qwen2 mixtral qwen3 smollm3 gemma gemma2 gemma3_text olmo2", KeyRule::values,
     "1 1.0", "the same"},
    {"rotary_pct", "gpt_neox", KeyRule::acts, "", "the same"},
    {"no_rope_layers", "smollm3", KeyRule::acts, "", "by block: 0 where positions do not act"},
    {"no_rope_layer_interval", "smollm3", KeyRule::acts, "", "each so many blocks one of those"},
    {"sliding_window", "mistral qwen2 mixtral qwen3 smollm3 phi3 gemma2 gemma3_text", KeyRule::acts,
     "", "tokens that a token attends to"},
    {"sliding_window_pattern", "gemma3_text", KeyRule::acts, "",
     "each so many blocks one without a window"},
    {"_sliding_window_pattern", "gemma3_text", KeyRule::acts, "", "the same"},
    {"use_sliding_window", "qwen2 qwen3 smollm3", KeyRule::acts, "",
     "whether there is such a window"},
    {"max_window_layers", "qwen2 qwen3", KeyRule::acts, "",
     "blocks before it, which attend to all"},
    {"layer_types", "qwen2 qwen3 smollm3 gemma2 gemma3_text", KeyRule::values,
     "full_attention sliding_attention", "the attention of each block"},
    {"qk_norm", "", KeyRule::values, "false", "norms of queries and keys"},
    {"use_qk_norm", "", KeyRule::values, "false", "the same"},
    {"num_local_experts", "mixtral", KeyRule::acts, "", "experts"},
    {"num_experts_per_tok", "mixtral", KeyRule::acts, "", "experts that a token meets"},
    {"quantization_config", "", KeyRule::values, "", "weights in another form"},
    {"is_encoder_decoder", "", KeyRule::values, "false", "a model of two halves"},
    {"pruned_heads", "", KeyRule::values, "{}", "heads that are left out"},
    {"embd_pdrop", "gpt2", KeyRule::dropout, "", "dropout of embeddings"},
    {"attn_pdrop", "gpt2", KeyRule::dropout, "", "dropout of attention"},
    {"resid_pdrop", "gpt2 phi3", KeyRule::dropout, "", "dropout of what blocks add"},
    {"attention_dropout", decoders, KeyRule::dropout, "", "dropout of attention"},
    {"embd_pdrop", "phi3", KeyRule::values, "0 0.0", "its class ignores it"},
    {"hidden_dropout", "gpt_neox", KeyRule::values, "0 0.0",
     "dropout of embeddings and of what blocks add"},
    {"original_max_position_embeddings", "phi3", KeyRule::none, "", "of `longrope` alone"},
};

// What tokenizers, losses of other tasks, generation and libraries want to know.
constexpr std::string_view without_influence[] = {
    "_attn_implementation",
    "_name_or_path",
    "_num_labels",
    "architectures",
    "attn_implementation",
    "begin_suppress_tokens",
    "bos_token_id",
    "chunk_size_feed_forward",
    "classifier_dropout",
    "cls_token_id",
    "decoder_start_token_id",
    "do_sample",
    "dtype",
    "eos_token_id",
    "finetuning_task",
    "gradient_checkpointing",
    "id2label",
    "initializer_range",
    "is_decoder",
    "label2id",
    "max_length",
    "model_type",
    "n_ctx",
    "num_labels",
    "output_attentions",
    "output_hidden_states",
    "output_past",
    "output_router_logits",
    "pad_token_id",
    "prefix",
    "pretraining_tp",
    "problem_type",
    "reorder_and_upcast_attn",
    "return_dict",
    "router_aux_loss_coef",
    "router_jitter_noise",
    "sep_token_id",
    "sparse_pred_ignore_index",
    "summary_activation",
    "summary_first_dropout",
    "summary_proj_to_labels",
    "summary_type",
    "summary_use_proj",
    "task_specific_params",
    "temperature",
    "tokenizer_class",
    "top_k",
    "top_p",
    "torch_dtype",
    "torchscript",
    "transformers_version",
    "unk_token_id",
    "use_bfloat16",
    "use_cache",
};

std::string comma_separated(std::string_view words) {
  std::string text(words);
  for (std::size_t at = 0; (at = text.find(' ', at)) != std::string::npos; at += 2) {
    text.replace(at, 1, ", ");
  }
  return text;
}

const ConfigKey* row_of(std::string_view name, std::string_view model_type) {
  for (const ConfigKey& key : keys) {
    if (key.name == name && (key.models.empty() || lists(key.models, model_type))) return &key;
  }
  return nullptr;
}

std::string word_of(const nlohmann::json& value) {
  if (value.is_string()) return value.get<std::string>();
  const std::string text = value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  return text.size() > 40 ? text.substr(0, 40) + "..." : text;
}

// Keys whose value is a word of the row; others hold more than a word.
void check_value(const ConfigKey& key, const nlohmann::json& value, Mathematics& out) {
  if (key.name.starts_with("rope_") || key.name == "layer_types") return;
  if (lists(key.values, word_of(value))) return;
  out.refused.push_back(key.values.empty()
                            ? fmt::format("{} is given, but is not computed", key.name)
                            : fmt::format("{} is {}, computed are: {}", key.name, word_of(value),
                                          comma_separated(key.values)));
}

void check_keys(JsonReader& config, std::string_view model_type, Mathematics& out) {
  for (const auto& [name, value] : config.json().items()) {
    if (value.is_null()) continue;
    const ConfigKey* key = row_of(name, model_type);
    if (key == nullptr) continue;  // config_check.h names it
    if (key->rule == KeyRule::values) check_value(*key, value, out);
  }
}

// Dropout that is not given is 0, whatever the class's default.
float dropout_of(JsonReader& config, const char* key, Mathematics& out) {
  if (!config.has(key)) return 0;
  const nlohmann::json& value = config.json()[key];
  if (!value.is_number()) config.fail(key, "must be a number");
  if (!value.is_number()) return 0;
  const auto share = value.get<float>();
  if (share >= 0 && share < 1) return share;
  out.refused.push_back(
      fmt::format("{} is {}, computed is dropout from 0 to below 1", key, word_of(value)));
  return 0;
}

// Blocks with full attention beside others with a window: Qwen2's.
void read_windows(JsonReader& config, std::int64_t layers, Mathematics& out) {
  const std::int64_t before = config.integer("max_window_layers", 0, 28);
  if (!config.status().ok()) return;  // of the number of layers, too
  for (std::int64_t k = 0; k < layers; ++k) out.full_attention.push_back(k < before);
  if (!config.has("layer_types")) return;
  const nlohmann::json& types = config.json()["layer_types"];
  if (!types.is_array() || static_cast<std::int64_t>(types.size()) != layers) {
    return config.fail("layer_types", fmt::format("must be a list of {} words", layers));
  }
  for (std::size_t k = 0; k < types.size(); ++k) {
    const std::string type = word_of(types[k]);
    out.full_attention[k] = type != "sliding_attention";
    if (type == "sliding_attention" || type == "full_attention") continue;
    out.refused.push_back(
        fmt::format("layer_types[{}] is {}, computed are: full_attention, "
                    "sliding_attention",
                    k, type));
  }
}

}  // namespace

std::span<const ConfigKey> config_keys() { return keys; }

bool in_table(std::string_view name, std::string_view model_type) {
  return row_of(name, model_type) != nullptr;
}

bool without_influence_on_costs(std::string_view name) {
  return std::find(std::begin(without_influence), std::end(without_influence), name) !=
         std::end(without_influence);
}

const Activation* activation_of(std::string_view name) {
  for (const NamedActivation& named : activations) {
    if (named.name == name) return &named.activation;
  }
  return nullptr;
}

Mathematics read_mathematics(JsonReader& config, std::string_view model_type, std::int64_t layers) {
  Mathematics out;
  const bool gpt2 = model_type == "gpt2";
  check_keys(config, model_type, out);
  const std::string name =
      config.text(gpt2 ? "activation_function" : "hidden_act", gpt2 ? "gelu_new" : "silu");
  if (const Activation* known = activation_of(name)) out.activation = *known;
  out.attention_dropout = dropout_of(config, gpt2 ? "attn_pdrop" : "attention_dropout", out);
  if (gpt2) {
    for (const char* key : {"attn_pdrop", "embd_pdrop", "resid_pdrop"}) {
      if (!config.has(key)) out.unsaid_dropout.emplace_back(key);
    }
    out.embedding_dropout = dropout_of(config, "embd_pdrop", out);
    out.residual_dropout = dropout_of(config, "resid_pdrop", out);
    out.scores_scaled = config.boolean("scale_attn_weights", true);
    out.scores_scaled_by_block = config.boolean("scale_attn_by_inverse_layer_idx", false);
  }
  if (model_type == "phi3") out.residual_dropout = dropout_of(config, "resid_pdrop", out);
  if (model_type == "qwen2") read_windows(config, layers, out);
  return out;
}

}  // namespace tessera
