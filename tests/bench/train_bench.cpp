// SPDX-License-Identifier: Apache-2.0
// How long a training step of a small GPT-2 takes in one process:
//   bench_train WIDTH LENGTH BATCH float32|bfloat16 THREADS STEPS
// prints the median of the steps in milliseconds. scripts/bench-train compares it with PyTorch.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>

#include "tessera/host_runtime.h"
#include "tessera/language_model.h"
#include "tessera/replicate.h"

namespace {

using namespace tessera;

constexpr int warm_up_steps = 3;

double milliseconds() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration<double, std::milli>(now).count();
}

Result<double> median_step(std::int64_t width, const LanguageModelOptions& options, int steps) {
  const std::string config = fmt::format(
      R"({{"architectures": ["GPT2LMHeadModel"], "vocab_size": 256, "n_positions": {}, "n_embd": {},
          "n_layer": 4, "n_head": 4}})",
      options.sequence_length, width);
  TESSERA_ASSIGN(const Model model, parse_model(config, "config.json"));
  TESSERA_ASSIGN(const auto runtime, make_local_runtime({}));
  TESSERA_ASSIGN(const auto engine, replicate(*runtime, model, {}));
  TESSERA_ASSIGN(const auto language, LanguageModel::create(model, options));
  TESSERA_TRY(language.take_workspace(*runtime));
  TESSERA_TRY(engine->initialise(language.initial_values(1)));
  language.set_data([](Rank, std::int32_t, std::span<std::int32_t> to) {
    for (std::size_t k = 0; k < to.size(); ++k) to[k] = static_cast<std::int32_t>(k * k % 251);
  });
  TrainingOptions training;
  language.apply(training);
  std::vector<double> times;
  for (int step = 0; step < warm_up_steps + steps; ++step) {
    const double begin = milliseconds();
    TESSERA_TRY(run_training_step(*engine, model, training));
    if (step >= warm_up_steps) times.push_back(milliseconds() - begin);
  }
  TESSERA_TRY(runtime->finish());
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 7) {
    fmt::print(stderr, "usage: bench_train WIDTH LENGTH BATCH float32|bfloat16 THREADS STEPS\n");
    return 2;
  }
  LanguageModelOptions options{.batch = std::atoi(argv[3]),
                               .sequence_length = std::atoi(argv[2]),
                               .threads = std::atoi(argv[5])};
  if (std::string(argv[4]) == "bfloat16") options.dtype = DType::bfloat16;
  const auto time = median_step(std::atoi(argv[1]), options, std::max(1, std::atoi(argv[6])));
  if (!time.ok()) {
    fmt::print(stderr, "{}\n", time.status().message());
    return 1;
  }
  fmt::print("{:.3f}\n", *time);
  return 0;
}
