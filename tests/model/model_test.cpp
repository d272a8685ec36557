// SPDX-License-Identifier: Apache-2.0
#include "tessera/model.h"

#include <algorithm>
#include <catch2/catch.hpp>

namespace tessera {
namespace {

Model shipped(const std::string& name) {
  auto model = load_model(std::string(TESSERA_SOURCE_DIR) + "/examples/models/" + name + ".json");
  INFO(model.status().message());
  REQUIRE(model.ok());
  return std::move(model).value();
}

Model parsed(const std::string& json) {
  auto model = parse_model(json, "test.json");
  INFO(model.status().message());
  REQUIRE(model.ok());
  return std::move(model).value();
}

std::int64_t count(const std::string& json) { return parsed(json).parameter_count().value; }

const Parameter& named(const Model& model, const std::string& name) {
  const ParameterId id = model.find_parameter(name);
  INFO(name);
  REQUIRE(id.valid());
  return model.parameter(id);
}

using Shape = std::vector<std::int64_t>;

TEST_CASE("parameter counts equal the published ones to the unit", "[model]") {
  CHECK(shipped("llama-3-8b").parameter_count() == Numel{8'030'261'248});
  CHECK(shipped("llama-3-70b").parameter_count() == Numel{70'553'706'496});
  CHECK(shipped("llama-3.1-405b").parameter_count() == Numel{405'853'388'800});
  CHECK(shipped("gpt2").parameter_count() == Numel{124'439'808});
  CHECK(shipped("mistral-7b").parameter_count() == Numel{7'241'732'096});
  CHECK(shipped("mixtral-8x7b").parameter_count() == Numel{46'702'792'704});
  CHECK(shipped("qwen2-7b").parameter_count() == Numel{7'615'616'512});
}

TEST_CASE("other published models count right too", "[model]") {
  const std::string gpt2 = R"({"architectures":["GPT2LMHeadModel"],)";
  CHECK(count(gpt2 + R"("n_embd":1024,"n_layer":24,"n_head":16})") == 354'823'168);
  CHECK(count(gpt2 + R"("n_embd":1280,"n_layer":36,"n_head":20})") == 774'030'080);
  CHECK(count(gpt2 + R"("n_embd":1600,"n_layer":48,"n_head":25})") == 1'557'611'200);
  CHECK(count(R"({"architectures":["LlamaForCausalLM"]})") == 6'738'415'616);  // Llama-2-7b
  CHECK(count(R"({"architectures":["LlamaForCausalLM"],"vocab_size":128256,"hidden_size":2048,
      "intermediate_size":8192,"num_hidden_layers":16,"num_attention_heads":32,
      "num_key_value_heads":8,"head_dim":64,"tie_word_embeddings":true})") == 1'235'814'400);
  CHECK(count(R"({"architectures":["Qwen2ForCausalLM"],"vocab_size":151936,"hidden_size":896,
      "intermediate_size":4864,"num_hidden_layers":24,"num_attention_heads":14,
      "num_key_value_heads":2,"tie_word_embeddings":true})") == 494'032'768);
  CHECK(count(R"({"architectures":["Qwen2ForCausalLM"],"vocab_size":152064,"hidden_size":8192,
      "intermediate_size":29568,"num_hidden_layers":80,"num_attention_heads":64,
      "num_key_value_heads":8})") == 72'706'203'648);
  CHECK(count(R"({"architectures":["MixtralForCausalLM"],"vocab_size":32768,"hidden_size":6144,
      "intermediate_size":16384,"num_hidden_layers":56,"num_attention_heads":48,
      "num_key_value_heads":8})") == 140'630'071'296);  // 8x22B with the v0.3 vocabulary
  CHECK(count(R"({"architectures":["MistralForCausalLM"],"vocab_size":131072,"hidden_size":5120,
      "intermediate_size":14336,"num_hidden_layers":40,"num_attention_heads":32,"head_dim":128,
      "num_key_value_heads":8})") == 12'247'782'400);   // Nemo: head_dim is not hidden / heads
}

TEST_CASE("parameters are named, shaped and ordered as in the checkpoints", "[model]") {
  const Model llama = shipped("llama-3-8b");
  CHECK(named(llama, "model.embed_tokens.weight").shape == Shape{128256, 4096});
  CHECK(named(llama, "model.layers.31.self_attn.k_proj.weight").shape == Shape{1024, 4096});
  CHECK(named(llama, "model.layers.0.mlp.down_proj.weight").shape == Shape{4096, 14336});
  CHECK(named(llama, "lm_head.weight").dtype == DType::bfloat16);
  CHECK(llama.parameters.size() == 291);
  CHECK(llama.parameters[1].name == "model.layers.0.self_attn.q_proj.weight");
  CHECK(llama.parameters[8].name == "model.layers.0.input_layernorm.weight");

  const Model gpt2 = shipped("gpt2");
  CHECK(gpt2.parameters.size() == 148);
  CHECK(named(gpt2, "h.0.attn.c_attn.weight").shape == Shape{768, 2304});
  CHECK(named(gpt2, "h.11.mlp.c_proj.bias").shape == Shape{768});
  CHECK(named(gpt2, "wpe.weight").shape == Shape{1024, 768});
  CHECK(gpt2.find_parameter("lm_head.weight") == gpt2.find_parameter("wte.weight"));
  CHECK(gpt2.dtype == DType::float32);

  const Model mixtral = shipped("mixtral-8x7b");
  CHECK(named(mixtral, "model.layers.3.block_sparse_moe.experts.7.w2.weight").shape ==
        Shape{4096, 14336});
  CHECK(named(mixtral, "model.layers.3.block_sparse_moe.gate.weight").shape == Shape{8, 4096});
  CHECK(named(shipped("qwen2-7b"), "model.layers.0.self_attn.q_proj.bias").shape == Shape{3584});
}

TEST_CASE("modules run in the order of the model's forward", "[model]") {
  const Model llama = shipped("llama-3-8b");
  std::vector<std::string> paths;
  for (ModuleId id : llama.forward) paths.push_back(llama.module(id).path);
  REQUIRE(paths.size() == 1 + 32 * 4 + 2);
  CHECK(paths[0] == "model.embed_tokens");
  CHECK(paths[1] == "model.layers.0.input_layernorm");
  CHECK(paths[2] == "model.layers.0.self_attn");
  CHECK(paths[3] == "model.layers.0.post_attention_layernorm");
  CHECK(paths[4] == "model.layers.0.mlp");
  CHECK(paths.back() == "lm_head");
  CHECK(std::count_if(llama.modules.begin(), llama.modules.end(),
                      [](const Module& m) { return m.is_block; }) == 32);
}

TEST_CASE("model FLOPs follow the convention of PaLM", "[model][cost]") {
  const Model llama = shipped("llama-3-8b");
  const double s = 8192;
  // 6 per matmul parameter and token (embedding and norms are none), and attention.
  const double matmul = 8'030'261'248.0 - 128256.0 * 4096 - 65 * 4096.0;
  const double expected = s * (6 * matmul + 12.0 * 32 * 32 * 128 * s);
  CHECK(flops_per_sample(llama, 8192) == Approx(expected).epsilon(1e-12));
  const Model mixtral = shipped("mixtral-8x7b");
  CHECK(flops_per_sample(mixtral, 1) < 6 * 13.0e9);  // 2 of 8 experts work
  CHECK(flops_per_sample(mixtral, 1) > 6 * 12.0e9);
}

TEST_CASE("activations equal the sum of what is kept, tensor by tensor", "[model][cost]") {
  const Model model = parsed(R"({"architectures":["LlamaForCausalLM"],"vocab_size":100,
      "hidden_size":8,"intermediate_size":20,"num_hidden_layers":3,"num_attention_heads":2,
      "num_key_value_heads":1})");
  // Per token: norm input 2h + 4; attention input 2h, q 2h, k and v 2 * 2 * h / 2, output 2h,
  // log-sum-exp 4 heads; MLP input 2h, four tensors of width f.
  const std::int64_t block = 2 * (16 + 4) + (16 + 16 + 16 + 16 + 8) + (16 + 8 * 20);
  const std::int64_t rest = 8 + (16 + 4) + (16 + 600);
  constexpr auto none = ActivationCheckpointing::none;
  constexpr auto full = ActivationCheckpointing::full;
  CHECK(activation_bytes_per_sample(model, 7, none) == Bytes{7 * (3 * block + rest)});
  CHECK(activation_bytes_per_sample(model, 7, full) == Bytes{7 * (3 * 16 + rest)});
}

TEST_CASE("a module tree keeps order, repeats, ties and costs", "[model][tree]") {
  const Model tiny = shipped("tiny");
  CHECK(tiny.parameter_count() == Numel{1 + 20 + 20});
  CHECK(tiny.find_parameter("out.weight") == tiny.find_parameter("a.weight"));
  REQUIRE(tiny.forward.size() == 4);
  CHECK(tiny.forward[0] == tiny.forward[2]);
  CHECK(tiny.module(tiny.find_module("b")).is_block);
  CHECK(tiny.module(tiny.find_module("a")).cost.matmul_flops.at(10) == 320);
  CHECK(tiny.module(tiny.find_module("b")).cost.matmul_flops.at(10) == 320);

  const Model g3 = shipped("g3");
  CHECK(g3.parameters.size() == 10);
  CHECK(named(g3, "L1.weight").shape == Shape{7, 5});
}

TEST_CASE("a module tree says which classes derive from which", "[model][tree]") {
  const Model model = parsed(
      R"({"tessera_model": 1, "name": "x", "class_bases": {"MyNet": ["Net", "Base"]},
          "root": {"class": "MyNet"}})");
  for (const char* name : {"MyNet", "Net", "Base"}) CHECK(model.is_a(model.modules[0], name));
  CHECK_FALSE(model.is_a(model.modules[0], "Ne"));
}

TEST_CASE("the format's own example is a model", "[model][tree]") {
  const Model model = parsed(
      R"({"tessera_model":1,"name":"g3","dtype":"float32","root":{"class":"Net","parameters":
      [{"name":"w","shape":[4,5],"requires_grad":true}],"modules":[{"name":"a","class":"Linear",
      "parameters":[{"name":"w","shape":[2,2]}]},{"name":"b","class":"Linear","parameters":
      [{"name":"w","shape":[2,2],"requires_grad":false}]}]},"forward":["a","b","a"],
      "input_requires_grad":true})");
  CHECK(model.parameter_count() == Numel{28});
  CHECK(model.input_requires_grad);
  CHECK_FALSE(named(model, "b.w").requires_grad);
  CHECK(named(model, "w").module == ModuleId{0});
}

TEST_CASE("what only real numbers need is read, too", "[model]") {
  const Model llama = parsed(R"({"architectures": ["LlamaForCausalLM"], "rms_norm_eps": 1e-5,
      "num_attention_heads": 8, "num_key_value_heads": 2, "head_dim": 16, "rope_theta": 500000.0,
      "rope_scaling": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0,
      "high_freq_factor": 4.0, "original_max_position_embeddings": 4096}})");
  CHECK(llama.norm_epsilon == 1e-5);
  CHECK(llama.key_value_heads == 2);
  CHECK(llama.head_dim == 16);
  CHECK(llama.rotary.theta == 500000);
  CHECK(llama.rotary.factor == 8);
  CHECK(llama.rotary.original_positions == 4096);
  CHECK(llama.rotary.known);

  const Model newer = parsed(R"({"model_type": "qwen2", "rope_parameters": {"rope_theta": 1000000.0,
      "rope_type": "default"}})");
  CHECK(newer.norm_epsilon == 1e-6);
  CHECK(newer.rotary.theta == 1000000);
  CHECK(newer.rotary.factor == 1);

  const Model yarn = parsed(R"({"model_type": "llama", "rope_scaling": {"rope_type": "yarn",
      "factor": 4, "beta_fast": 16}})");
  CHECK(yarn.rotary.stretch == RotaryStretch::yarn);
  CHECK(yarn.rotary.beta_fast == 16);
  CHECK(yarn.rotary.original_positions == 2048);
  const Model longer =
      parsed(R"({"model_type": "llama", "rope_scaling": {"rope_type": "longrope"}})");
  CHECK_FALSE(longer.rotary.known);
  CHECK(longer.mathematics.refused.size() == 1);
  CHECK(parsed(R"({"model_type": "gpt2", "layer_norm_epsilon": 1e-6})").norm_epsilon == 1e-6);

  CHECK(shipped("mistral-7b").sliding_window == 4096);
  CHECK(parsed(R"({"model_type": "mistral"})").sliding_window == 4096);
  CHECK(parsed(R"({"model_type": "mistral", "sliding_window": null})").sliding_window == 0);
  CHECK(parsed(R"({"model_type": "qwen2", "sliding_window": 64})").sliding_window == 0);
  CHECK(parsed(R"({"model_type": "qwen2", "use_sliding_window": true, "sliding_window": 64})")
            .sliding_window == 64);
  CHECK(parsed(R"({"model_type": "llama", "sliding_window": 64})").sliding_window == 0);

  const Model warned = parsed(R"({"model_type": "gpt2", "resid_pdrop": 0.1, "attn_pdrop": 0,
      "activation_function": "relu", "scale_attn_weights": false, "far_away": 3, "n_ctx": 8})");
  CHECK(warned.mathematics.activation == Activation::relu);
  CHECK_FALSE(warned.mathematics.scores_scaled);
  CHECK(warned.mathematics.residual_dropout == 0.1F);
  CHECK(warned.mathematics.embedding_dropout == 0);
  CHECK(parsed(R"({"model_type": "qwen2", "attention_dropout": 1})").mathematics.refused.front() ==
        "attention_dropout is 1, computed is dropout from 0 to below 1");
  CHECK(warned.warnings ==
        std::vector<std::string>{"keys that mean nothing to gpt2 here are ignored: far_away"});
  CHECK(parsed(R"({"model_type": "qwen2", "num_hidden_layers": 3, "use_sliding_window": true,
      "max_window_layers": 1})")
            .mathematics.full_attention == std::vector<bool>{true, false, false});

  for (const char* bad : {R"({"model_type": "mistral", "sliding_window": "far"})",
                          R"({"model_type": "gpt2", "layer_norm_epsilon": -1})",
                          R"({"model_type": "llama", "rope_theta": "many"})",
                          R"({"model_type": "llama", "rope_scaling": 4})",
                          R"({"model_type": "gpt2", "scale_attn_weights": 1})",
                          R"({"model_type": "qwen2", "layer_types": ["full_attention"]})"}) {
    CHECK(parse_model(bad, "config.json").status().code() == Code::invalid_argument);
  }
}

}  // namespace
}  // namespace tessera
