// SPDX-License-Identifier: Apache-2.0
// Models from config.json are those that transformers builds (tools/architecture_truth.py).
#include <fmt/format.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "tessera/model.h"
#include "tests/require_ok.h"

namespace tessera {
namespace {

nlohmann::json recorded(const std::string& name = "architectures") {
  std::ifstream file(std::string(TESSERA_SOURCE_DIR) + "/tests/golden/" + name + ".json");
  return nlohmann::json::parse(file)["models"];
}

TEST_CASE("models of published architectures have the parameters that transformers counts",
          "[model]") {
  std::set<std::string> families;
  for (const nlohmann::json& row : recorded()) {
    const std::string text = row["config"].dump();
    INFO(text);
    const auto model = parse_model(text, "config.json");
    INFO(model.status().message());
    REQUIRE(model.ok());
    CHECK(model->parameter_count().value == row["parameters"].get<std::int64_t>());
    const auto type = row["config"]["model_type"].get<std::string>();
    const bool ties_anyway = type.ends_with("t5");         // and says so
    const bool both = type == "clip" || type == "siglip";  // both parts are built
    const bool wrapped = row["config"].contains("text_config") && !both;
    CHECK((model->warnings.empty() != wrapped || ties_anyway));
    if (!wrapped) families.insert(type);
  }
  families.erase("gpt-sw3");  // another name of gpt2's
  const auto says = [&](const char* page, const std::string& words) {
    std::ifstream file(std::string(TESSERA_SOURCE_DIR) + page);
    const std::string text(std::istreambuf_iterator<char>(file), {});
    return text.find(words) != std::string::npos;
  };
  CHECK(says("/README.md", fmt::format("[{} families]", families.size())));
  CHECK(says("/docs/model-format.md", fmt::format("of {} families", families.size())));
  const auto unknown = parse_model(R"({"model_type": "qwertz"})", "config.json");
  const std::string message = unknown.status().message();
  INFO(message);
  CHECK(message.find(fmt::format("the {} families", families.size())) != std::string::npos);
}

TEST_CASE("a norm may add nothing to what it divides by, and less than nothing never",
          "[model][errors]") {
  for (const char* type : {"llama", "gpt2", "bert", "t5", "modernbert", "falcon_mamba"}) {
    for (const char* key : {"rms_norm_eps", "layer_norm_epsilon", "layer_norm_eps", "norm_eps"}) {
      const auto with = [&](const char* value) {
        return parse_model(fmt::format(R"({{"model_type": "{}", "{}": {}}})", type, key, value),
                           "config.json");
      };
      INFO(type << " " << key);
      CHECK(with("0").ok());
      CHECK(with("0.0").ok());
      const auto negative = with("-1e-5");
      CHECK((!negative.ok() || !negative->warnings.empty()));
    }
  }
}

TEST_CASE("what a careless file says beside the model is named, or what the file is",
          "[model][errors]") {
  for (const auto& [text, part] :
       {std::pair{R"({"architectures": ["LlamaModel", "GPT2Model"]})", "names 2 classes"},
        {R"({"model_type": "gemma4_text", "num_hidden_layers": 2,
             "layer_types": ["full_attention", "sliding_attention"]})",
         "the last of layer_types"},
        {R"({"model_type": "clip", "hidden_size": 64})", "hidden_size"}}) {
    INFO(text);
    const Model model = test::require_value(parse_model(text, "config.json"));
    REQUIRE(model.warnings.size() == 1);
    CHECK(model.warnings[0].find(part) != std::string::npos);
  }
  for (const auto& [text, part] :
       {std::pair{R"({"peft_type": "LORA", "r": 8})", "an adapter's configuration"},
        {R"({"weight_map": {}})", "an index of weights"},
        {R"({"zero_optimization": {}})", "--deepspeed"},
        {R"({"model_type": "clip", "text_config": [1]})", "text_config must be an object"},
        {R"({"model_type": "clip", "vision_config": {"hiden_size": 9}})", "did you mean"},
        {R"({"model_type": "clip", "text_config": {"model_type": "bert"}})", "clip_text_model"},
        {R"({"model_type": "siglip", "text_config": {"projection_size": 5}})",
         "projection_size 768"},
        {R"({"model_type": "gemma4_text", "num_kv_shared_layers": 29})", "num_kv_shared_layers"},
        {R"({"model_type": "gemma4_text", "enable_moe_block": true})", "num_experts is missing"},
        {R"({"model_type": "gemma4_text", "per_layer_config": {"30": {}}})", "from 0 to 29"},
        {R"({"model_type": "Llama"})", "did you mean \"llama\"?"},
        {R"({"model_type": "GEMMA2"})", "did you mean \"gemma2\"?"},
        {R"({"architectures": ["LlamaForCausalLm"]})", "did you mean \"LlamaForCausalLM\"?"},
        {R"({"model_type": "vit_mae", "mask_ratio": 1.5})", "from 0 to 1"}}) {
    const auto model = parse_model(text, "config.json");
    INFO(text << "\n" << model.status().message());
    REQUIRE_FALSE(model.ok());
    CHECK(model.status().message().find(part) != std::string::npos);
  }
}

