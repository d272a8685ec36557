// SPDX-License-Identifier: Apache-2.0
// What the options of FSDP1 change in the order of operations, where no recorded run is at hand.
#include <catch2/catch.hpp>
#include <map>

#include "tessera/fsdp1.h"
#include "tessera/recording.h"
#include "tessera/training.h"
#include "tests/base/models.h"

namespace tessera {
namespace {

// The lines of the last of `steps` steps, in the notation of recorded runs.
std::vector<std::string> last_step(Fsdp1Options options, int steps = 3,
                                   TrainingOptions training = {}) {
  options.units = {"L1", "L2", "L3"};
  const Model model = test::g3();
  Recording recording;
  auto runtime = make_recording_runtime(2, recording);
  auto engine = fsdp1(*runtime, model, options);
  REQUIRE(engine.ok());
  for (int step = 0; step < steps; ++step) {
    const Status status = run_training_step(**engine, model, training);
    INFO(status.message());
    REQUIRE(status.ok());
  }
  auto lines = to_fsdp1_notation(recording, (*engine)->units());
  const auto begin = std::find(lines.begin(), lines.end(),
                               "[host] ======== iteration " + std::to_string(steps - 1));
  return {begin, lines.end()};
}

std::size_t place(const std::vector<std::string>& lines, const std::string& line, int nth = 1) {
  for (std::size_t k = 0; k < lines.size(); ++k) {
    if (lines[k].find(line) != std::string::npos && --nth == 0) return k;
  }
  FAIL("no line " << line);
  return 0;
}

int count(const std::vector<std::string>& lines, const std::string& part) {
  int n = 0;
  for (const std::string& line : lines) n += line.find(part) != std::string::npos ? 1 : 0;
  return n;
}

TEST_CASE("BACKWARD_POST gathers the next unit after the free and before the reduce_scatter",
          "[shard]") {
  const auto lines = last_step({.backward_prefetch = BackwardPrefetch::post});
  for (const auto& [unit, next, numel] : {std::tuple{"L3", "L2", "in=16"}, {"L2", "L1", "in=24"}}) {
    const auto freed = place(lines, std::string("FREE ") + unit, 2);  // once in forward
    const auto gathered = place(lines, std::string("ALL_GATHER ") + next, 2);
    const auto reduced = place(lines, std::string("REDUCE_SCATTER ") + numel);
    CHECK(freed < gathered);
    CHECK(gathered < reduced);
  }
  CHECK(count(lines, "ALL_GATHER") == 7);
}

TEST_CASE("forward prefetch gathers the next unit before this one computes", "[shard]") {
  const Fsdp1Options options{.forward_prefetch = true};
  const auto first = last_step(options, 1);
  CHECK(place(first, "COMPUTE fwd emb") < place(first, "ALL_GATHER L1"));  // the order is unknown
  const auto later = last_step(options, 2);
  CHECK(place(later, "ALL_GATHER L1") < place(later, "COMPUTE fwd emb"));
  CHECK(place(later, "ALL_GATHER L2") < place(later, "COMPUTE fwd L1"));
  CHECK(place(later, "ALL_GATHER L3") < place(later, "COMPUTE fwd L2"));
  CHECK(count(later, "ALL_GATHER") == 7);
  Fsdp1Options old = options;
  old.torch_1_13 = true;
  const auto from_root = last_step(old, 2);
  CHECK(place(from_root, "ALL_GATHER L1") < place(from_root, "COMPUTE fwd emb"));
  CHECK(place(from_root, "COMPUTE fwd L1") < place(from_root, "ALL_GATHER L2"));
}

// How often compute waits for a single operation, and whether that was a reduce_scatter each time.
std::pair<int, bool> waits_for_reductions(bool torch_order) {
  const Model model = test::g3();
  Recording recording;
  auto runtime = make_recording_runtime(2, recording);
  auto engine = fsdp1(*runtime, model, {.units = {"L1", "L2", "L3"}, .torch_order = torch_order});
  REQUIRE(engine.ok());
  REQUIRE(run_training_step(**engine, model, {}).ok());
  std::map<EventId, const Record*> ops;
  std::pair<int, bool> found{0, true};
  for (const Record& r : recording.records) {
    if (r.kind != Record::Kind::op) continue;
    ops[r.event] = &r;
    const auto* const wait = std::get_if<Wait>(&r.op.what);
    if (wait == nullptr || wait->stream.valid() || r.after.empty()) continue;
    CHECK(recording.streams[r.stream.index()] == "default");
    ++found.first;
    const Record& awaited = *ops.at(r.after.front());
    found.second &= std::holds_alternative<ReduceScatter>(awaited.op.what);
  }
  return found;
}

TEST_CASE("compute waits for the reduction before each, but not in torch's order", "[shard]") {
  CHECK(waits_for_reductions(false) == std::pair{3, true});  // of four
  CHECK(waits_for_reductions(true) == std::pair{0, true});
}

TEST_CASE("the limiter holds the host back seven times per step, or never", "[shard]") {
  CHECK(count(last_step({}), "BLOCK") == 7);
  CHECK(count(last_step({.limit_all_gathers = false}), "BLOCK") == 0);
  CHECK(count(last_step({.limit_all_gathers = false}), "record ev") == 0);
  CHECK(count(last_step({.strategy = ShardingStrategy::shard_grad_op}), "BLOCK") == 4);
}

TEST_CASE("mixed precision casts on a stream of its own and frees the cast copy", "[shard]") {
  const auto lines = last_step({.param_dtype = DType::bfloat16});
  CHECK(count(lines, "ALLOC") == 14);
  CHECK(count(lines, "FREE") == 14);
  const auto cast = place(lines, "[pre_all_gather] ALLOC L1.mp_shard 42B");
  CHECK(cast < place(lines, "wait_stream all_gather waits pre_all_gather", 2));
  CHECK(place(lines, "record_stream L1.mp_shard on all_gather") >
        place(lines, "ALL_GATHER L1.unsharded in=21 out=42 torch.bfloat16"));
}

TEST_CASE("hybrid sharding all-reduces shards on a stream behind the reduce_scatter", "[shard]") {
  Fsdp1Options options{.strategy = ShardingStrategy::hybrid_shard, .shard_group = 2};
  options.units = {"L1", "L2", "L3"};
  const Model model = test::g3();
  Recording recording;
  auto runtime = make_recording_runtime(4, recording);
  auto engine = fsdp1(*runtime, model, options);
  REQUIRE(engine.ok());
  REQUIRE(run_training_step(**engine, model, {}).ok());
  const auto lines = to_fsdp1_notation(recording, (*engine)->units());
  const auto scattered = place(lines, "[post_backward] REDUCE_SCATTER in=16 out=8");
  const auto waited = place(lines, "wait_stream all_reduce waits post_backward");
  const auto reduced = place(lines, "[all_reduce] ALL_REDUCE 8");
  CHECK(scattered < waited);
  CHECK(waited < reduced);
  CHECK(place(lines, "wait_stream default waits all_reduce") > reduced);
}

}  // namespace
}  // namespace tessera
