// SPDX-License-Identifier: Apache-2.0
// What ZeRO-1 and ZeRO-2 communicate and when, and what they refuse.
#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <map>

#include "tessera/recording.h"
#include "tessera/training.h"
#include "tessera/zero12.h"
#include "tests/schemes/zero3/net3.h"

namespace tessera {
namespace {

struct Recorded {
  Recording recording;
  std::unique_ptr<Runtime> runtime;
  std::unique_ptr<Engine> engine;
  const Model model;
  std::size_t seen = 0;

  Recorded(Rank ranks, const Zero12Options& options, Model of = test::net3())
      : runtime(make_recording_runtime(ranks, recording)), model(std::move(of)) {
    auto made = zero12(*runtime, model, options);
    INFO(made.status().message());
    REQUIRE(made.ok());
    engine = std::move(*made);
  }
  void step(const TrainingOptions& options = {}) {
    const Status status = run_training_step(*engine, model, options);
    INFO(status.message());
    REQUIRE(status.ok());
  }
  // "backward reduce 15 to 1", "optimizer all_gather 72", ... since the last call.
  std::vector<std::string> collectives() {
    std::vector<std::string> out;
    for (; seen < recording.records.size(); ++seen) {
      const Record& r = recording.records[seen];
      if (r.kind != Record::Kind::op) continue;
      const auto phase = name_of(r.cause.phase);
      if (const auto* o = std::get_if<Reduce>(&r.op.what)) {
        out.push_back(fmt::format("{} reduce {} to {}", phase, o->input.numel.value, o->root));
      } else if (const auto* g = std::get_if<AllGather>(&r.op.what)) {
        out.push_back(fmt::format("{} all_gather {}", phase, g->output.numel.value));
      } else if (const auto* a = std::get_if<AllReduce>(&r.op.what)) {
        out.push_back(fmt::format("{} all_reduce {}", phase, a->input.numel.value));
      }
    }
    return out;
  }
};

using Lines = std::vector<std::string>;

TEST_CASE("stage 2 reduces buckets in the order of backward to the owners of slices", "[zero12]") {
  SECTION("all in one bucket") {
    Recorded run(2, {.stage = 2});
    run.step();
    CHECK(run.collectives() == Lines{"backward reduce 15 to 1", "backward reduce 12 to 0",
                                     "backward reduce 18 to 1", "backward reduce 24 to 0",
                                     "optimizer all_gather 72"});
  }
  SECTION("a gradient larger than the bucket is reduced alone") {
    Recorded run(2, {.stage = 2, .reduce_bucket = Numel{24}});
    run.step();
    CHECK(run.collectives() == Lines{"backward reduce 15 to 1", "backward reduce 12 to 0",
                                     "backward reduce 18 to 1", "backward reduce 24 to 0",
                                     "optimizer all_gather 72"});
    std::size_t copied_in = 0;
    for (const Record& r : run.recording.records) {
      const auto* copy = std::get_if<Copy>(&r.op.what);
      if (r.kind != Record::Kind::op || copy == nullptr) continue;
      copied_in += r.cause.reason == Reason::copy_in ? 1 : 0;
    }
    CHECK(copied_in == 2);  // b.w, of 30, is not
  }
  SECTION("without reduce_scatter buckets are all_reduced") {
    Recorded run(2, {.stage = 2, .reduce_bucket = Numel{50}, .reduce_scatter = false});
    run.step();
    CHECK(run.collectives() ==
          Lines{"backward all_reduce 45", "backward all_reduce 24", "optimizer all_gather 72"});
  }
}

TEST_CASE("stage 2 reduces in every micro-batch, stage 1 at the end of the last", "[zero12]") {
  const TrainingOptions two{.accumulation = 2, .sync_every_micro_batch = false};
  Recorded second(2, {.stage = 2});
  second.step(two);
  CHECK(second.collectives().size() == 9);
  CHECK(second.engine->warnings().size() == 1);
  Recorded first(2, {.stage = 1});
  first.step(two);
  // In the order of the flat buffer, so that neighbours are joined.
  CHECK(first.collectives() ==
        Lines{"backward reduce 36 to 0", "backward reduce 33 to 1", "optimizer all_gather 72"});
}

TEST_CASE("what was never reduced is when the optimizer steps", "[zero12]") {
  Recorded run(2, {.stage = 1});
  run.engine->set_requires_gradient_sync(false);
  Engine& e = *run.engine;
  REQUIRE(e.begin_forward().ok());
  for (ModuleId m : run.model.forward) REQUIRE(e.compute({.module = m, .body = {}}).ok());
  REQUIRE(e.begin_backward().ok());
  for (ModuleId m : run.model.forward) {
    REQUIRE(e.compute({.module = m, .pass = ModuleWork::Pass::backward, .body = {}}).ok());
  }
  REQUIRE(e.end_backward().ok());
  CHECK(run.collectives().empty());
  REQUIRE(e.step({}).ok());
  CHECK(run.collectives() ==
        Lines{"optimizer reduce 36 to 0", "optimizer reduce 33 to 1", "optimizer all_gather 72"});
}

TEST_CASE("parameters are gathered in pieces of the bucket", "[zero12]") {
  Recorded run(2, {.stage = 2, .reduce_bucket = Numel{100}, .allgather_bucket = Numel{20}});
  run.step();
  Lines gathers;
  for (const std::string& line : run.collectives()) {
    if (line.find("gather") != std::string::npos) gathers.push_back(line);
  }
  // 72 / 20 = 3 pieces of a part of 36: 12 of each of the two ranks.
  CHECK(gathers == Lines(3, "optimizer all_gather 24"));
}

// arXiv 1910.02054, section 7: stages 1 and 2 send 2 n elements, as data parallelism does.
TEST_CASE("both stages send each gradient once and each parameter once", "[zero12]") {
  const auto stage = GENERATE(1, 2);
  const auto ranks = GENERATE(2, 3, 8);
  Recorded run(ranks, {.stage = stage, .reduce_bucket = Numel{20}, .allgather_bucket = Numel{30}});
  run.step();
  std::int64_t reduced = 0;
  std::int64_t gathered = 0;
  for (const Record& r : run.recording.records) {
    if (r.kind != Record::Kind::op) continue;
    if (const auto* o = std::get_if<Reduce>(&r.op.what)) reduced += o->input.numel.value;
    if (const auto* o = std::get_if<AllGather>(&r.op.what)) gathered += o->output.numel.value;
  }
  CHECK(reduced == 69);
  CHECK(gathered == (69 + 2 * ranks - 1) / (2 * ranks) * (2 * ranks));
}

TEST_CASE("overlapped reductions have a stream of their own and two buckets", "[zero12]") {
  Recorded run(2, {.stage = 2, .reduce_bucket = Numel{30}, .overlap_comm = true});
  run.step();
  CHECK(run.recording.streams == Lines{"default", "reduction", "nccl"});
  int buckets = 0;
  for (const auto& b : run.recording.buffers) buckets += b.name == "reduce_bucket" ? 1 : 0;
  CHECK(buckets == 2);
  Recorded first(2, {.stage = 1, .overlap_comm = true, .round_robin_gradients = true});
  CHECK(first.recording.streams == Lines{"default", "nccl"});
  REQUIRE(first.engine->warnings().size() == 1);
  CHECK(first.engine->warnings()[0].find("overlap_comm") != std::string::npos);
}

TEST_CASE("frozen parameters are in no part that is stepped", "[zero12]") {
  Recorded run(2, {.stage = 2}, test::net3({.first_frozen = true}));
  run.step();
  const auto units = run.engine->units();
  REQUIRE(units.size() == 2);
  CHECK(units[0].numel == Numel{45});
  CHECK(units[0].shard == Numel{24});
  CHECK(units[1].name == "frozen");
  CHECK(units[1].numel == Numel{24});
  CHECK(run.collectives().back() == "optimizer all_gather 48");
}

// How many bytes cross the links, per phase and direction.
std::map<std::string, std::int64_t> moved(const Recording& recording) {
  std::map<std::string, std::int64_t> bytes;
  for (const Record& r : recording.records) {
    const auto* copy = std::get_if<Copy>(&r.op.what);
    if (r.kind != Record::Kind::op || copy == nullptr) continue;
    const bool out = copy->route == CopyRoute::to_host;
    if (!out && copy->route != CopyRoute::to_device) continue;
    for (const CopyBlocks& piece : copy->pieces) {
      bytes[fmt::format("{} {}", name_of(r.cause.phase), out ? "out" : "in")] +=
          bytes_of(piece.to.numel, piece.to.dtype).value;
    }
  }
  return bytes;
}

TEST_CASE("ZeRO-Offload moves gradients out as buckets are reduced, and parameters in after steps",
          "[zero12]") {
  const std::int32_t stage = GENERATE(1, 2);
  Zero12Options options{.stage = stage, .param_dtype = DType::bfloat16};
  Recorded kept(2, options);
  options.offload_optimizer.device = Offload::Device::cpu;
  Recorded offloaded(2, options);
  kept.step();
  offloaded.step();
  CHECK(offloaded.collectives() == kept.collectives());
  CHECK(moved(kept.recording).empty());
  auto bytes = moved(offloaded.recording);
  CHECK(bytes["backward out"] == 2 * 69);  // every gradient from its owner, in bfloat16
  CHECK(bytes["optimizer in"] == 2 * 36);  // a rank's part, padding included
  CHECK(bytes.size() == 2);
  // Gradients of a second micro-batch are added on the device: what was there comes back.
  Recorded twice(2, options);
  twice.step({.accumulation = 2, .sync_every_micro_batch = true});
  bytes = moved(twice.recording);
  CHECK(bytes["backward out"] == 2 * 2 * 69);
  CHECK(bytes["backward in"] == 2 * 69);
}

TEST_CASE("ZeRO-Offload keeps masters, states and gradients in host memory", "[zero12]") {
  for (const bool offloads : {false, true}) {
    Zero12Options options{.stage = 2, .param_dtype = DType::bfloat16};
    if (offloads) options.offload_optimizer.device = Offload::Device::cpu;
    Recorded run(2, options);
    run.step();
    std::int64_t host = 0;
    std::int64_t states = 0;
    for (const Recording::Buffer& b : run.recording.buffers) {
      if (b.memory_class == MemoryClass::optimizer_state) states += b.bytes.value;
      if (b.memory_class == MemoryClass::pinned_host) host += b.bytes.value;
    }
    // Of a part of 36: master and moments in float32; the gradient and the cast copy in bfloat16.
    CHECK(states == (offloads ? 0 : 3 * 4 * 36));
    CHECK(host == (offloads ? 3 * 4 * 36 + 2 * 2 * 36 : 0));
  }
}

TEST_CASE("states are there before the first activation, and made once", "[zero12]") {
  Recorded run(2, {.stage = 2});
  run.step({.accumulation = 2});
  std::size_t first_activation = run.recording.buffers.size();
  std::vector<std::size_t> moments;
  for (std::size_t b = 0; b < run.recording.buffers.size(); ++b) {
    const Recording::Buffer& buffer = run.recording.buffers[b];
    if (buffer.memory_class == MemoryClass::activations) {
      first_activation = std::min(first_activation, b);
    }
    if (buffer.name.find(".exp_avg") != std::string::npos) moments.push_back(b);
  }
  REQUIRE(moments.size() == 2);
  CHECK(moments[1] < first_activation);
}

TEST_CASE("options that make no sense are refused by name", "[zero12]") {
  const auto message = [](const Zero12Options& options, const Model& model) {
    Recording recording;
    const auto runtime = make_recording_runtime(2, recording);
    return zero12(*runtime, model, options).status().message();
  };
  const Model model = test::net3();
  CHECK(message({.stage = 3}, model).find("zero3 for 3") != std::string::npos);
  CHECK(message({.allgather_bucket = Numel{1001}}, model) ==
        "allgather_bucket must be a multiple of 2, found 1001");
  CHECK(message({.reduce_bucket = Numel{-1}}, model).find("reduce_bucket") != std::string::npos);
  Model frozen = test::net3();
  for (Parameter& p : frozen.parameters) p.requires_grad = false;
  CHECK(message({}, frozen).find("nothing for the optimizer") != std::string::npos);
}

TEST_CASE("gradients in the wrong place are refused by name", "[zero12]") {
  Recorded run(2, {.stage = 2});
  Engine& e = *run.engine;
  REQUIRE(e.begin_forward().ok());
  REQUIRE(e.begin_backward().ok());
  REQUIRE(e.grad_ready(ParameterId{1}).ok());
  const Status twice = e.grad_ready(ParameterId{1});
  CHECK(twice.message().find("b.w became ready twice") != std::string::npos);
}

}  // namespace
}  // namespace tessera