TEST_CASE("latent attention has keys and values for every head, whatever the file says",
          "[model][errors]") {
  const auto with = [](const std::string& key) {
    return test::require_value(parse_model(
        R"({"model_type": "deepseek_v3", "num_attention_heads": 4, "num_hidden_layers": 2)" + key +
            "}",
        "config.json"));
  };
  const Model plain = with("");
  CHECK(plain.warnings.empty());
  CHECK(with(R"(, "num_key_value_heads": 4)").warnings.empty());
  for (const char* heads : {"1", "3"}) {
    const Model other = with(std::string(R"(, "num_key_value_heads": )") + heads);
    REQUIRE(other.warnings.size() == 1);
    CHECK(other.warnings[0].find("num_key_value_heads " + std::string(heads) + " is ignored") == 0);
    CHECK(other.parameter_count() == plain.parameter_count());
    CHECK(activation_bytes_per_sample(other, 1024, ActivationCheckpointing::none) ==
          activation_bytes_per_sample(plain, 1024, ActivationCheckpointing::none));
  }
}

TEST_CASE("a configuration of weights that fit nowhere, or that are not built, is refused",
          "[model][errors]") {
  for (const auto& [text, part] :
       {std::pair{R"({"model_type": "helium", "hidden_size": 1280})",
                  "head_dim 128 times num_attention_heads 20 must be hidden_size 1280"},
        {R"({"model_type": "olmoe", "head_dim": 64})", "must be hidden_size 2048"},
        {R"({"model_type": "llama", "hidden_act": "xielu"})", "hidden_act is xielu, which has"},
        {R"({"model_type": "t5", "feed_forward_proj": "gated-prelu"})", "is gated-prelu, which"},
        {R"({"model_type": "opt", "activation_function": "prelu"})", "trained parameters"},
        {R"({"model_type": "gpt_neo", "num_layers": 4})", "attention_types must be lists"},
        {R"({"model_type": "glm4_moe_lite", "mlp_layer_types": ["dense"]})",
         "must be a list of 47 words"},
        {R"({"model_type": "internlm3", "bias": true})", "must be the same"},
        {R"({"model_type": "phi", "qk_layernorm": true, "head_dim": 32})", "must be hidden_size"},
        {R"({"model_type": "deepseek_v2", "n_shared_experts": 0, "mlp_bias": true})", "a bias"},
        {R"({"model_type": "nemotron_h", "hybrid_override_pattern": "M-x"})", "must be linear_att"},
        {R"({"model_type": "nemotron_h", "num_hidden_layers": 5})", "names 4 blocks"},
        {R"({"model_type": "deepseek_v32", "q_lora_rank": null})", "indexers read such queries"},
        {R"({"model_type": "glm_moe_dsa", "indexer_types": ["full"]})", "must name 78 blocks"},
        {R"({"model_type": "longformer", "attention_window": [512, 256]})", "12 times the same"},
        {R"({"model_type": "mvp", "use_prompt": true})", "prompts are not built"},
        {R"({"model_type": "mpnet", "relative_attention_num_buckets": 16})", "must be 32 to"},
        {R"({"model_type": "deberta-v2", "pos_att_type": ["c2c"]})", "pos_att_type must be"},
        {R"({"model_type": "swin", "num_heads": [3, 6]})", "has 2 numbers, and depths has 4"},
        {R"({"model_type": "swin", "window_size": 8})", "more than the 7 x 7 patches of stage 4"},
        {R"({"model_type": "swin", "hidden_size": 96})", "must be 768"},
        {R"({"model_type": "switch_transformers", "tie_word_embeddings": false})", "one table"},
        {R"({"model_type": "swin", "mlp_ratio": 1e300})", "an MLP of 9.6e+301"},
        {R"({"architectures": ["LlamaForSequenceClassification"], "num_labels": 5,
             "id2label": {"0": "a"}})",
         "is 5, but id2label names 1"},
        {R"({"model_type": "longt5", "encoder_attention_type": "global"})", "must be local or"},
        {R"({"model_type": "t5gemma", "encoder": {"hiden_size": 64}})", "did you mean"},
        {R"({"model_type": "t5gemma", "encoder": {"model_type": "gemma2"}})", "t5_gemma_module"},
        {R"({"model_type": "t5gemma", "decoder": {"dropout_rate": 0.5}})", "dropout_rate decides"},
        {R"({"model_type": "mllama_text_model", "cross_attention_layers": [40]})", "of blocks"}}) {
    const auto model = parse_model(text, "config.json");
    INFO(text << "\n" << model.status().message());
    REQUIRE_FALSE(model.ok());
    CHECK(model.status().message().find(part) != std::string::npos);
  }
}

