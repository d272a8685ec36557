// SPDX-License-Identifier: Apache-2.0
// Buffers: rank 0's are broadcast at set-up and at each forward that follows a synced one.
#include <fmt/format.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "tessera/join.h"
#include "tessera/recording.h"
#include "tests/schemes/replicate/replicas.h"

namespace tessera {
namespace {

constexpr const char* tree = R"({"tessera_model": 1, "name": "norm", "root": {"class": "Net",
  "modules": [
    {"name": "in", "class": "Linear", "parameters": [{"name": "weight", "shape": [3, 3]}]},
    {"name": "norm", "class": "BatchNorm1d",
     "parameters": [{"name": "weight", "shape": [3]}],
     "buffers": [{"name": "running_mean", "shape": [3]},
                 {"name": "batches", "shape": [], "dtype": "int64"}]}]}})";

Model normed() {
  auto model = parse_model(tree, "test");
  INFO(model.status().message());
  REQUIRE(model.ok());
  return *model;
}

// "float32 3": broadcasts of the model's values, one of each dtype, as torch 2.15 has them.
std::vector<std::string> broadcasts(const Recording& recording, std::size_t from = 0,
                                    Index root = 0) {
  std::vector<std::string> out;
  for (std::size_t k = from; k < recording.records.size(); ++k) {
    const auto* op = std::get_if<Broadcast>(&recording.records[k].op.what);
    if (op == nullptr || op->data.dtype == DType::int32) continue;  // numbers that ranks compare
    CHECK(op->root == root);
    out.push_back(fmt::format("{} {}", name_of(op->data.dtype), op->data.numel.value));
  }
  return out;
}

// How often the buffers are sent: the only numbers of this dtype.
int buffer_broadcasts(const Recording& recording, std::size_t from = 0, Index root = 0) {
  const auto all = broadcasts(recording, from, root);
  return static_cast<int>(std::count(all.begin(), all.end(), "int64 1"));
}

TEST_CASE("buffers are read from a module tree", "[reduce][buffers]") {
  const Model model = normed();
  REQUIRE(model.buffers.size() == 2);
  CHECK(model.buffers[0].name == "norm.running_mean");
  CHECK(model.buffers[0].bytes() == Bytes{12});
  CHECK(model.buffers[1].dtype == DType::int64);
  CHECK(model.buffers[1].module == model.find_module("norm"));
  std::string twice = tree;
  twice.replace(twice.find("\"batches\""), 9, "\"weight\"");
  CHECK(parse_model(twice, "test").status().message().find("used twice in one module") !=
        std::string::npos);
}

// As torch's `_sync_module_states` in messages of 250 MiB: one is sent when it has them.
TEST_CASE("what ranks are sent at set-up goes in messages of 250 MiB and what crosses that",
          "[reduce][buffers]") {
  constexpr std::int64_t mebi = (std::int64_t{1} << 20) / 4;  // elements of float32
  const auto sent = [](std::vector<std::int64_t> sizes) {
    std::string parameters;
    for (const std::int64_t size : sizes) {
      parameters += fmt::format(R"({}{{"name": "p{}", "shape": [{}]}})",
                                parameters.empty() ? "" : ", ", size, size);
    }
    const auto model = parse_model(
        R"({"tessera_model": 1, "name": "wide", "root": {"name": "", "class": "Wide",
            "parameters": [)" +
            parameters + "]}}",
        "test");
    INFO(model.status().message());
    REQUIRE(model.ok());
    Recording recording;
    const auto runtime = make_recording_runtime(2, recording);
    REQUIRE(replicate(*runtime, *model, {}).ok());
    std::vector<std::string> all = broadcasts(recording);
    std::erase_if(all, [](const std::string& line) { return line.starts_with("int64"); });
    return all;
  };
  using Lines = std::vector<std::string>;
  const auto line = [](std::int64_t numel) { return fmt::format("float32 {}", numel); };
  CHECK(sent({100 * mebi, 150 * mebi, 7}) == Lines{line(250 * mebi), line(7)});
  CHECK(sent({100 * mebi, 150 * mebi - 1, 7}) == Lines{line(250 * mebi + 6)});
  CHECK(sent({260 * mebi, 300 * mebi, 7}) == Lines{line(260 * mebi), line(300 * mebi), line(7)});
}

TEST_CASE("what ranks are sent goes by dtypes, parameters and buffers together at set-up",
          "[reduce][buffers]") {
  const Model model = normed();
  Recording recording;
  const auto runtime = make_recording_runtime(2, recording);
  auto engine = replicate(*runtime, model, {});
  REQUIRE(engine.ok());
  using Lines = std::vector<std::string>;
  CHECK(broadcasts(recording) == Lines{"int64 6", "float32 15", "int64 1"});  // sizes before
  const Lines buffers = {"float32 3", "int64 1"};
  const auto sent = [&](const TrainingOptions& training) {
    const std::size_t before = recording.records.size();
    test::require_ok(run_training_step(**engine, model, training));
    return broadcasts(recording, before);
  };
  CHECK(sent({}) == buffers);
  // The forward pass of an evaluation takes what the step before it changed, and changes nothing.
  CHECK(sent({.passes = {{.kind = TrainingPass::Kind::evaluate}}}) == buffers);
  CHECK(sent({}).empty());
  CHECK(sent({}) == buffers);
}

TEST_CASE("buffers follow rank 0", "[reduce][buffers]") {
  const Model model = normed();
  Recording recording;
  const auto runtime = make_recording_runtime(2, recording);
  ReplicateOptions options;
  TrainingOptions training{.accumulation = 3};
  int at_setup = 1;
  std::vector<int> expected = {3, 3};
  SECTION("at every forward") {}
  SECTION("not after a forward without synchronisation") {
    training.sync_every_micro_batch = false;
    expected = {1, 1};  // the first micro-batch follows the last one, which synchronised
  }
  SECTION("never, if not wanted") {
    options.broadcast_buffers = false;
    expected = {0, 0};
  }
  SECTION("not those of ignored modules") {
    options.ignored_modules = {"norm"};
    at_setup = 0;
    expected = {0, 0};
  }
  SECTION("not at set-up without init_sync") {
    options.init_sync = false;
    at_setup = 0;
  }
  auto engine = replicate(*runtime, model, options);
  REQUIRE(engine.ok());
  CHECK(buffer_broadcasts(recording) == at_setup);
  for (int count : expected) {
    const std::size_t before = recording.records.size();
    test::require_ok(run_training_step(**engine, model, training));
    CHECK(buffer_broadcasts(recording, before) == count);
  }
}

TEST_CASE("with uneven inputs buffers follow the largest rank that has some",
          "[reduce][buffers][join]") {
  const Model model = normed();
  Recording recording;
  const auto runtime = make_recording_runtime(4, recording);
  auto engine = replicate(*runtime, model, {});
  REQUIRE(engine.ok());
  auto join = Join::enter(**engine);
  const std::size_t before = recording.records.size();
  test::require_ok(join->step(RankSet::of({1, 2})));
  test::require_ok(run_training_step(**engine, model, {}));
  CHECK(buffer_broadcasts(recording, before, 2) == 1);
}

TEST_CASE("buffers run with real numbers", "[reduce][buffers][numerics]") {
  const Model model = normed();
  test::Replicas replicas(3, model, {});
  test::require_ok(replicas.engine->initialise(test::initial_value));
  for (int step = 0; step < 3; ++step) {
    test::require_ok(run_training_step(*replicas.engine, model, {}));
  }
  test::require_ok(replicas.runtime->finish());
}

}  // namespace
}  // namespace tessera
