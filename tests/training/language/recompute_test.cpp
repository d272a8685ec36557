// SPDX-License-Identifier: Apache-2.0
// What backward computes again (LanguageModelOptions::recompute): the same bits as if it had been
// kept, in less memory.
#include <catch2/catch.hpp>
#include <vector>

#include "tests/backends/host/thread_ranks.h"
#include "tests/training/language/language_run.h"

namespace tessera {
namespace {

using test::language_schemes;
using test::run_of_eight_blocks;
using test::simulated;
using Run = test::LanguageRun;
using Trained = test::TrainedLanguage;

const std::vector<Recompute> parts = {{.norm = true},
                                      {.activation = true},
                                      {.ffn = true},
                                      {.qkv = true},
                                      {.attention = true},
                                      {.norm = true, .activation = true, .qkv = true},
                                      {.norm = true, .ffn = true, .attention = true}};

bool repeats_norms(const Run& run) { return run.options.dtype == DType::float32; }

void check_same(Run run) {
  const Trained kept = simulated(run);
  for (const Recompute& what : parts) {
    if (what.norm && !repeats_norms(run)) continue;
    run.options.recompute = what;
    INFO(run.model.modules[0].class_name << ": " << to_text(what));
    const Trained again = simulated(run);
    CHECK(kept.losses == again.losses);
    CHECK(kept.shards == again.shards);
  }
}

// Bytes that a block keeps until backward.
std::int64_t kept_by_block(const Model& model, const Recompute& what) {
  const auto language = LanguageModel::create(
      model, {.batch = 4, .sequence_length = 64, .recompute = what, .threads = 1});
  REQUIRE(language.ok());
  TrainingOptions options;
  language->apply(options);
  std::int64_t sum = 0;
  for (const ModuleId id : model.forward) {
    if (!model.module(id).path.starts_with("h.3.")) continue;
    sum += options.memory(id, ModuleWork::Pass::forward).saves.value;
  }
  return sum;
}

}  // namespace

TEST_CASE("what is computed again has the bits that were not kept", "[language][recompute]") {
  for (auto* const make : {test::small_qwen2, test::small_gemma3, test::small_gemma2,
                           test::small_phi3, test::small_neox, test::dropping_gpt2}) {
    for (const DType dtype : {DType::float32, DType::bfloat16}) {
      Run run{.model = make(), .scheme = FullyShardOptions{}};
      run.steps = 2;
      run.options.dtype = dtype;
      check_same(run);
    }
  }
}

TEST_CASE("what is computed again does not depend on the scheme", "[language][recompute]") {
  for (const auto& [name, scheme] : language_schemes("h.")) {
    INFO(name);
    Run run{.model = test::dropping_gpt2(), .scheme = scheme};
    run.options.recompute = {.norm = true, .ffn = true, .qkv = true};
    const Trained again = simulated(run);
    run.options.recompute = {};
    const Trained kept = simulated(run);
    CHECK(kept.losses == again.losses);
    CHECK(kept.shards == again.shards);
  }
}

TEST_CASE("real ranks that compute again reserve what the simulation says",
          "[language][recompute]") {
  constexpr Rank ranks = 2;
  for (const Recompute& what : parts) {
    Run run{.model = test::small_qwen2(), .scheme = Zero3Options{}};
    run.options.recompute = what;
    INFO(to_text(what));
    Bytes peak{};
    const Trained expected = simulated(run, &peak, ranks);
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
    test::require_all_ok(statuses);
    for (Rank rank = 0; rank < ranks; ++rank) {
      const auto r = static_cast<std::size_t>(rank);
      CHECK(own[r].losses.at(rank) == expected.losses.at(rank));
      CHECK(own[r].shards.at(rank) == expected.shards.at(rank));
    }
    CHECK(std::max(peaks[0], peaks[1]) == peak);
  }
}

TEST_CASE("each block keeps less by what is computed again", "[language][recompute]") {
  const Run run = run_of_eight_blocks();
  const std::int64_t kept = kept_by_block(run.model, {});
  const auto spared = [&](const Recompute& what) { return kept - kept_by_block(run.model, what); };
  constexpr std::int64_t stream = 4 * 64 * 64 * 4;    // bytes of tokens x width in float32
  constexpr std::int64_t norm = stream - 2 * 64 * 4;  // whose weight and bias are kept instead
  constexpr std::int64_t statistics = 2 * 4 * 64 * 4 * 4;
  CHECK(spared({.norm = true}) == 2 * norm);
  CHECK(spared({.activation = true}) == 4 * stream);
  CHECK(spared({.ffn = true}) == norm + 8 * stream);
  CHECK(spared({.qkv = true}) == 3 * stream);
  CHECK(spared({.attention = true}) == norm + 4 * stream + statistics);
  CHECK(spared({true, true, true, true, true}) == 2 * norm + 12 * stream + statistics);
  Run whole = run;
  Bytes peak{}, less{};
  simulated(whole, &peak, 1);
  whole.options.recompute = {.ffn = true, .attention = true};
  simulated(whole, &less, 1);
  CHECK(less < peak - Bytes{4 << 20});
}

TEST_CASE("what cannot be computed again is refused with a sentence", "[language][recompute]") {
  const auto refused = [](const Model& model, LanguageModelOptions options) {
    options.batch = 1;
    options.sequence_length = 4;
    return LanguageModel::create(model, options).status();
  };
  const Recompute norm{.norm = true};
  CHECK(refused(test::small_gpt2(), {.recompute = norm}).ok());
  const Status halves = refused(test::small_gpt2(), {.dtype = DType::bfloat16, .recompute = norm});
  CHECK(halves.code() == Code::not_supported);
  CHECK(halves.message().find("leave norm out, or train in float32") != std::string::npos);
  const Status behind = refused(test::small_olmo2(), {.recompute = norm});
  CHECK(behind.message().find("stand behind attention and MLPs") != std::string::npos);
  CHECK(refused(test::small_olmo2(), {.recompute = {.ffn = true}}).ok());
  const Status both = refused(test::small_gpt2(), {.checkpointing = ActivationCheckpointing::full,
                                                   .recompute = {.ffn = true}});
  CHECK(both.code() == Code::invalid_argument);
}

}  // namespace tessera
