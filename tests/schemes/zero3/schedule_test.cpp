// SPDX-License-Identifier: Apache-2.0
// What a schedule of zero3 does beyond the recorded runs: accumulation, groups of the optimizer,
// shared and repeated modules, mixed precision.
#include <algorithm>
#include <catch2/catch.hpp>

#include "tessera/recording.h"
#include "tessera/training.h"
#include "tessera/zero3.h"
#include "tests/schemes/zero3/net3.h"

namespace tessera {
namespace {

struct Ran {
  Model model;
  Recording recording;
  std::unique_ptr<Runtime> runtime;
  std::unique_ptr<Zero3> engine;

  Ran(const Model& made_of, const Zero3Options& options, int steps,
      const TrainingOptions& training = {}, Rank ranks = 2)
      : model(made_of), runtime(make_recording_runtime(ranks, recording)) {
    auto made = zero3(*runtime, model, options);
    INFO(made.status().message());
    REQUIRE(made.ok());
    engine = std::move(*made);
    for (int step = 0; step < steps; ++step) {
      const Status status = run_training_step(*engine, model, training);
      INFO("step " << step << ": " << status.message());
      REQUIRE(status.ok());
    }
  }
  std::vector<std::string> lines() const {
    return to_deepspeed_notation(recording, engine->parameters());
  }
  std::ptrdiff_t count(const std::string& part) const {
    const auto all = lines();
    return std::count_if(all.begin(), all.end(), [&](const std::string& line) {
      return line.find(part) != std::string::npos;
    });
  }
};

Zero3Options small() {
  return {.policy = Zero3Policy::compatible,
          .prefetch_bucket = Numel{0},
          .max_reuse_distance = Numel{0},
          .persistence_threshold = Numel{0},
          .reduce_bucket = Numel{1000}};
}

TEST_CASE("the optimizer steps group by group", "[zero3]") {
  Zero3Options options = small();
  options.sub_group_size = Numel{12};  // partitions have 12, 15 and 8 elements
  const Ran ran(test::net3(), options, 1);
  CHECK(ran.lines()[0].ends_with("subgroups [['a.w'], ['b.w'], ['c.w']]"));
  CHECK(ran.count("OPT _optimizer_step") == 3);
  options.sub_group_size = Numel{13};
  CHECK(Ran(test::net3(), options, 0).lines()[0].ends_with("subgroups [['a.w', 'b.w'], ['c.w']]"));
}

TEST_CASE("the model's persistence threshold limits what stays", "[zero3]") {
  Zero3Options options = small();
  options.persistence_threshold = Numel{24};
  options.model_persistence_threshold = Numel{30};  // a (24) and no room for c (15)
  const auto parameters = Ran(test::net3(), options, 0).engine->parameters();
  CHECK(parameters[0].persistent);
  CHECK_FALSE(parameters[1].persistent);
  CHECK_FALSE(parameters[2].persistent);
}

TEST_CASE("every micro-batch reduces, whatever set_requires_gradient_sync says", "[zero3]") {
  const Ran ran(test::net3(), small(), 2, {.accumulation = 3, .sync_every_micro_batch = false});
  CHECK(ran.count("REDUCE_SCATTER") == 2 * 3);
  CHECK(ran.engine->warnings().size() == 1);
  CHECK(Ran(test::net3(), small(), 1).engine->warnings().empty());
}

TEST_CASE("what a micro-batch leaves gathered is not gathered again in the next", "[zero3]") {
  const Ran ran(test::net3(), small(), 1, {.accumulation = 2});
  CHECK(ran.count("ALLGATHER ['a.w']") == 3);  // not for the second forward
  CHECK(ran.count("ALLGATHER ['b.w']") == 4);
}

TEST_CASE("max_live_parameters holds prefetch back, and only that", "[zero3]") {
  Zero3Options options = small();
  options.prefetch_bucket = Numel{1000};
  options.max_live_parameters = Numel{0};
  const Ran ran(test::net3({.input_requires_grad = true}), options, 3);
  CHECK(ran.count("PREFETCH") == 0);
  options.max_live_parameters = Numel{40};
  // All three in one go would be 69: a and b are asked for while there is room.
  CHECK(Ran(test::net3({.input_requires_grad = true}), options, 2)
            .count("PREFETCH ['a.w', 'b.w'] numel=54") == 1);
}

TEST_CASE("a module that runs several times is freed by the first of its backward passes",
          "[zero3]") {
  Model model = test::net3({.widths = {4, 4, 4, 4}});
  model.forward = {ModuleId{1}, ModuleId{2}, ModuleId{2}, ModuleId{2}, ModuleId{3}};
  const Ran ran(model, small(), 1);
  CHECK(ran.count("FETCH B step=") == 6);    // root, c, b, b, b, a
  CHECK(ran.count("RELEASE B step=") == 2);  // c and b once
}

TEST_CASE("a tied parameter belongs to both modules and is reduced once", "[zero3]") {
  Model model = test::net3({.widths = {4, 4, 4, 4}});
  model.parameters.pop_back();  // c.w is a.w
  model.modules[3].parameters.clear();
  model.ties.push_back({"c.w", ParameterId{0}});
  const Ran ran(model, small(), 2);
  CHECK(ran.lines()[0].find("c.w") == std::string::npos);
  CHECK(ran.count("  GRAD_READY a.w") == 2);
  CHECK(ran.count("REDUCE_SCATTER numel 32") == 2);
}

TEST_CASE("recomputing fetches the modules of a block again", "[zero3]") {
  Model model = test::net3();  // a is a block that contains b
  model.modules[0].children = {ModuleId{1}, ModuleId{3}};
  model.modules[1].children = {ModuleId{2}};
  model.modules[1].is_block = true;
  model.modules[2].parent = ModuleId{1};
  model.forward = {ModuleId{2}, ModuleId{3}};
  const Ran ran(model, small(), 2, {.checkpointing = ActivationCheckpointing::full});
  CHECK(ran.count("FETCH F step=") == 2 * (4 + 1));
  CHECK(ran.count("FETCH B step=") == 2 * 4);
}

TEST_CASE("mixed precision gathers casts that follow every step", "[zero3]") {
  Zero3Options options = small();
  options.param_dtype = DType::bfloat16;
  options.reduce_dtype = DType::float32;
  options.persistence_threshold = Numel{20};
  const Ran ran(test::net3(), options, 3, {}, 4);
  int casts = 0;
  for (const Record& record : ran.recording.records) {
    if (record.kind != Record::Kind::op) continue;
    if (const auto* gather = std::get_if<AllGather>(&record.op.what)) {
      CHECK(gather->output.dtype == DType::bfloat16);
    }
    if (const auto* reduce = std::get_if<ReduceScatter>(&record.op.what)) {
      CHECK(reduce->output.dtype == DType::float32);
    }
    const auto* copy = std::get_if<Copy>(&record.op.what);
    casts += copy != nullptr && copy->pieces[0].from.dtype == DType::float32 &&
             copy->pieces[0].to.dtype == DType::bfloat16 && record.cause.unit == "root";
  }
  CHECK(casts == 1 + 3);  // before the first forward, in each step
}

TEST_CASE("units are the modules with parameters of their own", "[zero3]") {
  const Ran ran(test::net3({.biases = true}), small(), 0, {}, 4);
  const auto units = ran.engine->units();
  REQUIRE(units.size() == 4);  // and the root
  CHECK(units[1].name == "a");
  CHECK(units[1].parameters == 2);
  CHECK(units[1].numel == Numel{30});
  CHECK(units[1].shard == Numel{8});  // 6 of 24 and 2 of 6
  CHECK(units[1].padding == Numel{2});
}

}  // namespace
}  // namespace tessera
