// SPDX-License-Identifier: Apache-2.0
// What other parts of the library may ask of an engine, and what a runtime remembers of engines.
#include "engine/base/sharded_state.h"

#include <catch2/catch.hpp>

#include "tessera/checkpoint.h"
#include "tessera/grad_scaler.h"
#include "tessera/optimizer_state.h"
#include "tessera/recording.h"
#include "tessera/summon.h"
#include "tests/base/every_scheme.h"

namespace tessera {
namespace {

void check_unsupported(const Status& status, const std::string& part) {
  INFO(status.message());
  CHECK(status.code() == Code::not_supported);
  CHECK(status.message().find(part) != std::string::npos);
}

// An engine of somebody else, who shares nothing: steps are another engine's.
class Foreign final : public Engine {
 public:
  explicit Foreign(Engine& inner) : inner_(inner) {}
  Status next_forward(const ForwardPass& pass) override { return inner_.next_forward(pass); }
  Status begin_forward() override { return inner_.begin_forward(); }
  Status pre_forward(ModuleId m) override { return inner_.pre_forward(m); }
  Status post_forward(ModuleId m) override { return inner_.post_forward(m); }
  Status begin_backward() override { return inner_.begin_backward(); }
  Status pre_backward(ModuleId m) override { return inner_.pre_backward(m); }
  Status grad_ready(ParameterId p) override { return inner_.grad_ready(p); }
  Status post_backward(ModuleId m) override { return inner_.post_backward(m); }
  Status end_backward() override { return inner_.end_backward(); }
  Status recompute_begin(ModuleId m) override { return inner_.recompute_begin(m); }
  Status recompute_end(ModuleId m) override { return inner_.recompute_end(m); }
  void set_requires_gradient_sync(bool) override {}
  Status compute(const ModuleWork& work) override { return inner_.compute(work); }
  Status keep_activations(const ModuleWork& w) override { return inner_.keep_activations(w); }
  Status restore_activations(const ModuleWork& w) override { return inner_.restore_activations(w); }
  Status free_activations(ModuleId m) override { return inner_.free_activations(m); }
  StreamId compute_stream() const override { return inner_.compute_stream(); }
  Status step(const AdamOptions& options) override { return inner_.step(options); }
  Status set_param_groups(const std::vector<ParamGroup>&) override { return {}; }
  Status add_param_group(const ParamGroup&) override { return {}; }
  Status set_adam(std::size_t, const AdamOverrides&) override { return {}; }
  const std::vector<ParamGroup>& param_groups() const override { return inner_.param_groups(); }
  Status clip_grad_norm(float, double, const std::function<void(Rank, float)>&) override {
    return {};
  }
  Status initialise(const std::function<float(ParameterId, Numel)>&) override { return {}; }
  Status inspect_shards(ParameterId,
                        const std::function<void(Rank, Numel, std::span<const float>)>&) override {
    return {};
  }
  std::vector<UnitInfo> units() const override { return {}; }

 private:
  Engine& inner_;
};

}  // namespace

TEST_CASE("an engine without shards trains, and is refused where shards are needed") {
  const Model model = test::g3();
  test::EveryScheme run(0, 2, model);
  Foreign foreign(*run.engine);
  test::require_ok(run_training_step(foreign, model, test::formula_training(model)));
  check_unsupported(summon_full_params(foreign, {}).status(), "can only be summoned from");
  check_unsupported(grad_scaler(foreign, {}).status(), "an engine of this library");
  check_unsupported(consolidate_optimizer_state(foreign, {}).status(), "an engine of this library");
  check_unsupported(load_optimizer_state(foreign, {}), "an engine of this library");
}

TEST_CASE("the shards of every scheme hold each parameter once among those that share") {
  const Model model = test::g3();
  test::EveryScheme run(GENERATE(range(0, test::EveryScheme::count)), 2, model);
  INFO(run.name);
  ShardedState& state = *run.engine->sharded_state();
  test::require_ok(state.load_shards(/*moments=*/false));
  const ShardGroups groups = state.shard_groups();
  std::vector<std::int64_t> held(model.parameters.size(), 0);
  for (const ParamShard* shard : state.all_shards()) {
    CHECK(shard->values().buffer.valid());
    for (Rank rank = 0; rank < groups.size; ++rank) {
      if (shard->whole && rank > 0) continue;
      for (const ShardPiece& piece : shard->map.pieces(state.index_of(*shard, rank))) {
        held[static_cast<std::size_t>(piece.parameter.value)] += piece.numel.value;
      }
    }
  }
  for (std::size_t p = 0; p < held.size(); ++p) {
    INFO(model.parameters[p].name);
    CHECK(held[p] == model.parameters[p].numel().value);
  }
}

TEST_CASE("a name that a runtime keeps is one copy, which outlives who asked for it") {
  Recording recording;
  const auto runtime = make_recording_runtime(2, recording);
  std::string_view kept;
  {
    const std::string name = "bucket " + std::to_string(7);
    kept = runtime->keep_name(name);
    CHECK(kept.data() != name.data());
  }
  CHECK(kept == "bucket 7");
  for (int i = 0; i < 100; ++i) runtime->keep_name("bucket " + std::to_string(i));
  CHECK(runtime->keep_name("bucket 7").data() == kept.data());
}

TEST_CASE("a model is driven while one of its engines lives, on that runtime alone") {
  Recording recording;
  const auto runtime = make_recording_runtime(2, recording);
  const auto other = make_recording_runtime(2, recording);
  const Model model = test::g3();
  auto first = runtime->drive(model);
  auto second = runtime->drive(model);
  CHECK(runtime->is_driven(model));
  CHECK_FALSE(other->is_driven(model));
  second.reset();
  CHECK(runtime->is_driven(model));
  first.reset();
  CHECK_FALSE(runtime->is_driven(model));
}

}  // namespace tessera
