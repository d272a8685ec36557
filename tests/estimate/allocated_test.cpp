// SPDX-License-Identifier: Apache-2.0
// What engines really allocate against the ZeRO paper's formulas (arXiv 1910.02054, section 5).
#include <algorithm>
#include <catch2/catch.hpp>

#include "tessera/estimate.h"
#include "tessera/recording.h"
#include "tessera/scheme.h"
#include "tessera/training.h"
#include "tests/schemes/zero3/net3.h"

namespace tessera {
namespace {

// The most bytes at once of some classes of memory on rank 0, in two steps.
Bytes most(const Model& model, const Scheme& scheme, Rank ranks,
           const std::vector<MemoryClass>& classes) {
  Recording recording;
  const auto runtime = make_recording_runtime(ranks, recording);
  auto engine = make_engine(*runtime, model, scheme);
  REQUIRE(engine.ok());
  for (int step = 0; step < 2; ++step) {
    REQUIRE(run_training_step(**engine, model, {.sync_every_micro_batch = false}).ok());
  }
  Bytes live{};
  Bytes peak{};
  for (const Record& r : recording.records) {
    if (r.kind != Record::Kind::allocate && r.kind != Record::Kind::release) continue;
    const auto& buffer = recording.buffers[r.buffer.index()];
    const bool counts =
        std::find(classes.begin(), classes.end(), buffer.memory_class) != classes.end();
    if (!counts || !r.where.contains(0)) continue;
    live += buffer.bytes * (r.kind == Record::Kind::allocate ? 1 : -1);
    peak = std::max(peak, live);
  }
  return peak;
}

// Gradients of the module that runs, gathered parameters and buckets come on top.
TEST_CASE("engines keep exactly the model states of the ZeRO paper", "[estimate]") {
  using enum MemoryClass;
  const auto ranks = GENERATE(1, 4, 16, 64);
  const Model model = test::net3({.widths = {64, 64, 64, 64}});
  const double parameters = 3 * 64 * 64;
  const auto formula = [&](std::int32_t stage) {
    return static_cast<std::int64_t>(zero_model_states(stage, parameters, ranks));
  };
  INFO(ranks << " ranks");
  const Zero12Options first{.stage = 1, .param_dtype = DType::bfloat16};
  CHECK(most(model, first, ranks, {unsharded_parameters, unsharded_gradients, optimizer_state})
            .value == formula(1));
  const Zero12Options second{.stage = 2, .param_dtype = DType::bfloat16};
  CHECK(most(model, second, ranks, {unsharded_parameters, sharded_gradients, optimizer_state})
            .value == formula(2));
  Zero3Options third;
  third.param_dtype = DType::bfloat16;
  CHECK(most(model, third, ranks, {sharded_parameters, sharded_gradients, optimizer_state}).value ==
        formula(3));
}

}  // namespace
}  // namespace tessera