TEST_CASE("what the configuration classes of transformers refuse is refused, beyond mere types",
          "[model][errors]") {
  for (const auto& [text, part] :
       {std::pair{R"({"model_type": "llama", "hidden_size": null})", "hidden_size is null"},
        {R"({"model_type": "gpt2", "n_embd": null})", "n_embd is null"},
        {R"({"model_type": "qwen3", "hidden_act": null})", "hidden_act is null"},
        {R"({"model_type": "deepseek_v3", "v_head_dim": null})", "v_head_dim is null"},
        {R"({"model_type": "llama", "pad_token_id": "x"})", "must be the number of a token"},
        {R"({"model_type": "llama", "bos_token_id": [1]})", "must be the number of a token"},
        {R"({"model_type": "llama", "vocab_size": 96, "pad_token_id": 96})", "no such token"},
        {R"({"model_type": "llama", "id2label": {"x": 1}})", "must name classes by number"},
        {R"({"model_type": "llama", "num_labels": 0.5})", "num_labels"},
        {R"({"model_type": "llama", "head_dim": 25})", "so it must be even"},
        {R"({"model_type": "deepseek_v3", "qk_rope_head_dim": 9})", "qk_rope_head_dim is 9"},
        {R"({"model_type": "gemma2", "hidden_size": 2303})", "wants whatever head_dim is"},
        {R"({"model_type": "llama4_text", "no_rope_layers": [1]})", "a list of 48 numbers"},
        {R"({"architectures": ["T5EncoderModel"], "is_decoder": true})", "an encoder alone"},
        {R"({"model_type": "mellum", "num_mtp_layers": 2})", "must be 0 or 1"},
        {R"({"architectures": ["NemotronHForTokenClassification"]})", "names NemotronHFor"},
        {R"({"architectures": ["NanoChatForTokenClassification"]})", "names NanoChatFor"}}) {
    const auto model = parse_model(text, "config.json");
    INFO(text << "\n" << model.status().message());
    REQUIRE_FALSE(model.ok());
    CHECK(model.status().message().find(part) != std::string::npos);
  }
  for (const char* text : {R"({"model_type": "llama", "vocab_size": 96, "pad_token_id": -1})",
                           R"({"model_type": "gpt2", "vocab_size": 96, "pad_token_id": 96})",
                           R"({"model_type": "glm4", "head_dim": 25})",
                           R"({"model_type": "gpt_neo", "intermediate_size": null})",
                           R"({"model_type": "qwen3", "eos_token_id": [1, 2]})"}) {
    INFO(text);
    CHECK(parse_model(text, "config.json").ok());
  }
}

