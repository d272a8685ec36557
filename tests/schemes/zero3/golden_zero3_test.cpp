// SPDX-License-Identifier: Apache-2.0
// The order of operations of zero3 against runs recorded with DeepSpeed 0.9.0.
#include <catch2/catch.hpp>
#include <fstream>
#include <regex>

#include "tessera/recording.h"
#include "tessera/training.h"
#include "tessera/zero3.h"
#include "tests/schemes/zero3/net3.h"

namespace tessera {
namespace {

// Where the recorded runs left DeepSpeed's defaults.
struct Recorded {
  const char* file;
  test::Net3Options model;
  std::int64_t prefetch_bucket = 0;
  std::int64_t max_reuse_distance = 0;
  std::int64_t persistence_threshold = 0;
  std::int64_t reduce_bucket = 1000;
  Rank ranks = 2;
  bool on_nvme = false;

  Zero3Options options() const {
    Zero3Options o{.policy = Zero3Policy::compatible,
                   .prefetch_bucket = Numel{prefetch_bucket},
                   .max_reuse_distance = Numel{max_reuse_distance},
                   .persistence_threshold = Numel{persistence_threshold},
                   .reduce_bucket = Numel{reduce_bucket},
                   .sub_group_size = Numel{1'000'000'000'000}};
    if (!on_nvme) return o;
    o.offload_param = {.device = Offload::Device::nvme, .buffer_size = Numel{64}};
    o.aio.smallest = Bytes{0};    // every parameter of this small model
    o.aio.alignment = Bytes{16};  // the recorded run's fake I/O
    return o;
  }
};

// Counters of the coordinator and its queue are not in our notation: they follow from the rest.
std::vector<std::string> golden(const std::string& name) {
  std::ifstream file(std::string(TESSERA_SOURCE_DIR) + "/tests/golden/deepspeed/" + name);
  REQUIRE(file);
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) {
    lines.push_back(std::regex_replace(line, std::regex(" avail=.* queue=.*$"), ""));
  }
  return lines;
}

void check_equal(const std::vector<std::string>& actual, const std::vector<std::string>& expected) {
  for (std::size_t i = 0; i < std::min(expected.size(), actual.size()); ++i) {
    INFO("line " << i + 1);
    REQUIRE(actual[i] == expected[i]);
  }
  CHECK(actual.size() == expected.size());
}

struct Run {
  Model model;
  Recording recording;
  std::unique_ptr<Runtime> runtime;
  std::unique_ptr<Zero3> engine;

  explicit Run(const Recorded& recorded) : Run(recorded, test::net3(recorded.model)) {}
  Run(const Recorded& recorded, const Model& made_of) : model(made_of) {
    runtime = make_recording_runtime(recorded.ranks, recording);
    auto made = zero3(*runtime, model, recorded.options());
    REQUIRE(made.ok());
    engine = std::move(*made);
  }
  void train(const TrainingOptions& options = {}) {
    const Status status = run_training_step(*engine, model, options);
    INFO(status.message());
    REQUIRE(status.ok());
  }
  std::vector<std::string> lines() const {
    return to_deepspeed_notation(recording, engine->parameters());
  }
};

TEST_CASE("zero3 does what recorded DeepSpeed runs did in the same order, line by line",
          "[zero3][golden]") {
  const auto recorded = GENERATE(values<Recorded>(
      {{.file = "base.txt"},
       {.file = "prefetch10.txt", .prefetch_bucket = 10},
       {.file = "prefetch30.txt", .prefetch_bucket = 30},
       {.file = "reuse.txt", .max_reuse_distance = 20},
       {.file = "bucket.txt", .reduce_bucket = 40},
       {.file = "frozen.txt", .model = {.widths = {4, 4, 4, 3}, .first_frozen = true}},
       {.file = "persist.txt", .model = {.biases = true}, .persistence_threshold = 6},
       {.file = "ws1.txt", .prefetch_bucket = 30, .ranks = 1},
       {.file = "xgrad.txt", .model = {.input_requires_grad = true}},
       {.file = "nvme.txt", .on_nvme = true}}));
  INFO(recorded.file);
  Run run(recorded);
  for (int step = 0; step < 3; ++step) run.train();
  check_equal(run.lines(), golden(recorded.file));
}

TEST_CASE("evaluation has an order of its own, as in the recorded DeepSpeed run",
          "[zero3][golden]") {
  Run run({.file = "eval.txt", .prefetch_bucket = 1000});
  using Kind = TrainingPass::Kind;
  for (int step = 0; step < 5; ++step) {
    const bool evaluates = step == 2 || step == 3;
    run.train({.passes = evaluates ? std::vector<TrainingPass>{{.kind = Kind::evaluate},
                                                               {.kind = Kind::train},
                                                               {.kind = Kind::step}}
                                   : std::vector<TrainingPass>{}});
  }
  check_equal(run.lines(), golden("eval.txt"));
}

// a = Linear(4, 4); c reads a's weight before it runs its Linear(4, 3).
constexpr const char* external_model = R"({
  "tessera_model": 1, "name": "external",
  "root": { "class": "Net", "modules": [
    { "name": "a", "class": "Linear", "parameters": [{ "name": "w", "shape": [4, 4] }] },
    { "name": "c", "class": "Reader", "modules": [
      { "name": "lin", "class": "Linear", "parameters": [{ "name": "w", "shape": [3, 4] }] }] }] },
  "reads": [["c", "a.w"]]
})";

TEST_CASE("a parameter that another module reads is found at its first use, as in the recorded run",
          "[zero3][golden]") {
  Result<Model> model = parse_model(external_model, "external");
  INFO(model.status().message());
  REQUIRE(model.ok());
  Run run({.file = "external.txt"}, *model);
  for (int step = 0; step < 4; ++step) run.train();
  check_equal(run.lines(), golden("external.txt"));
}

// Not here: nvme, there are no swap buffers yet.

}  // namespace
}  // namespace tessera
