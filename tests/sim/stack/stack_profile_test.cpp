// SPDX-License-Identifier: Apache-2.0
#include "tessera/sim/stack_profile.h"

#include <catch2/catch.hpp>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tessera/sim/cluster.h"
#include "tessera/sim/simulate.h"

namespace tessera::sim {
namespace {

Result<StackProfile> profile_of(const std::string& text) {
  const std::string path = TESSERA_BINARY_DIR "/tests/stack_profile_test.json";
  std::ofstream(path) << text;
  return load_profile(path);
}

const char* const gpt2 = R"({"architectures": ["GPT2LMHeadModel"], "vocab_size": 1000,
  "n_positions": 64, "n_embd": 32, "n_layer": 1, "n_head": 2})";

const ModuleCost& cost_of(const Model& model, const char* path) {
  return model.module(model.find_module(path)).cost;
}

}  // namespace

TEST_CASE("every shipped profile can be read, and says its own name", "[stack]") {
  CHECK(shipped_profile_names().size() >= 4);
  for (const std::string& name : shipped_profile_names()) {
    const auto profile = load_profile(name);
    REQUIRE(profile.ok());
    CHECK(profile->name == name);
    CHECK_FALSE(profile->source.empty());
  }
}

TEST_CASE("a profile file may begin with a shipped one", "[stack]") {
  const auto eager = load_profile("eager");
  const auto mine = profile_of(
      R"({"tessera_profile": 1, "begins_with": "eager", "name": "mine", "loss": "chunked"})");
  REQUIRE(mine.ok());
  CHECK(mine->name == "mine");
  CHECK(mine->loss == StackProfile::Loss::chunked);
  CHECK(mine->elementwise_bytes == eager->elementwise_bytes);
}

TEST_CASE("what a profile says is read again as it was written", "[stack]") {
  const auto first = load_profile("mosaic");
  const auto again = profile_of(to_json(*first));
  REQUIRE(again.ok());
  CHECK(to_json(*again) == to_json(*first));
}

TEST_CASE("a bad profile is refused by key", "[stack]") {
  CHECK(load_profile("no-such-profile").status().message().find("eager") != std::string::npos);
  CHECK(profile_of(R"({"loss": "none"})").status().message().find("loss must be one of eager") !=
        std::string::npos);
  for (const char* version : {"0", "2", "1.5", "null", R"("1")"}) {
    const std::string json = R"({"tessera_profile": )" + std::string(version) + "}";
    CHECK(profile_of(json).status().message().find("tessera_profile must be ") !=
          std::string::npos);
  }
  CHECK(profile_of(R"({"parts": null})").status().message().find("parts must be an object") !=
        std::string::npos);
  CHECK(profile_of(R"({"contention": 2})").status().message().find("contention") !=
        std::string::npos);
  CHECK(profile_of(R"({"begins_with": "mine"})").status().code() == Code::invalid_argument);
}

TEST_CASE("a profile that begins with none says all that a stack costs", "[stack]") {
  CHECK(profile_of("{}").status().message().find("attention is missing: give it, or begin with") !=
        std::string::npos);
  auto eager = nlohmann::json::parse(to_json(*load_profile("eager")));
  eager.erase("host_module_ns");
  CHECK(profile_of(eager.dump()).status().message().find("host_module_ns is missing") !=
        std::string::npos);
  eager["begins_with"] = "eager";
  CHECK(profile_of(eager.dump()).ok());
  // A file's name is better than that of what it has changed.
  CHECK(profile_of(R"({"begins_with": "eager", "kernels": 9})")->name == "stack_profile_test");
}

TEST_CASE("what does nothing in a profile is refused", "[stack]") {
  const auto complaint = [](const std::string& keys, const char* base = "eager") {
    return profile_of(R"({"begins_with": ")" + std::string(base) + R"(", )" + keys + "}")
        .status()
        .message();
  };
  const std::pair<const char*, const char*> idle[] = {
      {R"("between_ns": 50)", "between_ns does nothing without one_thread true"},
      {R"("threads": 4)", "threads does nothing without program train"},
      {R"("score_passes": 4)", "score_passes does nothing without attention unfused"},
      {R"("calibrated_p90": 0.1)", "calibrated_p90 does nothing without calibrated_runs"},
      {R"("calibrated_runs": 3)", "calibrated_p90 is missing"},
      {R"("dropout": 0.1)", "dropout must be a whole number"},
      {R"("name": "")", "name must be a line of text"},
      {R"("name": "a\nb")", "name must be a line of text"},
      {R"("parts": {"mlp": {}})", "parts.mlp says nothing of any phase"}};
  for (const auto& [keys, sentence] : idle) {
    INFO(keys);
    CHECK(complaint(keys).find(sentence) != std::string::npos);
  }
  CHECK(complaint(R"("parts": {"attn": {"forward": {"start_ns": 1, "factor": 2}},
                          "self_attn": {"forward": {"start_ns": 1, "factor": 3}}})")
            .find("forward is there twice: other families call self_attn so") != std::string::npos);
  for (const char* key :
       {R"("loss": "chunked")", R"("saves": "fused")", R"("allocator": "pytorch")",
        R"("optimizer_dtype": "bf16")", R"("attention": "unfused")", R"("autocast": true)",
        R"("contention": 0.5)"}) {
    INFO(key);
    CHECK(complaint(key, "train").find("means nothing to the program of tessera train") !=
          std::string::npos);
  }
}