TEST_CASE("a decoder that had an encoder keeps its attention to it, and does not run it",
          "[model]") {
  const auto bart = [](const char* head) {
    return test::require_value(parse_model(
        std::string(R"({"model_type": "bart", "architectures": ["BartFor)") + head + R"("]})",
        "config.json"));
  };
  const Model causal = bart("CausalLM");
  const Model both = bart("ConditionalGeneration");
  const ModuleId idle = causal.find_module("model.decoder.layers.0.encoder_attn");
  REQUIRE(idle.valid());
  CHECK(std::count(causal.forward.begin(), causal.forward.end(), idle) == 0);
  CHECK(causal.parameter_count() < both.parameter_count());
  CHECK(causal.find_parameter("lm_head.weight") ==
        causal.find_parameter("model.decoder.embed_tokens.weight"));
}

TEST_CASE("a flag that is null is false, as Python takes it, and a null head_dim follows the heads",
          "[model]") {
  const auto count = [](const char* text) {
    return test::require_value(parse_model(text, "config.json")).parameter_count();
  };
  CHECK(count(R"({"model_type": "falcon", "multi_query": null})") ==
        count(R"({"model_type": "falcon", "multi_query": false})"));
  CHECK(count(R"({"model_type": "ernie4_5", "head_dim": null})") ==
        count(R"({"model_type": "ernie4_5", "head_dim": 64})"));
}

TEST_CASE(
    "models whose attention transformers does not fuse keep its scores, or say what is not "
    "counted",
    "[model][cost]") {
  const auto built = [](const std::string& type, const char* rest = "") {
    return test::require_value(
        parse_model(R"({"model_type": ")" + type + "\"" + rest + "}", "config.json"));
  };
  const auto scores = [](const Model& model) {
    double sum = 0;
    for (const ModuleId id : model.forward) sum += model.module(id).cost.activation_bytes.quadratic;
    return sum;
  };
  const char* const dropped = R"(, "attention_dropout": 0.1)";
  CHECK(scores(built("bloom")) == 2 * 8 * 6);
  CHECK(scores(built("bloom", dropped)) == 2 * 8 * 7);
  CHECK(scores(built("mpt", R"(, "attn_config": {"attn_pdrop": 0.1})")) == 24 * 16 * 7);
  CHECK(scores(built("mpnet")) == 12 * 12 * 5 + 8);
  CHECK(scores(built("llama", dropped)) == 0);
  for (const char* type : {"gpt_oss", "gemma2", "gpt_neo", "flint"}) {
    CHECK(built(type).cost_note.find("MiB per block and sequence") != std::string::npos);
  }
  CHECK(built("t5").cost_note.find("biases of relative positions") != std::string::npos);
  CHECK(test::require_value(parse_model(R"({"model_type": "llama"})", "c")).cost_note.empty());
}

TEST_CASE("what a simulation does not count of images and experts is said", "[model][cost]") {
  const auto note = [](const char* text) {
    return test::require_value(parse_model(text, "config.json")).cost_note;
  };
  CHECK(note(R"({"model_type": "beit"})").empty());
  CHECK(note(R"({"model_type": "beit", "use_relative_position_bias": true})")
            .find("about 0.9 MiB for each block") != std::string::npos);
  CHECK(note(R"({"model_type": "beit", "use_shared_relative_position_bias": true})")
            .find("for all blocks") != std::string::npos);
  CHECK(note(R"({"model_type": "switch_transformers"})").find("expert_capacity 64") !=
        std::string::npos);
}

TEST_CASE("blocks that attend to images are there, and texts pass them by", "[model]") {
  const Model model = test::require_value(
      parse_model(R"({"model_type": "mllama_text_model", "num_hidden_layers": 5})", "c"));
  const ModuleId idle = model.find_module("model.layers.3.cross_attn");
  REQUIRE(idle.valid());
  for (const ModuleId id : model.forward) {
    CHECK_FALSE(model.module(id).path.starts_with("model.layers.3."));
  }
  CHECK(model.cost_note.find("1 of 5 blocks attend to images alone") == 0);
}

