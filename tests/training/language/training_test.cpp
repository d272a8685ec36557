// SPDX-License-Identifier: Apache-2.0
// Training through engines: the same bits from every scheme, backend and way of checkpointing, and
// exactly the memory that a simulation says.
#include <catch2/catch.hpp>
#include <map>

#include "tessera/real_model.h"
#include "tests/backends/host/thread_ranks.h"
#include "tests/training/language/language_run.h"

namespace tessera {
namespace {

using test::language_schemes;
using test::run_of_eight_blocks;
using test::simulated;
using Run = test::LanguageRun;
using Trained = test::TrainedLanguage;

constexpr Rank ranks = 4;
constexpr std::uint64_t seed = test::language_seed;

void check_falls(const std::vector<float>& losses) {
  REQUIRE(losses.size() == 3);
  for (float loss : losses) CHECK((loss > 1 && loss < 5));
}

}  // namespace

TEST_CASE("all schemes give the same losses, to the bit", "[language]") {
  for (const bool llama : {false, true}) {
    Run run{.model = llama ? test::small_qwen2() : test::small_gpt2(), .scheme = {}};
    run.accumulation = 1;  // several are added up before or after they are reduced
    std::map<Rank, std::vector<float>> first;
    for (const auto& [name, scheme] : language_schemes(llama ? "model.layers." : "h.")) {
      run.scheme = scheme;
      const Trained trained = simulated(run);
      INFO(name);
      check_falls(trained.losses.at(0));
      if (first.empty()) first = trained.losses;
      CHECK(trained.losses == first);
    }
  }
}

TEST_CASE("checkpointed blocks train as if they were kept", "[language]") {
  for (const DType dtype : {DType::float32, DType::bfloat16, DType::float16}) {
    for (const auto& [name, scheme] : language_schemes("h.")) {
      Run run{.model = test::dropping_gpt2(), .scheme = scheme};
      run.options.dtype = dtype;
      const Trained kept = simulated(run);
      run.options.checkpointing = ActivationCheckpointing::full;
      const Trained again = simulated(run);
      INFO(name);
      CHECK(kept.losses == again.losses);
      CHECK(kept.shards == again.shards);
    }
  }
}

TEST_CASE("families whose blocks differ train alike in every scheme, checkpointed or not",
          "[language]") {
  for (auto* const make : {test::small_gemma3, test::small_gemma2, test::small_olmo2,
                           test::small_phi3, test::small_neox, test::small_smollm3}) {
    const Model model = make();
    const std::string blocks =
        model.modules[0].class_name == "GPTNeoXForCausalLM" ? "gpt_neox.layers." : "model.layers.";
    INFO(model.modules[0].class_name);
    for (const DType dtype : {DType::float32, DType::bfloat16}) {
      std::map<Rank, std::vector<float>> first;
      for (const auto& [name, scheme] : language_schemes(blocks)) {
        Run run{.model = model, .scheme = scheme};
        run.accumulation = 1;
        run.options.dtype = dtype;
        const Trained kept = simulated(run);
        run.options.checkpointing = ActivationCheckpointing::full;
        const Trained again = simulated(run);
        INFO(name);
        check_falls(kept.losses.at(0));
        CHECK(kept.losses == again.losses);
        CHECK(kept.shards == again.shards);
        if (first.empty()) first = kept.losses;
        CHECK(kept.losses == first);
      }
    }
  }
}

TEST_CASE("real ranks compute and reserve what the simulation says", "[language]") {
  for (const bool llama : {false, true}) {
    for (const auto& [name, scheme] : language_schemes(llama ? "model.layers." : "h.")) {
      Run run{.model = llama ? test::small_llama() : test::dropping_gpt2(), .scheme = scheme};
      if (llama) run.options.checkpointing = ActivationCheckpointing::full;
      Bytes peak{};
      const Trained expected = simulated(run, &peak);
      std::vector<Trained> own(ranks);
      std::vector<Bytes> peaks(ranks);
      const auto statuses =
          test::on_threads(ranks, {}, [&](ProcessRuntime& runtime, Rank rank) -> Status {
            const auto r = static_cast<std::size_t>(rank);
            const Status done = train(
                runtime, run, [&] { return runtime.poll(); }, [&] { return runtime.finish(); },
                own[r]);
            peaks[r] = runtime.peak_reserved();
            return done;
          });
      INFO(name);
      test::require_all_ok(statuses);
      Bytes most{};
      for (Rank rank = 0; rank < ranks; ++rank) {
        const auto r = static_cast<std::size_t>(rank);
        CHECK(own[r].losses.at(rank) == expected.losses.at(rank));
        CHECK(own[r].shards.at(rank) == expected.shards.at(rank));
        most = std::max(most, peaks[r]);
      }
      CHECK(most == peak);
    }
  }
}

TEST_CASE("checkpointing needs less memory", "[language]") {
  Run run = run_of_eight_blocks();
  Bytes kept{};
  Bytes again{};
  simulated(run, &kept, 1);
  run.options.checkpointing = ActivationCheckpointing::full;
  simulated(run, &again, 1);
  CHECK(again < kept - Bytes{2 << 20});
}

TEST_CASE("evaluation keeps nothing and finds what training finds", "[language]") {
  Run run = run_of_eight_blocks();
  Bytes training{};
  Bytes evaluation{};
  const Trained trained = simulated(run, &training, 1);
  run.passes = {{.kind = TrainingPass::Kind::evaluate, .graph = {}}};
  const Trained evaluated = simulated(run, &evaluation, 1);
  CHECK(evaluated.losses.at(0).size() == 3);
  CHECK(evaluated.losses.at(0).front() == trained.losses.at(0).front());
  CHECK(evaluation < training - Bytes{4 << 20});
}

TEST_CASE("what is dropped follows from seed, step and sequence, and evaluation drops nothing",
          "[language]") {
  Run run{.model = test::dropping_gpt2(), .scheme = ReplicateOptions{}};
  run.accumulation = 1;
  const auto all = simulated(run, nullptr, 2).losses;
  Run plain = run;
  plain.model = test::small_gpt2();
  CHECK(simulated(plain, nullptr, 2).losses.at(0) != all.at(0));
  CHECK(all.at(0) == simulated(run, nullptr, 2).losses.at(0));
  run.passes = plain.passes = {{.kind = TrainingPass::Kind::evaluate, .graph = {}}};
  CHECK(simulated(run).losses == simulated(plain).losses);
}

TEST_CASE("GPT-2 is that of RealModel", "[language]") {
  Run run{.model = test::small_gpt2(), .scheme = FullyShardOptions{.units = {"h.0"}}};
  const Trained trained = simulated(run);
  const test::TestCosts costs;
  auto simulator =
      sim::LockstepRuntime::create({.world_size = ranks, .cost = &costs, .numerics = true});
  REQUIRE(simulator.ok());
  Runtime& runtime = **simulator;
  auto engine = make_engine(runtime, run.model, run.scheme);
  REQUIRE(engine.ok());
  auto language = LanguageModel::create(run.model, run.options);
  REQUIRE(language.ok());
  REQUIRE((*engine)->initialise(language->initial_values(seed)).ok());
  auto real = RealModel::create(
      run.model, {.batch = 2, .sequence_length = 5, .seed = seed, .world_size = ranks});
  REQUIRE(real.ok());
  const TrainingOptions training{
      .batch = 2, .sequence_length = 5, .accumulation = 2, .body = real->bodies()};
  for (int step = 0; step < run.steps; ++step) {
    REQUIRE(run_training_step(**engine, run.model, training).ok());
    for (Rank r = 0; r < ranks; ++r) {
      for (std::size_t k = 0; k < 2; ++k) {
        const float own = trained.losses.at(r)[static_cast<std::size_t>(2 * step) + k];
        CHECK(own == Approx(real->losses(r)[k]).epsilon(2e-4));
      }
    }
  }
}

TEST_CASE("a key of config.json that is not computed is refused with its value", "[language]") {
  const auto refused = [](const Model& model) {
    const auto made = LanguageModel::create(model, {.threads = 1});
    REQUIRE(!made.ok());
    CHECK(made.status().code() == Code::not_supported);
    return made.status().message();
  };
  const auto has = [](const std::string& text, const std::string& part) {
    INFO(text);
    CHECK(text.find(part) != std::string::npos);
  };
  has(refused(test::small_gpt2_with(R"("activation_function": "mish")")),
      "activation_function is mish, computed are: gelu_new, ");
  has(refused(test::small_llama_with("llama", R"("rope_scaling": {"rope_type": "longrope"})")),
      R"(rope_scaling.rope_type is "longrope", computed are: default, linear, )");
  has(refused(test::small_llama_with(
          "llama", R"("rope_parameters": {"rope_type": "default", "mrope_section": [1]})")),
      "rope_parameters.mrope_section is given, but is not computed");
  const std::string two = R"("rope_scaling": {"type": "linear", "factor": 2.0}, )";
  has(refused(
          test::small_llama_with("llama", two + R"("rope_parameters": {"rope_type": "default"})")),
      "rope_scaling and rope_parameters are both given and differ");
  const std::string alike = R"({"rope_type": "linear", "factor": 2.0, "rope_theta": 100.0})";
  CHECK(LanguageModel::create(
            test::small_llama_with("llama", two + R"("rope_parameters": )" + alike), {.threads = 1})
            .ok());
  has(refused(test::small_llama_with("llama", R"("partial_rotary_factor": 0.5)")),
      "partial_rotary_factor is 0.5, computed are: 1, 1.0");
  has(refused(test::small_llama_with("qwen2", R"("qk_norm": true)")), "qk_norm is true");
  has(refused(test::small_llama_with("qwen2",
                                     R"("layer_types": ["full_attention", "chunked_attention"])")),
      "layer_types[1] is chunked_attention");
  has(refused(test::small_llama_with("llama", R"("quantization_config": {"bits": 4})")),
      "quantization_config is given, but is not computed");
}

TEST_CASE("what cannot be trained is refused with a sentence", "[language]") {
  auto refused = [&](const Model& model, const LanguageModelOptions& options) {
    auto made = LanguageModel::create(model, options);
    REQUIRE(!made.ok());
    return made.status().message();
  };
  const Model mixtral = test::parsed(R"({"architectures": ["MixtralForCausalLM"], "vocab_size": 8,
      "hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2,
      "num_key_value_heads": 1, "num_local_experts": 2})");
  CHECK(refused(mixtral, {.threads = 1}).find("MixtralSparseMoeBlock") != std::string::npos);
  const Model windowed = test::windowed_mistral();
  CHECK(refused(windowed, {.sequence_length = 6, .processor = Processor::gpu, .threads = 1})
            .find("within a window of 5 of 6 tokens does not run on GPUs") != std::string::npos);
  CHECK(LanguageModel::create(windowed,
                              {.sequence_length = 5, .processor = Processor::gpu, .threads = 1})
            .ok());
  CHECK(refused(test::dropping_gpt2(), {.processor = Processor::gpu, .threads = 1})
            .find("has dropout, which is computed on CPUs only") != std::string::npos);
  const Model dynamic =
      test::small_llama_with("llama", R"("rope_scaling": {"rope_type": "dynamic", "factor": 2.0})");
  CHECK(refused(dynamic, {.sequence_length = 97, .threads = 1})
            .find("computed up to max_position_embeddings 96, but sequences have 97 tokens") !=
        std::string::npos);
  CHECK(LanguageModel::create(dynamic, {.sequence_length = 96, .threads = 1}).ok());
  CHECK(refused(test::small_gpt2(), {.sequence_length = 81, .threads = 1})
            .find("80 positions, fewer than the sequence length 81") != std::string::npos);
  CHECK(refused(test::small_gpt2(), {.batch = 0}).find("batch 0") != std::string::npos);
  CHECK(refused(test::small_gpt2(), {.dtype = DType::float64}).find("float64") !=
        std::string::npos);
  CHECK(refused(test::small_gpt2(), {.dtype = DType::float16, .parameters = DType::bfloat16}) ==
        "modules compute in float16, but parameters are bfloat16: choose one of them");
}

}  // namespace tessera
