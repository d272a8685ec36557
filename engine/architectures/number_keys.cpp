// SPDX-License-Identifier: Apache-2.0
#include "engine/architectures/number_keys.h"

#include <algorithm>

#include "engine/text/words.h"

namespace tessera {
namespace {

using Kind = NumberKind;

// Attributes of the configuration classes of transformers 5.23; names that older versions wrote and
// no class has any more belong to all.
constexpr NumberKey number_keys[] = {
    {"activation", Kind::activation, "falcon distilbert"},
    {"activation_dropout", Kind::share,
     "whisper bart mbart plbart pegasus marian m2m_100 blenderbot blenderbot-small mvp xglm biogpt "
     "wav2vec2 hubert"},
    {"activation_function", Kind::activation,
     "gpt2 gpt_bigcode gptj opt whisper codegen gpt_neo exaone bart mbart plbart pegasus marian "
     "m2m_100 blenderbot blenderbot-small mvp xglm"},
    {"adapter_kernel_size", Kind::number, "wav2vec2"},
    {"adapter_stride", Kind::number, "wav2vec2"},
    {"afn", Kind::activation, "openai-gpt"},
    {"alibi", Kind::flag, "falcon"},
    {"apply_layernorm", Kind::flag, "dinov2"},
    {"apply_residual_connection_post_layernorm", Kind::flag, "bloom"},
    {"apply_spec_augment", Kind::flag, "whisper wav2vec2 hubert"},
    {"attention_dropout", Kind::share,
     "llama mistral qwen2 qwen3 gemma gemma2 gemma3_text phi phi3 olmo olmo2 granite cohere "
     "cohere2 glm glm4 stablelm starcoder2 gpt_neox opt bloom falcon mixtral qwen2_moe qwen3_moe "
     "olmoe deepseek_v2 deepseek_v3 gpt_oss llama4_text distilbert whisper seed_oss "
     "hunyuan_v1_dense ministral ministral3 helium olmo3 exaone4 arcee nemotron apertus glm4_moe "
     "dots1 granitemoe minimax_m2 phimoe flex_olmo exaone internlm3 vaultgemma jais2 nanochat "
     "glm4_moe_lite youtu minicpm3 solar_open exaone_moe mellum gpt_neo persimmon bart mbart "
     "plbart pegasus marian m2m_100 blenderbot blenderbot-small mvp xglm clip_text_model "
     "clip_vision_model siglip_text_model siglip_vision_model modernbert wav2vec2 hubert jamba "
     "bamba granitemoehybrid falcon_h1 qwen3_next qwen3_5_text qwen2_vl_text qwen2_5_vl_text "
     "qwen3_vl_text qwen3_vl_moe_text"},
    {"attention_in_multiplier", Kind::number, "falcon_h1"},
    {"attention_multiplier", Kind::number, "granite granitemoe granitemoehybrid"},
    {"attention_out_multiplier", Kind::number, "falcon_h1"},
    {"attention_probs_dropout_prob", Kind::share,
     "bert roberta vit xlm-roberta camembert data2vec-text electra mpnet deberta-v2 deit dinov2 "
     "biogpt"},
    {"attention_softmax_in_fp32", Kind::flag, "gpt_bigcode"},
    {"attn_config", Kind::object, "mpt"},
    {"attn_logit_softcapping", Kind::number, "gemma2 gemma3_text vaultgemma"},
    {"attn_pdrop", Kind::share, "gpt2 gpt_bigcode gptj codegen openai-gpt"},
    {"attn_scale", Kind::number, "llama4_text"},
    {"attn_temperature_tuning", Kind::scalar, "llama4_text"},
    {"aux_loss_alpha", Kind::number, ""},
    {"cache_implementation", Kind::word, ""},
    {"classifier_activation", Kind::activation, "modernbert"},
    {"classifier_dropout", Kind::share,
     "gpt_neox bert roberta t5 mt5 umt5 gpt_neo xlm-roberta camembert data2vec-text bart mbart "
     "plbart pegasus marian m2m_100 blenderbot blenderbot-small mvp electra modernbert"},
    {"clip_qkv", Kind::number, "olmo olmoe"},
    {"codevector_dim", Kind::number, "wav2vec2"},
    {"contrastive_logits_temperature", Kind::number, "wav2vec2"},
    {"conv_act", Kind::activation, "deberta-v2"},
    {"ctc_loss_reduction", Kind::word, "wav2vec2 hubert"},
    {"ctc_zero_infinity", Kind::flag, "wav2vec2 hubert"},
    {"decoder_layerdrop", Kind::share,
     "whisper bart mbart plbart pegasus marian m2m_100 blenderbot blenderbot-small mvp"},
    {"dense_act_fn", Kind::activation, "t5 mt5 umt5"},
    {"deterministic_flash_attn", Kind::flag, "modernbert"},
    {"dim_model_base", Kind::number, "minicpm3"},
    {"diversity_loss_weight", Kind::number, "wav2vec2"},
    {"drop_path_rate", Kind::share, "dinov2"},
    {"emb_pdrop", Kind::share, "mpt"},
    {"embd_pdrop", Kind::share, "phi phi3 gpt2 gpt_bigcode gptj codegen openai-gpt"},
    {"embed_dropout", Kind::share, "gpt_neo"},
    {"embedding_dropout", Kind::share, "starcoder2 modernbert"},
    {"embedding_fraction", Kind::number, "mpt"},
    {"embedding_initializer_range", Kind::number, "youtu"},
    {"embedding_multiplier", Kind::number, "granite granitemoe granitemoehybrid falcon_h1"},
    {"encoder_layerdrop", Kind::share,
     "whisper bart mbart plbart pegasus marian m2m_100 blenderbot blenderbot-small mvp"},
    {"encoder_no_repeat_ngram_size", Kind::number, ""},
    {"encoder_stride", Kind::number, "vit deit"},
    {"ep_size", Kind::number, ""},
    {"experts_implementation", Kind::word, ""},
    {"feat_extract_activation", Kind::activation, "wav2vec2 hubert"},
    {"feat_proj_dropout", Kind::share, "wav2vec2 hubert"},
    {"feat_quantizer_dropout", Kind::share, "wav2vec2"},
    {"final_dropout", Kind::share, "wav2vec2 hubert"},
    {"final_logit_softcapping", Kind::number, "gemma2 gemma3_text vaultgemma nanochat"},
    {"floor_scale", Kind::number, "llama4_text"},
    {"forced_bos_token_id", Kind::number, ""},
    {"forced_decoder_ids", Kind::list, ""},
    {"forced_eos_token_id", Kind::number, ""},
    {"global_rope_theta", Kind::number, "modernbert"},
    {"head_dim", Kind::number, "youtu minicpm3"},
    {"hidden_act", Kind::activation,
     "llama mistral qwen2 qwen3 gemma phi phi3 olmo olmo2 granite cohere cohere2 glm glm4 stablelm "
     "starcoder2 gpt_neox mixtral qwen2_moe qwen3_moe olmoe deepseek_v2 deepseek_v3 gpt_oss "
     "llama4_text bert roberta vit ernie4_5 seed_oss hunyuan_v1_dense ministral ministral3 helium "
     "olmo3 exaone4 arcee nemotron ernie4_5_moe glm4_moe dots1 granitemoe minimax_m2 phimoe "
     "flex_olmo exaone internlm3 jais2 nanochat glm4_moe_lite youtu minicpm3 solar_open exaone_moe "
     "mellum persimmon xlm-roberta camembert data2vec-text electra mpnet deberta-v2 deit dinov2 "
     "biogpt clip_text_model clip_vision_model siglip_text_model siglip_vision_model wav2vec2 "
     "hubert jamba bamba granitemoehybrid falcon_h1 qwen3_next qwen3_5_text qwen2_vl_text "
     "qwen2_5_vl_text qwen3_vl_text qwen3_vl_moe_text mamba falcon_mamba mamba2"},
    {"hidden_activation", Kind::activation, "gemma2 gemma3_text vaultgemma modernbert"},
    {"hidden_dropout", Kind::share, "stablelm gpt_neox bloom falcon"},
    {"init_device", Kind::word, "mpt"},
    {"init_std", Kind::number,
     "opt whisper bart mbart plbart pegasus marian m2m_100 blenderbot blenderbot-small mvp xglm"},
    {"initial_context_length", Kind::number, ""},
    {"initializer_cutoff_factor", Kind::number, "modernbert"},
    {"initializer_factor", Kind::number, "t5 mt5 umt5 clip_text_model clip_vision_model"},
    {"input_jitter_noise", Kind::share, "phimoe"},
    {"is_gated_act", Kind::flag, "t5"},
    {"key_multiplier", Kind::number, "falcon_h1"},
    {"layer_norm_eps", Kind::positive,
     "phi cohere cohere2 stablelm gpt_neox bert roberta vit persimmon jais2 xlm-roberta camembert "
     "data2vec-text electra mpnet deberta-v2 deit dinov2 biogpt clip_text_model clip_vision_model "
     "siglip_text_model siglip_vision_model wav2vec2 hubert"},
    {"layer_norm_epsilon", Kind::positive,
     "gpt2 gpt_bigcode gptj bloom falcon mpt t5 mt5 umt5 gpt_neo codegen exaone openai-gpt"},
    {"layerdrop", Kind::share, "opt xglm biogpt wav2vec2 hubert"},
    {"layerscale_value", Kind::number, "dinov2"},
    {"learned_pos_emb", Kind::flag, "mpt"},
    {"length_penalty", Kind::number, ""},
    {"lm_head_multiplier", Kind::number, "falcon_h1"},
    {"local_rope_theta", Kind::number, "modernbert"},
    {"logit_scale", Kind::scalar, "cohere cohere2 mpt"},
    {"logits_scaling", Kind::number, "granite granitemoe granitemoehybrid"},
    {"mamba_norm_before_gate", Kind::flag, "falcon_h1"},
    {"mask_feature_length", Kind::number, "whisper wav2vec2 hubert"},
    {"mask_feature_min_masks", Kind::number, "whisper wav2vec2 hubert"},
    {"mask_feature_prob", Kind::number, "whisper"},
    {"mask_time_length", Kind::number, "whisper wav2vec2 hubert"},
    {"mask_time_min_masks", Kind::number, "whisper wav2vec2 hubert"},
    {"mask_time_prob", Kind::number, "whisper"},
    {"max_sequence_length", Kind::number, ""},
    {"max_window_layers", Kind::number, "qwen2 qwen3 qwen2_moe qwen2_vl_text qwen2_5_vl_text"},
    {"median_filter_width", Kind::number, "whisper"},
    {"min_length", Kind::number, ""},
    {"mixer_rms_eps", Kind::positive, "falcon_mamba"},
    {"mlp_multipliers", Kind::numbers, "falcon_h1"},
    {"moe_norm_min", Kind::number, "ernie4_5_moe"},
    {"mtp_layer_types", Kind::list, "mellum"},
    {"mtp_mlp_layer_types", Kind::list, "mellum"},
    {"n_ctx", Kind::number, ""},
    {"n_group", Kind::number,
     "deepseek_v2 deepseek_v3 glm4_moe dots1 glm4_moe_lite solar_open exaone_moe"},
    {"no_bias", Kind::flag, "mpt"},
    {"no_repeat_ngram_size", Kind::number, ""},
    {"no_rope_layers", Kind::list, "llama4_text"},
    {"norm_eps", Kind::positive, "modernbert"},
    {"norm_topk_prob", Kind::flag,
     "qwen2_moe qwen3_moe olmoe deepseek_v2 deepseek_v3 glm4_moe dots1 flex_olmo glm4_moe_lite "
     "solar_open exaone_moe mellum lfm2_moe qwen3_next"},
    {"norm_type", Kind::word, "mpt"},
    {"num_adapter_layers", Kind::number, "wav2vec2"},
    {"num_beams", Kind::number, ""},
    {"num_codevector_groups", Kind::number, "wav2vec2"},
    {"num_codevectors_per_group", Kind::number, "wav2vec2"},
    {"num_key_value_heads", Kind::number, "gpt_bigcode"},
    {"num_logits_to_keep", Kind::number, ""},
    {"num_mtp_layers", Kind::number, "deepseek_v3 mellum"},
    {"num_negatives", Kind::number, "wav2vec2"},
    {"num_nextn_predict_layers", Kind::number, "deepseek_v3 glm4_moe mellum"},
    {"original_max_position_embeddings", Kind::number, "phi3"},
    {"out_features", Kind::list, "dinov2"},
    {"out_indices", Kind::list, "dinov2"},
    {"output_hidden_size", Kind::number, "wav2vec2"},
    {"partial_rotary_factor", Kind::number, ""},
    {"pooler_act", Kind::activation, "vit deit"},
    {"pooler_dropout", Kind::share, "deberta-v2"},
    {"pooler_hidden_act", Kind::activation, "deberta-v2"},
    {"position_embedding_type", Kind::word, ""},
    {"pretraining_seq_length", Kind::number, ""},
    {"proj_codevector_dim", Kind::number, "wav2vec2"},
    {"projection_dim", Kind::number, "clip_text_model"},
    {"prompt_length", Kind::number, "mvp"},
    {"prompt_mid_dim", Kind::number, "mvp"},
    {"qa_dropout", Kind::share, "distilbert"},
    {"qk_head_dim", Kind::number, "deepseek_v2 deepseek_v3 glm4_moe_lite youtu minicpm3"},
    {"quantization_config", Kind::object, ""},
    {"query_pre_attn_scalar", Kind::number, "gemma2 gemma3_text vaultgemma"},
    {"reference_compile", Kind::flag, "modernbert"},
    {"relative_attention_max_distance", Kind::number, "t5 mt5 umt5"},
    {"repad_logits_with_grad", Kind::flag, "modernbert"},
    {"rescale_prenorm_residual", Kind::flag, "mamba falcon_mamba mamba2"},
    {"reshape_hidden_states", Kind::flag, "dinov2"},
    {"resid_pdrop", Kind::share, "phi phi3 mpt"},
    {"residual_dropout", Kind::share, "starcoder2"},
    {"residual_in_fp32", Kind::flag, ""},
    {"residual_multiplier", Kind::number, "granite granitemoe granitemoehybrid"},
    {"rms_norm_eps", Kind::positive,
     "llama mistral qwen2 qwen3 gemma gemma2 gemma3_text phi3 olmo2 granite glm glm4 mixtral "
     "qwen2_moe qwen3_moe olmoe deepseek_v2 deepseek_v3 gpt_oss llama4_text ernie4_5 seed_oss "
     "hunyuan_v1_dense ministral ministral3 helium olmo3 exaone4 arcee apertus ernie4_5_moe "
     "glm4_moe dots1 granitemoe minimax_m2 phimoe flex_olmo exaone internlm3 vaultgemma nanochat "
     "glm4_moe_lite youtu minicpm3 solar_open exaone_moe mellum jamba bamba granitemoehybrid "
     "falcon_h1 qwen3_next qwen3_5_text qwen2_vl_text qwen2_5_vl_text qwen3_vl_text "
     "qwen3_vl_moe_text"},
    {"rope_embed_fraction", Kind::number, ""},
    {"rope_interleave", Kind::flag, "deepseek_v3 glm4_moe_lite youtu"},
    {"rope_local_base_freq", Kind::number, ""},
    {"rope_parameters", Kind::object,
     "llama mistral qwen2 qwen3 gemma gemma2 gemma3_text phi phi3 olmo olmo2 granite cohere "
     "cohere2 glm glm4 stablelm starcoder2 gpt_neox falcon mixtral qwen2_moe qwen3_moe olmoe "
     "deepseek_v2 deepseek_v3 gpt_oss llama4_text ernie4_5 seed_oss hunyuan_v1_dense ministral "
     "ministral3 helium olmo3 exaone4 arcee nemotron apertus ernie4_5_moe glm4_moe dots1 "
     "granitemoe minimax_m2 phimoe flex_olmo exaone internlm3 vaultgemma jais2 nanochat "
     "glm4_moe_lite youtu minicpm3 solar_open exaone_moe mellum persimmon modernbert bamba "
     "granitemoehybrid falcon_h1 qwen3_next qwen3_5_text qwen2_vl_text qwen2_5_vl_text "
     "qwen3_vl_text qwen3_vl_moe_text lfm2 lfm2_moe"},
    {"rope_pct", Kind::number, ""},
    {"rope_scaling", Kind::object, ""},
    {"rope_theta", Kind::number, ""},
    {"rotary", Kind::flag, ""},
    {"rotary_dim", Kind::number, "gptj codegen"},
    {"rotary_emb_base", Kind::number, ""},
    {"rotary_pct", Kind::number, ""},
    {"rotary_scaling_factor", Kind::number, ""},
    {"routed_scaling_factor", Kind::number,
     "deepseek_v2 deepseek_v3 glm4_moe dots1 glm4_moe_lite solar_open exaone_moe lfm2_moe"},
    {"scale_attention_softmax_in_fp32", Kind::flag, "gpt_bigcode"},
    {"scale_attn_by_inverse_layer_idx", Kind::flag, "gpt2"},
    {"scale_attn_weights", Kind::flag, "gpt2 gpt_bigcode"},
    {"scale_decoder_outputs", Kind::flag, "t5 umt5"},
    {"scale_depth", Kind::number, "minicpm3"},
    {"scale_emb", Kind::number, "minicpm3"},
    {"scale_embedding", Kind::flag, "whisper"},
    {"scoring_func", Kind::word, ""},
    {"seq_aux", Kind::flag, ""},
    {"seq_classif_dropout", Kind::share, "distilbert"},
    {"sinusoidal_pos_embds", Kind::flag, "distilbert"},
    {"sliding_window", Kind::number,
     "mistral qwen2 qwen3 gemma2 gemma3_text phi3 cohere2 starcoder2 mixtral qwen2_moe qwen3_moe "
     "gpt_oss ministral ministral3 olmo3 exaone4 phimoe dots1 vaultgemma exaone_moe mellum "
     "qwen2_vl_text qwen2_5_vl_text qwen3_vl_moe_text"},
    {"slow_but_exact", Kind::flag, "bloom"},
    {"sparse_prediction", Kind::flag, "modernbert"},
    {"ssm_in_multiplier", Kind::number, "falcon_h1"},
    {"ssm_multipliers", Kind::numbers, "falcon_h1"},
    {"ssm_out_multiplier", Kind::number, "falcon_h1"},
    {"stage_names", Kind::list, "dinov2"},
    {"summary_last_dropout", Kind::share, ""},
    {"suppress_tokens", Kind::list, "whisper"},
    {"swiglu_alpha", Kind::number, "gpt_oss"},
    {"swiglu_limit", Kind::number, "gpt_oss"},
    {"tdnn_dilation", Kind::list, "wav2vec2"},
    {"tdnn_dim", Kind::list, "wav2vec2"},
    {"tdnn_kernel", Kind::list, "wav2vec2"},
    {"time_step_floor", Kind::number, "mamba falcon_mamba mamba2"},
    {"time_step_init_scheme", Kind::word, "mamba falcon_mamba"},
    {"time_step_limit", Kind::numbers, "mamba2 bamba granitemoehybrid falcon_h1"},
    {"time_step_max", Kind::number, "mamba falcon_mamba mamba2"},
    {"time_step_min", Kind::number, "mamba falcon_mamba mamba2"},
    {"time_step_rank", Kind::scalar, "mamba2"},
    {"time_step_scale", Kind::number, "mamba falcon_mamba"},
    {"topk_group", Kind::number,
     "deepseek_v2 deepseek_v3 glm4_moe dots1 glm4_moe_lite solar_open exaone_moe"},
    {"topk_method", Kind::word, "deepseek_v2"},
    {"type_vocab_size", Kind::number, "bert roberta xlm-roberta camembert data2vec-text"},
    {"use_associative_scan", Kind::flag, "mamba falcon_mamba jamba"},
    {"use_bidirectional_attention", Kind::scalar, "gemma gemma2 gemma3_text"},
    {"use_expert_bias", Kind::flag, "lfm2_moe"},
    {"use_mamba_kernels", Kind::flag, "jamba"},
    {"use_mambapy", Kind::flag, "mamba falcon_mamba jamba"},
    {"use_sliding_window", Kind::flag,
     "qwen2 qwen3 qwen2_moe qwen3_moe qwen2_vl_text qwen2_5_vl_text"},
    {"use_weighted_layer_sum", Kind::flag, "whisper"},
    {"word_embed_proj_dim", Kind::number, "opt"},
    {"xvector_output_dim", Kind::number, "wav2vec2"},
    {"z_loss_coefficient", Kind::number, "bamba"},
};

// Families whose keys are those of another but for what they lack, and whose rows above are what
// they have besides.
struct SameKeys {
  std::string_view model_type, as;
  std::string_view lacks = {};
};
constexpr SameKeys same_keys[] = {
    {"axk1", "deepseek_v3", "num_mtp_layers num_nextn_predict_layers"},
    {"bigbird_pegasus", "pegasus"},
    {"bitnet", "llama"},
    {"cwm", "mistral"},
    {"deepseek_v32", "deepseek_v3", "num_mtp_layers num_nextn_predict_layers rope_interleave"},
    {"ernie", "bert"},
    {"flint", "qwen3_moe", "use_sliding_window"},
    {"glm4v_moe_text", "glm4_moe", "num_nextn_predict_layers"},
    {"glm4v_text", "glm4"},
    {"glm_moe_dsa", "deepseek_v3", "num_mtp_layers num_nextn_predict_layers rope_interleave"},
    {"granite_swa", "granite"},
    {"granitemoe_swa", "granitemoe"},
    {"granitemoeshared", "granitemoe"},
    {"hy_v3", "qwen3_moe", "norm_topk_prob sliding_window use_sliding_window"},
    {"hyperclovax", "granite"},
    {"iquestcoder", "llama"},
    {"kolibri1", "qwen3_moe", "use_sliding_window"},
    {"layoutlm", "bert"},
    {"led", "bart"},
    {"longformer", "roberta"},
    {"megatron-bert", "bert"},
    {"minimax", "mixtral"},
    {"nemotron_h", "bamba", "hidden_act rms_norm_eps rope_parameters z_loss_coefficient"},
    {"olmo_hybrid", "qwen3_5_text"},
    {"pegasus_x", "pegasus"},
    {"qwen3_5_moe_text", "qwen3_5_text"},
    {"roberta-prelayernorm", "roberta"},
    {"sarvam_mla", "deepseek_v3"},
    {"sarvam_moe", "glm4_moe"},
    {"xlm-roberta-xl", "roberta"},
};

constexpr std::string_view known_activations[] = {"gelu",
                                                  "gelu_10",
                                                  "gelu_fast",
                                                  "gelu_new",
                                                  "gelu_python",
                                                  "gelu_accurate",
                                                  "gelu_pytorch_tanh",
                                                  "gelu_python_tanh",
                                                  "laplace",
                                                  "leaky_relu",
                                                  "linear",
                                                  "mish",
                                                  "quick_gelu",
                                                  "relu",
                                                  "relu2",
                                                  "relu6",
                                                  "sigmoid",
                                                  "silu",
                                                  "swish",
                                                  "tanh",
                                                  "prelu",
                                                  "xielu",
                                                  "softplus"};

// Words that a class takes beside numbers.
bool in_words(const NumberKey& key, const nlohmann::json& value) {
  return (key.name == "logit_scale" && value == "inv_sqrt_d_model") ||
         (key.name == "use_bidirectional_attention" && (value == "all" || value == "vision")) ||
         (key.name == "time_step_rank" && value == "auto");
}

}  // namespace

const NumberKey* number_key(std::string_view name) {
  const auto* const found = std::find_if(std::begin(number_keys), std::end(number_keys),
                                         [&](const NumberKey& key) { return key.name == name; });
  return found == std::end(number_keys) ? nullptr : found;
}

bool belongs_to(const NumberKey& key, std::string_view model_type) {
  if (key.families.empty() || lists(key.families, model_type)) return true;
  const auto* const kin =
      std::find_if(std::begin(same_keys), std::end(same_keys),
                   [&](const SameKeys& pair) { return pair.model_type == model_type; });
  if (kin == std::end(same_keys) || lists(kin->lacks, key.name)) return false;
  return belongs_to(key, kin->as);
}

bool is_activation(std::string_view name) {
  return std::find(std::begin(known_activations), std::end(known_activations), name) !=
         std::end(known_activations);
}

const char* wrong_form(const NumberKey& key, const nlohmann::json& value) {
  const bool number = value.is_number() && value.get<double>() >= 0;
  const bool word = value.is_string() && !value.get<std::string>().empty();
  switch (key.kind) {
    case Kind::flag: return value.is_boolean() ? nullptr : "must be true or false";
    case Kind::number: return number ? nullptr : "must be a number that is not negative";
    case Kind::positive:
      return number && value.get<double>() > 0 ? nullptr : "must be a number above 0";
    case Kind::share:
      return number && value.get<double>() <= 1 ? nullptr : "must be a number from 0 to 1";
    case Kind::activation:
      return word && is_activation(value.get<std::string>())
                 ? nullptr
                 : "must be an activation of transformers, such as \"gelu\"";
    case Kind::word: return word ? nullptr : "must be a name";
    case Kind::scalar:
      return number || value.is_boolean() || in_words(key, value)
                 ? nullptr
                 : "must be a number that is not negative, or true or false";
    case Kind::object: return value.is_object() ? nullptr : "must be an object {...}";
    case Kind::list: return value.is_array() ? nullptr : "must be a list";
    case Kind::numbers:
      return value.is_array() && std::all_of(value.begin(), value.end(),
                                             [](const auto& one) { return one.is_number(); })
                 ? nullptr
                 : "must be a list of numbers";
  }
  return nullptr;
}

}  // namespace tessera