TEST_CASE("attention that is unfused passes over its scores, whatever the profile", "[stack]") {
  CHECK(load_profile("eager")->score_passes > 0);
}

TEST_CASE("a fused loss keeps no fp32 logits, a chunked one hardly any", "[stack]") {
  const auto model = parse_model(gpt2, "gpt2");
  REQUIRE(model.ok());
  StackProfile profile;
  const double eager = cost_of(adapted(*model, profile), "lm_head").activation_bytes.linear;
  profile.loss = StackProfile::Loss::fused;
  const double fused = cost_of(adapted(*model, profile), "lm_head").activation_bytes.linear;
  profile.loss = StackProfile::Loss::chunked;
  const double chunked = cost_of(adapted(*model, profile), "lm_head").activation_bytes.linear;
  CHECK(eager - fused == 4 * 1000);
  CHECK(fused - chunked == 2 * 1000 - 2 * 1000 / 8);
}

TEST_CASE("fused kernels keep no activation of a gated MLP, compiled ones no normalised input",
          "[stack]") {
  const auto model = parse_model(R"({"architectures": ["LlamaForCausalLM"], "vocab_size": 100,
    "hidden_size": 32, "num_hidden_layers": 1, "intermediate_size": 80, "num_attention_heads": 2,
    "max_position_embeddings": 64})",
                                 "llama");
  REQUIRE(model.ok());
  const auto saved = [&](const char* path, StackProfile::Saves saves, bool fp8 = false) {
    StackProfile profile;
    profile.saves = saves;
    profile.fp8 = fp8;
    return cost_of(adapted(*model, profile), path).activation_bytes.linear;
  };
  using Saves = StackProfile::Saves;
  const char* const mlp = "model.layers.0.mlp";
  CHECK(saved(mlp, Saves::eager) - saved(mlp, Saves::fused) == 2 * 80);
  CHECK(saved(mlp, Saves::eager) - saved(mlp, Saves::compiled) == 2 * 80 + 2 * 32);
  const char* const attention = "model.layers.0.self_attn";
  CHECK(saved(attention, Saves::eager) == saved(attention, Saves::fused));
  CHECK(saved(attention, Saves::eager) - saved(attention, Saves::compiled) == 2 * 32);
  CHECK(saved("lm_head", Saves::eager) == saved("lm_head", Saves::compiled));
  // What is cast to fp8 is kept in a byte: what norms return, and the input of the down projection.
  CHECK(saved(mlp, Saves::fused) - saved(mlp, Saves::fused, true) == 32 + 80);
  CHECK(saved(attention, Saves::fused) - saved(attention, Saves::fused, true) == 32);
  CHECK(saved(mlp, Saves::compiled) == saved(mlp, Saves::compiled, true));
}

TEST_CASE("of fp8 the head is left out, and a GPU that has none refuses it", "[stack]") {
  const auto model = parse_model(gpt2, "gpt2");
  const auto profile =
      profile_of(R"({"begins_with": "eager", "matmul_dtype": "fp8", "optimizer_dtype": "int8"})");
  REQUIRE(profile.ok());
  CHECK(profile->optimizer_dtype == StateType::int8);
  CHECK(to_json(*profile_of(to_json(*profile))) == to_json(*profile));
  const Model cast = adapted(*model, *profile);
  CHECK(cost_of(cast, "h.0.mlp").linears[0].fp8);
  CHECK_FALSE(cost_of(cast, "lm_head").linears[0].fp8);
  SimulateOptions options{.cluster = *load_cluster("dgx-a100", 1), .stack = *profile};
  options.scheme = FullyShardOptions{};
  options.training.sequence_length = 8;
  CHECK(simulate(*model, options).status().message().find("has no fp8") != std::string::npos);
}

TEST_CASE("a profile of a program that is not there is refused", "[stack]") {
  const auto model = parse_model(gpt2, "gpt2");
  const auto profile = load_profile("train");
  REQUIRE(profile.ok());
  CHECK(profile->program == StackProfile::Program::train);
  CHECK(to_json(*profile_of(to_json(*profile))) == to_json(*profile));
  SimulateOptions options{.cluster = *load_cluster("dgx-a100", 1), .stack = *profile};
  options.scheme = FullyShardOptions{};
  options.training.sequence_length = 8;
  CHECK(simulate(*model, options).status().message().find("of the program of tessera train") !=
        std::string::npos);
}

TEST_CASE("without dropout no masks are kept", "[stack]") {
  const auto model = parse_model(gpt2, "gpt2");
  StackProfile profile;
  profile.dropout = false;
  const Model bare = adapted(*model, profile);
  const ModuleCost& without = cost_of(bare, "h.0.mlp");
  const ModuleCost& with = cost_of(*model, "h.0.mlp");
  CHECK(with.activation_bytes.linear - without.activation_bytes.linear == 32);
}

TEST_CASE("a profile's attention must be known of the GPU", "[stack]") {
  const Gpu a100 = load_cluster("dgx-a100", 1)->gpu;
  StackProfile profile;
  profile.attention = "flash3";
  CHECK(attention_of(profile, a100).status().message().find("flash2") != std::string::npos);
  profile.attention = "best";
  CHECK((*attention_of(profile, a100))->name == "flash2");
  profile.attention = "unfused";
  CHECK(*attention_of(profile, a100) == nullptr);
}

}  // namespace tessera::sim
