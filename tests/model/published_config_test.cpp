// SPDX-License-Identifier: Apache-2.0
// What published files say beyond sizes: old names, keys that no class reads, no architectures.
#include <catch2/catch.hpp>
#include <string>

#include "tessera/model.h"
#include "tests/require_ok.h"

namespace tessera {
namespace {

std::string joined(const std::vector<std::string>& lines) {
  std::string out;
  for (const std::string& line : lines) out += line + "\n";
  return out;
}

std::string refusal(const std::string& text) {
  const auto model = parse_model(text, "config.json");
  INFO(text);
  REQUIRE_FALSE(model.ok());
  return model.status().message();
}

// As Hunyuan-A13B, Nomic Embed, Gemma-7B, GPT-NeoX-20B, Galactica, a BART and T5-11B were
// published.
TEST_CASE("keys of published files that transformers ignores are named, and no mistakes",
          "[model]") {
  CHECK(test::require_value(
            parse_model(R"({"model_type": "gemma", "hidden_activation": null})", "config.json"))
            .warnings.empty());
  for (const auto& [text, key] :
       {std::pair{R"({"model_type": "gpt_neox", "hidden_dropout_prob": 0})", "hidden_dropout_prob"},
        {R"({"model_type": "opt", "learned_embeddings": true})", "learned_embeddings"},
        {R"({"model_type": "hunyuan_v1_moe", "routed_scaling_factor": false})",
         "routed_scaling_factor"},
        {R"({"architectures": ["NomicBertModel"], "activation_function": "swiglu"})",
         "activation_function"},
        {R"({"architectures": ["BartModel"], "decoder_vocab_size": 77})", "decoder_vocab_size"}}) {
    const Model model = test::require_value(parse_model(text, "config.json"));
    INFO(text << joined(model.warnings));
    CHECK(joined(model.warnings).find(key) != std::string::npos);
  }
  CHECK(
      test::require_value(parse_model(R"({"architectures": ["T5WithLMHeadModel"]})", "c"))
          .parameter_count() ==
      test::require_value(parse_model(R"({"architectures": ["T5ForConditionalGeneration"]})", "c"))
          .parameter_count());
  CHECK(refusal(R"({"model_type": "gemma2", "hidden_activation": null})")
            .find("hidden_activation is null") != std::string::npos);
  CHECK(refusal(R"({"model_type": "marian", "decoder_vocab_size": 77})")
            .find("decoder_vocab_size is not vocab_size") != std::string::npos);
}

TEST_CASE("a file without architectures says which head an encoder was given", "[model]") {
  const Model model = test::require_value(parse_model(R"({"model_type": "bert"})", "config.json"));
  CHECK(joined(model.warnings).find("BertForMaskedLM is built") != std::string::npos);
  CHECK(test::require_value(parse_model(R"({"model_type": "llama"})", "c")).warnings.empty());
  CHECK(refusal(R"({"hidden_size": 128})").find("and so is model_type") != std::string::npos);
}

TEST_CASE("heads that do not divide the width are rounded down where transformers does so",
          "[model]") {
  const auto text = [](const std::string& type) {
    return R"({"model_type": ")" + type +
           R"(", "hidden_size": 100, "num_attention_heads": 8, "num_key_value_heads": 2})";
  };
  const Model model = test::require_value(parse_model(text("qwen2"), "config.json"));
  CHECK(model.head_dim == 12);
  for (const char* type : {"llama", "stablelm", "gpt_neox"}) {
    CHECK(refusal(text(type)).find("is not a multiple of") != std::string::npos);
  }
}

TEST_CASE("mistakes in objects inside of a config.json are refused", "[model][errors]") {
  for (const auto& [text, part] :
       {std::pair{R"({"model_type": "mpt", "attn_config": {"alibbi": true}})",
                  R"(unknown key "alibbi", did you mean "alibi"?)"},
        {R"({"model_type": "mpt", "attn_config": {"attn_pdrop": "x"}})", "attn_pdrop must be"},
        {R"({"model_type": "mpt", "attn_config": 1})", "must be an object"},
        {R"({"model_type": "dbrx", "attn_config": {"kv_n_heads": 3}})", "does not divide"},
        {R"({"model_type": "dbrx", "ffn_config": {"moe_num_expert": 16}})", "moe_num_experts"},
        {R"({"model_type": "dbrx", "ffn_config": {"moe_top_k": 9}})", "is more than"},
        {R"({"model_type": "dbrx", "tie_word_embeddings": true})", "never ties"},
        {R"({"model_type": "hunyuan_v1_moe", "moe_topk": [1, 2]})", "32 times the same"},
        {R"({"model_type": "deberta", "relative_attention": true,
            "max_relative_positions": 8})",
         "less than max_position_embeddings"},
        {R"({"model_type": "nomic_bert", "tie_word_embeddings": false})", "embedding alone"}}) {
    INFO(text);
    CHECK(refusal(text).find(part) != std::string::npos);
  }
}

}  // namespace
}  // namespace tessera
