// SPDX-License-Identifier: Apache-2.0
#include "engine/model/config_check.h"

#include <fmt/format.h>

#include <vector>

#include "engine/model/config_keys.h"
#include "engine/text/nearest_word.h"

namespace tessera {
namespace {

// What changes numbers, but neither shapes nor costs, of families that are simulated only.
constexpr std::string_view numbers_only =
    "activation_dropout alibi apply_residual_connection_post_layernorm apply_spec_augment "
    "attention_dropout attention_multiplier attention_probs_dropout_prob "
    "attention_softmax_in_fp32 attn_config attn_logit_softcapping attn_pdrop attn_scale "
    "attn_temperature_tuning aux_loss_alpha cache_implementation classifier_dropout clip_qkv "
    "decoder_layerdrop dense_act_fn emb_pdrop embd_pdrop embedding_dropout "
    "embedding_fraction embedding_multiplier encoder_layerdrop encoder_stride ep_size "
    "experts_implementation final_logit_softcapping floor_scale forced_decoder_ids "
    "hidden_act hidden_activation init_device init_std initial_context_length "
    "initializer_factor is_gated_act layer_norm_eps layer_norm_epsilon layerdrop "
    "learned_pos_emb logit_scale logits_scaling mask_feature_length mask_feature_min_masks "
    "mask_feature_prob mask_time_length mask_time_min_masks mask_time_prob "
    "max_sequence_length max_window_layers median_filter_width n_group no_bias "
    "no_rope_layers norm_topk_prob norm_type num_mtp_layers num_nextn_predict_layers "
    "original_max_position_embeddings partial_rotary_factor pooler_act "
    "position_embedding_type pretraining_seq_length qa_dropout qk_head_dim "
    "quantization_config query_pre_attn_scalar relative_attention_max_distance "
    "residual_dropout residual_multiplier rms_norm_eps rope_embed_fraction rope_interleave "
    "rope_local_base_freq rope_parameters rope_pct rope_scaling rope_theta rotary rotary_dim "
    "rotary_emb_base rotary_pct rotary_scaling_factor routed_scaling_factor "
    "scale_attention_softmax_in_fp32 scale_attn_by_inverse_layer_idx scale_attn_weights "
    "scale_decoder_outputs scale_embedding scoring_func seq_aux seq_classif_dropout "
    "sinusoidal_pos_embds sliding_window slow_but_exact suppress_tokens swiglu_alpha "
    "swiglu_limit topk_group topk_method type_vocab_size use_bidirectional_attention "
    "use_sliding_window use_weighted_layer_sum word_embed_proj_dim";

bool known_elsewhere(std::string_view name, const std::string& model_type, bool trains) {
  const std::string padded = " " + std::string(numbers_only) + " ";
  const bool listed = padded.find(" " + std::string(name) + " ") != std::string::npos;
  return (listed && !trains) || in_table(name, model_type) || without_influence_on_costs(name);
}

}  // namespace

Status check_nested(const JsonReader& config, bool known) {
  for (const char* key : {"text_config", "llm_config", "language_config", "thinker_config"}) {
    if (!config.has(key)) continue;
    const char* why = known ? "but sizes of this architecture are read at the top"
                            : "a model of more than text, which is not built";
    return Status(Code::invalid_argument,
                  fmt::format("{}: {} is an object in the file, {}: give the text model's own "
                              "config.json, with its architectures or model_type",
                              config.source(), key, why));
  }
  return {};
}

void check_halves(JsonReader& config, bool encoder) {
  if (config.boolean("add_cross_attention", false)) {
    config.fail("add_cross_attention",
                "is true, but attention to an encoder is not built for "
                "this architecture: describe the model as a module tree");
  }
  if (!encoder && config.boolean("is_encoder_decoder", false)) {
    config.fail("is_encoder_decoder",
                "is true, but this architecture is built as a decoder "
                "alone: describe the model as a module tree");
  }
  config.boolean("is_decoder", false);
  if (!config.has("pruned_heads")) return;
  const nlohmann::json& heads = config.json()["pruned_heads"];
  if (!heads.is_object() && !heads.is_array()) return config.fail("pruned_heads", "must be {}");
  if (!heads.empty()) {
    config.fail("pruned_heads",
                "names heads, but models are built with all of them: describe the "
                "model as a module tree");
  }
}

Status check_keys_read(JsonReader& config, const std::string& model_type, bool trains,
                       Model& model) {
  std::vector<std::string_view> missing;  // that would have acted
  for (const std::string& key : config.asked()) {
    if (!config.json().contains(key)) missing.push_back(key);
  }
  std::string unknown;
  for (const auto& [name, value] : config.json().items()) {
    const bool read = config.asked().contains(name) || value.is_null();
    if (read || known_elsewhere(name, model_type, trains)) continue;
    const std::string_view meant = nearest_word(name, missing);
    if (!meant.empty()) {
      return Status(Code::invalid_argument,
                    fmt::format("{}: unknown key {}, did you mean {}?", config.source(),
                                in_quotes(name), in_quotes(meant)));
    }
    unknown += (unknown.empty() ? "" : ", ") + name;
  }
  if (!unknown.empty()) {
    model.warnings.push_back(
        fmt::format("keys that mean nothing to {} here are ignored: {}", model_type, unknown));
  }
  if (config.has("quantization_config")) {
    model.warnings.push_back(
        fmt::format("quantization_config is ignored: weights are counted as {}, not quantized",
                    name_of(model.dtype)));
  }
  return {};
}

}  // namespace tessera
