// SPDX-License-Identifier: Apache-2.0
// zero3's strict policy beside the compatible one on the same budget: how long the compute stream
// stands still in a step, and what gathered parameters take at most.
//
//   bench_zero3_policies [MODEL.json] [CLUSTER] [SEQUENCE_LENGTH] [ACCUMULATION] [cpu]
//
// `compatible` gets the budget as max_live_parameters and the best of several prefetch buckets and
// reuse distances. Its limit is none: `within` is its best choice that stayed within the budget.
#include <fmt/format.h>

#include <optional>

#include "tessera/sim/cluster.h"
#include "tests/zero3/policy_run.h"

namespace {

using namespace tessera;  // a program, not a library

constexpr int steps = 3;
constexpr std::int64_t gib = std::int64_t{1} << 30;

struct Bench {
  const Model& model;
  const sim::Cluster& cluster;
  const sim::CostModel& costs;
  TrainingOptions training;
  bool offload = false;  // parameters are in host memory

  test::PolicyRun run(Zero3Options options) const {
    options.param_dtype = DType::bfloat16;
    if (offload) options.offload_param.device = Offload::Device::cpu;
    return test::run_policy(model, costs, cluster.ranks(), options, training, steps);
  }

  struct Best {
    std::optional<test::PolicyRun> fastest, within;
  };
  Best compatible(Bytes budget) const {
    const Numel elements{budget.value / 2};
    Best best;
    for (std::int64_t bucket : {0L, 50'000'000L, 250'000'000L, 1'000'000'000L, 4'000'000'000L}) {
      for (Numel reuse : {Numel{0}, Numel{1'000'000'000}, elements}) {
        test::PolicyRun made = run({.policy = Zero3Policy::compatible,
                                    .prefetch_bucket = Numel{bucket},
                                    .max_reuse_distance = reuse,
                                    .max_live_parameters = elements});
        if (!made.status.ok()) continue;
        auto take = [&made](auto& other) {
          if (!other || made.steps.back().stalled < other->steps.back().stalled) other = made;
        };
        take(best.fastest);
        if (made.peak <= budget) take(best.within);
      }
    }
    return best;
  }

  void row(Bytes budget) const {
    const test::PolicyRun strict = run({.live_budget = budget});
    if (!strict.status.ok()) {
      fmt::print("{:6.1f}  {}\n", in_gib(budget), strict.status.message());
      return;
    }
    const Best best = compatible(budget);
    fmt::print("{:6.1f} {}", in_gib(budget), text(strict));
    fmt::print(" {}", best.fastest ? text(*best.fastest) : "");
    fmt::print(" {}\n", best.within ? text(*best.within) : "        none");
    std::fflush(stdout);
  }

  static double in_gib(Bytes bytes) {
    return static_cast<double>(bytes.value) / static_cast<double>(gib);
  }
  static std::string text(const test::PolicyRun& run) {
    auto ms = [](Time t) { return static_cast<double>(t) / 1e6; };
    return fmt::format("| {:6.2f} {:9.2f} {:9.2f} {:9.1f}", in_gib(run.peak),
                       ms(run.steps.front().stalled), ms(run.steps.back().stalled),
                       ms(run.steps.back().time));
  }
};

}  // namespace

int main(int argc, char** argv) {
  const auto model =
      load_model(argc > 1 ? argv[1] : TESSERA_SOURCE_DIR "/examples/models/llama-3-70b.json");
  const auto cluster = sim::load_cluster(argc > 2 ? argv[2] : "dgx-h100", 1);
  if (!model.ok() || !cluster.ok()) return 1;
  const auto costs = sim::make_cost_model(*cluster);
  const Bench bench{*model,
                    *cluster,
                    *costs,
                    {.sequence_length = argc > 3 ? std::atoll(argv[3]) : 8192,
                     .accumulation = argc > 4 ? std::atoi(argv[4]) : 1},
                    argc > 5 && std::string(argv[5]) == "cpu"};
  fmt::print("{} on {}, {} ranks, {} tokens, {} micro-batches{}\n", model->name, cluster->name,
             cluster->ranks(), bench.training.sequence_length, bench.training.accumulation,
             bench.offload ? ", parameters in host memory" : "");
  fmt::print(
      "budget | strict: peak GiB, stalled ms in step 1 and {0}, step {0} ms "
      "| compatible, fastest | compatible, within\n",
      steps);
  for (std::int64_t g : {1, 2, 3, 4, 6, 8, 16, 32}) bench.row(Bytes{g * gib});
}
