// SPDX-License-Identifier: Apache-2.0
// zero3's strict policy beside the compatible one on the same budget: how long the compute stream
// stands still in a step, and what gathered parameters take at most.
//
//   bench_zero3_policies [MODEL.json] [CLUSTER] [SEQUENCE_LENGTH] [ACCUMULATION] [cpu]
//
// `compatible` has no limit of bytes, so it is run with many choices of its limits of elements, and
// per budget the choice counts that was fastest of those whose measured peak stayed within.
#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "tessera/sim/cluster.h"
#include "tests/schemes/zero3/policy_run.h"

namespace {

using namespace tessera;  // a program, not a library

constexpr int steps = 3;
constexpr std::int64_t gib = std::int64_t{1} << 30;
constexpr std::int64_t million = 1'000'000;

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

  // By its three limits: of prefetching, of keeping, of what is live.
  std::vector<test::PolicyRun> compatible() const {
    std::vector<test::PolicyRun> all;
    for (std::int64_t bucket : {0, 10, 25, 50, 100, 250, 500, 1000, 4000}) {
      for (std::int64_t reuse : {0, 100, 500, 1000, 10'000}) {
        for (std::int64_t live : {0, 250, 500, 1000, 2000, 4000, 8000, 16'000}) {
          all.push_back(run({.policy = Zero3Policy::compatible,
                             .prefetch_bucket = Numel{bucket * million},
                             .max_reuse_distance = Numel{reuse * million},
                             .max_live_parameters = Numel{live * million}}));
        }
      }
    }
    std::erase_if(all, [](const auto& made) { return !made.status.ok(); });
    return all;
  }

  void row(Bytes budget, const std::vector<test::PolicyRun>& others) const {
    const test::PolicyRun strict = run({.live_budget = budget});
    if (!strict.status.ok()) {
      fmt::print("{:6.1f}  {}\n", in_gib(budget), strict.status.message());
      return;
    }
    const test::PolicyRun* best = nullptr;
    for (const test::PolicyRun& other : others) {
      if (other.peak > budget) continue;
      if (best == nullptr || stalled(other) < stalled(*best)) best = &other;
    }
    fmt::print("{:6.1f} {} {}\n", in_gib(budget), text(strict),
               best == nullptr ? "| no choice stays within" : text(*best));
    std::fflush(stdout);
  }

  static Time stalled(const test::PolicyRun& run) { return run.steps.back().stalled; }
  static double in_gib(Bytes bytes) {
    return static_cast<double>(bytes.value) / static_cast<double>(gib);
  }
  static std::string text(const test::PolicyRun& run) {
    auto ms = [](Time t) { return static_cast<double>(t) / 1e6; };
    return fmt::format("| {:6.2f} {:9.2f} {:9.2f} {:9.2f} {:9.1f}", in_gib(run.peak),
                       ms(run.steps.front().stalled), ms(run.steps.back().stalled),
                       ms(run.steps.back().exposed), ms(run.steps.back().time));
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
  const std::vector<test::PolicyRun> others = bench.compatible();
  const auto least = std::min_element(others.begin(), others.end(),
                                      [](const auto& a, const auto& b) { return a.peak < b.peak; });
  if (least == others.end()) return 1;
  fmt::print("{} choices of compatible, which take {:.2f} GiB at least\n", others.size(),
             Bench::in_gib(least->peak));
  fmt::print(
      "budget | strict: peak GiB, stalled ms in step 1 and {0}, step {0} ms "
      "| compatible, its best within\n",
      steps);
  for (std::int64_t g : {1, 2, 3, 4, 6, 8, 16, 32}) bench.row(Bytes{g * gib}, others);
}
