// SPDX-License-Identifier: Apache-2.0
// Published architectures in sizes that a test can afford.
#pragma once

#include <string>

#include "tests/parsed_model.h"

namespace tessera::test {

inline Model small_gpt2() {
  return parsed(R"({"architectures": ["GPT2LMHeadModel"], "vocab_size": 19, "n_positions": 80,
    "n_embd": 12, "n_layer": 2, "n_head": 3, "torch_dtype": "float32"})");
}

/// Two query heads share a key head; q, k and v have biases.
inline Model small_qwen2() {
  return parsed(R"({"architectures": ["Qwen2ForCausalLM"], "vocab_size": 17, "hidden_size": 16,
    "intermediate_size": 22, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "max_position_embeddings": 96, "rms_norm_eps": 1e-5,
    "rope_theta": 500.0, "torch_dtype": "float32"})");
}

inline Model small_llama() {
  return parsed(R"({"architectures": ["LlamaForCausalLM"], "vocab_size": 17, "hidden_size": 12,
    "intermediate_size": 20, "num_hidden_layers": 2, "num_attention_heads": 2,
    "num_key_value_heads": 1, "head_dim": 8, "max_position_embeddings": 96,
    "tie_word_embeddings": true, "rope_scaling": {"rope_type": "llama3", "factor": 4.0,
    "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 16},
    "torch_dtype": "float32"})");
}

/// Keys off their defaults, one or two at a time.
inline Model small_gpt2_with(const std::string& keys) {
  return parsed(R"({"architectures": ["GPT2LMHeadModel"], "vocab_size": 19, "n_positions": 80,
    "n_embd": 12, "n_layer": 2, "n_head": 3, )" +
                keys + "}");
}
inline Model small_llama_with(const std::string& model_type, const std::string& keys) {
  return parsed(R"({"model_type": ")" + model_type + R"(", "vocab_size": 17, "hidden_size": 16,
    "intermediate_size": 22, "num_hidden_layers": 2, "num_attention_heads": 2,
    "num_key_value_heads": 1, "max_position_embeddings": 96, )" +
                keys + "}");
}
inline Model exact_gelu() { return small_gpt2_with(R"("activation_function": "gelu")"); }
inline Model dropping_gpt2() {
  return small_gpt2_with(R"("embd_pdrop": 0.1, "attn_pdrop": 0.3, "resid_pdrop": 0.2)");
}
inline Model dropping_qwen2() {
  return small_llama_with("qwen2", R"("attention_dropout": 0.4, "use_sliding_window": true,
      "sliding_window": 6, "max_window_layers": 1)");
}
inline Model relu_unscaled() {
  return small_gpt2_with(R"("activation_function": "relu", "scale_attn_weights": false)");
}
inline Model scaled_by_block() {
  return small_gpt2_with(R"("activation_function": "silu",
      "scale_attn_by_inverse_layer_idx": true)");
}
inline Model windowed_mistral() {
  return small_llama_with("mistral", R"("sliding_window": 5, "hidden_act": "gelu_pytorch_tanh")");
}
inline Model half_windowed_qwen2() {
  return small_llama_with("qwen2", R"("use_sliding_window": true, "sliding_window": 6,
      "max_window_layers": 1, "hidden_act": "relu")");
}
inline Model linear_llama() {
  return small_llama_with("llama", R"("attention_bias": true, "mlp_bias": true,
      "rope_scaling": {"type": "linear", "factor": 3.0}, "hidden_act": "gelu")");
}
inline Model yarn_llama() {
  return small_llama_with("llama", R"("rope_scaling": {"rope_type": "yarn", "factor": 4.0,
      "original_max_position_embeddings": 24}, "head_dim": 32)");
}

/// Norms in front and behind, of queries and keys, too; two rotations, caps, a scaled embedding.
inline Model small_gemma3() {
  return small_llama_with("gemma3_text", R"("head_dim": 6, "query_pre_attn_scalar": 10,
      "sliding_window": 3, "layer_types": ["sliding_attention", "full_attention"],
      "final_logit_softcapping": 3.0)");
}
inline Model small_gemma2() {
  return small_llama_with("gemma2", R"("head_dim": 6, "query_pre_attn_scalar": 10,
      "sliding_window": 3, "attn_logit_softcapping": 1.5, "attention_dropout": 0.2)");
}
/// Norms behind attention and MLP alone.
inline Model small_olmo2() { return small_llama_with("olmo2", R"("rope_theta": 300.0)"); }
/// Matrices of several layers in one, a part of each head rotated.
inline Model small_phi3() {
  return small_llama_with("phi3", R"("partial_rotary_factor": 0.5, "resid_pdrop": 0.2,
      "pad_token_id": 0)");
}
inline Model small_neox() {
  return parsed(R"({"model_type": "gpt_neox", "vocab_size": 17, "hidden_size": 16,
    "intermediate_size": 22, "num_hidden_layers": 2, "num_attention_heads": 2,
    "max_position_embeddings": 96, "rotary_pct": 0.5})");
}
inline Model small_smollm3() {
  return small_llama_with("smollm3", R"("no_rope_layer_interval": 2)");
}

}  // namespace tessera::test
