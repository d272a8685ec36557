// SPDX-License-Identifier: Apache-2.0
// A strict engine that a test drives by hand, with the runtime's own account beside it.
#pragma once

#include <algorithm>
#include <catch2/catch.hpp>

#include "tessera/recording.h"
#include "tessera/training.h"
#include "tessera/zero3.h"
#include "tests/schemes/zero3/net3.h"

namespace tessera::test {

struct StrictRun {
  Model model;
  Recording recording;
  std::unique_ptr<Runtime> runtime;
  std::unique_ptr<Zero3> engine;

  explicit StrictRun(Zero3Options options = {}, const Model& made_of = net3(), Rank ranks = 2)
      : model(made_of), runtime(make_recording_runtime(ranks, recording)) {
    auto made = zero3(*runtime, model, options);
    INFO(made.status().message());
    REQUIRE(made.ok());
    engine = std::move(*made);
  }

  void ok(const Status& status) {
    INFO(status.message());
    REQUIRE(status.ok());
    check_account();
  }
  void forward(const std::vector<ModuleId>& order) {
    ok(engine->begin_forward());
    ok(engine->pre_forward(ModuleId{0}));
    for (ModuleId module : order) {
      ok(engine->pre_forward(module));
      ok(engine->compute({.module = module}));
      ok(engine->post_forward(module));
    }
    ok(engine->post_forward(ModuleId{0}));
  }
  void backward(std::vector<ModuleId> order) {
    ok(engine->begin_backward());
    ok(engine->pre_backward(ModuleId{0}));
    std::reverse(order.begin(), order.end());
    for (ModuleId module : order) {
      ok(engine->pre_backward(module));
      ok(engine->compute({.module = module, .pass = ModuleWork::Pass::backward}));
      ok(engine->post_backward(module));
    }
    ok(engine->post_backward(ModuleId{0}));
    ok(engine->end_backward());
  }
  void pass(const std::vector<ModuleId>& order) {
    forward(order);
    backward(order);
  }
  void train(int steps, const TrainingOptions& training = {}) {
    for (int step = 0; step < steps; ++step) ok(run_training_step(*engine, model, training));
  }

  /// The runtime's account up to now; `peak` at any allocation before.
  void check_account() {
    for (; counted_ < recording.records.size(); ++counted_) {
      const Record& record = recording.records[counted_];
      if (record.kind != Record::Kind::allocate && record.kind != Record::Kind::release) continue;
      const auto& buffer = recording.buffers[record.buffer.index()];
      if (buffer.memory_class != MemoryClass::unsharded_parameters &&
          buffer.memory_class != MemoryClass::all_gather_buffers) {
        continue;
      }
      live += record.kind == Record::Kind::allocate ? buffer.bytes : -buffer.bytes;
      peak = std::max(peak, live);
    }
    CHECK(engine->live_bytes() == live);
    if (engine->live_budget()) CHECK(peak <= *engine->live_budget());
  }
  /// Marks of this kind with the name of `what` since the record `from`.
  std::ptrdiff_t count(Mark::Kind kind, const std::string& what, std::size_t from = 0) const {
    return std::count_if(
        recording.records.begin() + static_cast<std::ptrdiff_t>(from), recording.records.end(),
        [&](const Record& record) {
          const auto* mark =
              record.kind == Record::Kind::op ? std::get_if<Mark>(&record.op.what) : nullptr;
          return mark != nullptr && mark->kind == kind && record.cause.module == what;
        });
  }
  std::string why(const std::string& parameter) const {
    for (const LiveParameter& p : engine->live()) {
      if (p.name == parameter) return p.why();
    }
    return "not live";
  }

  Bytes live{}, peak{};

 private:
  std::size_t counted_ = 0;
};

}  // namespace tessera::test