TEST_CASE("a window of LED may be listed for each block, as it was published", "[model]") {
  const char* const text = R"({"model_type": "led", "attention_window": [64, 64],
      "encoder_layers": 2})";
  const Model model = test::require_value(parse_model(text, "config.json"));
  const ModuleId attention = model.find_module("led.encoder.layers.0.self_attn");
  REQUIRE(attention.valid());
  CHECK(model.module(attention).cost.attention.window == 32);
}

TEST_CASE("a width of Mamba's state that the file states beats the expanded one", "[model]") {
  const auto count = [](const char* text) {
    return test::require_value(parse_model(text, "config.json")).parameter_count();
  };
  CHECK(count(R"({"model_type": "mamba", "intermediate_size": 1536})") ==
        count(R"({"model_type": "mamba"})"));
  CHECK(count(R"({"model_type": "mamba", "intermediate_size": 768})") ==
        count(R"({"model_type": "mamba", "expand": 1})"));
}

TEST_CASE("a classifier without num_labels has as many labels as its configuration class",
          "[model]") {
  const auto count = [](const std::string& kind, const std::string& type, const char* rest) {
    const std::string text = R"({"model_type": ")" + type + R"(", "architectures": [")" + kind +
                             R"(ForSequenceClassification"])" + rest + "}";
    return test::require_value(parse_model(text, "config.json")).parameter_count();
  };
  CHECK(count("Bart", "bart", "") == count("Bart", "bart", R"(, "num_labels": 3)"));
  CHECK(count("MBart", "mbart", "") == count("MBart", "mbart", R"(, "num_labels": 2)"));
  CHECK(count("PLBart", "plbart", "") == count("PLBart", "plbart", R"(, "num_labels": 2)"));
}

TEST_CASE("their forward FLOPs are those that torch counts", "[model][cost]") {
  for (const nlohmann::json& row : recorded()) {
    if (!row.contains("forward_flops")) continue;
    const std::string text = row["config"].dump();
    INFO(text);
    const auto model = parse_model(text, "config.json");
    REQUIRE(model.ok());
    double flops = 0;
    for (const ModuleId id : model->forward) {
      const ModuleCost& cost = model->module(id).cost;
      const auto tokens = row["tokens"].get<std::int64_t>();
      flops += cost.matmul_flops.at(tokens) + cost.attention_flops.at(tokens);
    }
    CHECK(flops == Approx(row["forward_flops"].get<double>()).epsilon(0.01));
  }
}

TEST_CASE("what their activations take is what torch keeps for backward", "[model][cost]") {
  for (const nlohmann::json& row : recorded("activations")) {
    const std::string text = row["config"].dump();
    INFO(text);
    const auto model = parse_model(text, "config.json");
    REQUIRE(model.ok());
    const Bytes kept = activation_bytes_per_sample(*model, row["tokens"].get<std::int64_t>(),
                                                   ActivationCheckpointing::none);
    const auto measured = row["bytes"].get<double>();
    CHECK(static_cast<double>(kept.value) == Approx(measured).epsilon(0.05));
  }
}

TEST_CASE("attention to a window costs the pairs of tokens in it", "[model][cost]") {
  for (const std::int64_t window : {1, 7, 64, 100, 256, 1000}) {
    for (const bool chunked : {false, true}) {
      constexpr std::int64_t s = 256;
      double pairs = 0;
      for (std::int64_t token = 0; token < s; ++token) {
        const auto before = static_cast<double>(chunked ? token % window : token);
        pairs += std::min(before + 0.5, static_cast<double>(window));
      }
      ModuleCost cost{.attention_flops = {0, 0, 4}};
      cost.attention = {.heads = 1, .window = window, .chunked = chunked};
      INFO(window << (chunked ? " chunked" : " sliding"));
      CHECK(attention_flops(cost, s) == Approx(8 * pairs).epsilon(0.01));
    }
  }
}

}  // namespace
}  // namespace tessera
