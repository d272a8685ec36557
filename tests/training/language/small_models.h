// SPDX-License-Identifier: Apache-2.0
// Published architectures in sizes that a test can afford.
#pragma once

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

}  // namespace tessera::test
