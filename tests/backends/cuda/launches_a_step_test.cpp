// SPDX-License-Identifier: Apache-2.0
// How often a step with as many blocks as a model of 7B asks a GPU for something, with graphs and
// without: sizes do not matter for that, numbers of blocks do.
#include "tests/backends/cuda/cuda_ranks.h"
#include "tests/training/language/language_run.h"

namespace tessera {
namespace {

using test::Call;
using test::LanguageRun;
using test::StandIn;

int launches_until(LanguageRun run, int steps, bool graphs) {
  run.steps = steps;
  int all = 0;
  test::require_clean(
      test::run_on_gpus({.device_bytes = std::size_t{192} << 20, .seed = 1},
                        [&](ProcessRuntime& runtime, Rank) {
                          test::TrainedLanguage trained;
                          TESSERA_TRY(test::train(
                              runtime, run, {}, [&] { return runtime.finish(); }, trained));
                          for (const Call call : {Call::kernel, Call::cast_blocks, Call::block_sums,
                                                  Call::memset_async, Call::graph_launch}) {
                            all += StandIn::current().uses(call, 0);
                          }
                          return Status{};
                        },
                        {.pinned_memory = Bytes{4 << 20}, .graphs = graphs}));
  return all;
}

// In the first step bodies run, in the second they are recorded.
int launches_a_step(const LanguageRun& run, bool graphs) {
  return launches_until(run, 4, graphs) - launches_until(run, 3, graphs);
}

TEST_CASE("a step of 32 blocks launches a quarter with graphs, and no more than 600 times",
          "[cuda][language][graphs]") {
  LanguageRun run{.model = test::parsed(R"({"model_type": "mistral", "vocab_size": 16,
      "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 32,
      "num_attention_heads": 2, "num_key_value_heads": 1, "max_position_embeddings": 96})"),
                  .scheme = FullyShardOptions{.param_dtype = DType::bfloat16}};
  run.options.processor = Processor::gpu;
  run.options.dtype = run.options.parameters = DType::bfloat16;
  run.accumulation = 1;
  const int direct = launches_a_step(run, false);
  const int launched = launches_a_step(run, true);
  INFO(direct << " without graphs, " << launched << " with them");
  CHECK(direct > 1'000);
  CHECK(launched <= 600);
  CHECK(launched * 3 <= direct);
}

}  // namespace
}  // namespace tessera
