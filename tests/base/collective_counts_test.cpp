// SPDX-License-Identifier: Apache-2.0
// How many collectives a step has (torch test_fsdp_comm.py, test_fully_shard_comm.py).
#include <catch2/catch.hpp>
#include <map>

#include "tessera/recording.h"
#include "tessera/scheme.h"
#include "tessera/training.h"
#include "tests/base/models.h"

namespace tessera {
namespace {

struct Counts {
  int all_gathers = 0;
  int reduce_scatters = 0;
  int all_reduces = 0;
  bool operator==(const Counts&) const = default;
};

std::ostream& operator<<(std::ostream& out, const Counts& c) {
  return out << c.all_gathers << " AG, " << c.reduce_scatters << " RS, " << c.all_reduces << " AR";
}

constexpr int units = 4;  // L1, L2, L3 and the root

// Of every step; `sync` says which of them reduce.
std::vector<Counts> counts(const Scheme& scheme, const std::vector<bool>& sync,
                           bool every_backward_is_a_step = true) {
  const Model model = test::g3();
  Recording recording;
  auto runtime = make_recording_runtime(4, recording);
  auto engine = make_engine(*runtime, model, scheme);
  REQUIRE(engine.ok());
  std::vector<Counts> all;
  for (bool on : sync) {
    const std::size_t before = recording.records.size();
    TrainingOptions training;
    if (!every_backward_is_a_step || !on) {
      training.accumulation = on ? 1 : 2;
      training.sync_every_micro_batch = false;
    }
    REQUIRE(run_training_step(**engine, model, training).ok());
    Counts c;
    for (std::size_t k = before; k < recording.records.size(); ++k) {
      const Record& r = recording.records[k];
      if (r.kind != Record::Kind::op) continue;
      const OpKind kind = kind_of(r.op);
      c.all_gathers += kind == OpKind::all_gather ? 1 : 0;
      c.reduce_scatters += kind == OpKind::reduce_scatter ? 1 : 0;
      c.all_reduces += kind == OpKind::all_reduce ? 1 : 0;
    }
    all.push_back(c);
  }
  return all;
}

const std::vector<std::string> linear_layers = {"L1", "L2", "L3"};

TEST_CASE("collectives per step are those of the strategies", "[shard]") {
  constexpr int n = units;
  using S = ShardingStrategy;
  auto fsdp = [](S strategy, Index group = 0) {
    return Fsdp1Options{.units = linear_layers, .strategy = strategy, .shard_group = group};
  };
  auto steady = [](const Scheme& scheme) { return counts(scheme, {true, true, true}).back(); };
  CHECK(steady(fsdp(S::full_shard)) == Counts{2 * n - 1, n, 0});
  CHECK(steady(fsdp(S::shard_grad_op)) == Counts{n, n, 0});
  CHECK(steady(fsdp(S::no_shard)) == Counts{0, 0, n});
  CHECK(steady(fsdp(S::hybrid_shard, 2)) == Counts{2 * n - 1, n, n});
  CHECK(steady(fsdp(S::hybrid_shard_zero2, 2)) == Counts{n, n, n});
  CHECK(steady(FullyShardOptions{.units = linear_layers}) == Counts{2 * n - 1, n, 0});
  CHECK(steady(FullyShardOptions{.units = linear_layers,
                                 .reshard_after_forward = ReshardAfterForward::always}) ==
        Counts{2 * n, n, 0});
  CHECK(steady(FullyShardOptions{.units = linear_layers,
                                 .reshard_after_forward = ReshardAfterForward::never}) ==
        Counts{n, n, 0});
  CHECK(steady(FullyShardOptions{.units = linear_layers, .shard_group = 2}) ==
        Counts{2 * n - 1, n, n});
  CHECK(steady(FullyShardOptions{.units = linear_layers,
                                 .reshard_after_forward = ReshardAfterForward::to_group,
                                 .reshard_group = 2}) == Counts{2 * n, n, 0});
}

TEST_CASE("micro-batches without synchronisation gather, but do not reduce", "[shard]") {
  constexpr int n = units;
  // Two micro-batches, the first without synchronisation.
  auto both = [](const Scheme& scheme) { return counts(scheme, {true, false}).back(); };
  CHECK(both(Fsdp1Options{.units = linear_layers}) == Counts{2 * (2 * n - 1), n, 0});
  // shard_grad_op stays gathered after the first: the second gathers nothing.
  CHECK(both(Fsdp1Options{.units = linear_layers, .strategy = ShardingStrategy::shard_grad_op}) ==
        Counts{n, n, 0});
  CHECK(both(FullyShardOptions{.units = linear_layers}) == Counts{2 * (2 * n - 1), n, 0});
}

TEST_CASE("recomputation gathers no unit twice in one backward", "[shard]") {
  const Model plain = test::g3();
  Model model = plain;
  for (const std::string& name : linear_layers) {
    model.modules[model.find_module(name).index()].is_block = true;
  }
  for (const Scheme& scheme :
       {Scheme(Fsdp1Options{.units = linear_layers, .forward_prefetch = true}),
        Scheme(FullyShardOptions{.units = linear_layers})}) {
    Recording recording;
    auto runtime = make_recording_runtime(4, recording);
    auto engine = make_engine(*runtime, model, scheme);
    REQUIRE(engine.ok());
    for (int step = 0; step < 3; ++step) {
      REQUIRE(run_training_step(**engine, model, {.checkpointing = ActivationCheckpointing::full})
                  .ok());
    }
    std::map<std::pair<int, std::string>, int> gathers;  // by step and unit, in backward
    int recomputes = 0;
    for (const Record& r : recording.records) {
      if (r.kind != Record::Kind::op || r.cause.phase != Phase::backward) continue;
      if (kind_of(r.op) == OpKind::all_gather) ++gathers[{r.cause.step, std::string(r.cause.unit)}];
      recomputes += r.cause.reason == Reason::recompute ? 1 : 0;
      CHECK(r.cause.reason != Reason::forward_prefetch);
    }
    CHECK(recomputes == 9);
    CHECK(gathers.size() == 9);
    for (const auto& [where, count] : gathers) CHECK(count == 1);
  }
}

}  // namespace
}  // namespace tessera
