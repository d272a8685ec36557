// SPDX-License-Identifier: Apache-2.0
// Helpers of the tests of summon_full_params: engines of every scheme, shards put together without
// summoning, and an Engine that calls the test in the middle of a step.
#pragma once

#include <bit>
#include <catch2/catch.hpp>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tessera/fsdp1.h"
#include "tessera/fully_shard.h"
#include "tessera/replicate.h"
#include "tessera/summon.h"
#include "tessera/zero12.h"
#include "tessera/zero3.h"
#include "tests/base/models.h"
#include "tests/require_ok.h"

namespace tessera::test {

struct SummonScheme {
  std::string name;
  std::function<Result<std::unique_ptr<Engine>>(Runtime&, const Model&,
                                                const std::vector<std::string>& units)>
      make;
};

inline SummonScheme flat_scheme(const std::string& name, Fsdp1Options options) {
  return {name,
          [options](Runtime& runtime, const Model& model, const std::vector<std::string>& units) {
            Fsdp1Options full = options;
            full.units = units;
            const bool hybrid = options.strategy >= ShardingStrategy::hybrid_shard;
            const Rank ranks = runtime.world().count();
            if (hybrid) full.shard_group = ranks % 2 == 0 ? 2 : ranks;
            return fsdp1(runtime, model, full);
          }};
}

inline SummonScheme dim0_scheme(const std::string& name, FullyShardOptions options,
                                bool hybrid = false) {
  return {name,
          [=](Runtime& runtime, const Model& model,
              const std::vector<std::string>& units) -> Result<std::unique_ptr<Engine>> {
            FullyShardOptions full = options;
            full.units = units;
            const Rank ranks = runtime.world().count();
            if (hybrid) full.shard_group = ranks % 2 == 0 ? 2 : ranks;
            TESSERA_ASSIGN(auto engine, fully_shard(runtime, model, full));
            return std::unique_ptr<Engine>(std::move(engine));
          }};
}

/// Units that all ranks share, that every rank has whole, and that half of the ranks share.
inline SummonScheme units_with_meshes() {
  return {"meshes of units",
          [](Runtime& runtime, const Model& model,
             const std::vector<std::string>& units) -> Result<std::unique_ptr<Engine>> {
            const Rank ranks = runtime.world().count();
            std::vector<std::string> paths = units;
            for (const Module& m : model.modules) {
              if (units.empty() && m.is_block) paths.push_back(m.path);
            }
            WrapContext context(model);
            TESSERA_ASSIGN(const auto scope, context.enable_wrap());
            for (std::size_t k = 0; k < paths.size(); ++k) {
              const Index group = k == 0 ? 0 : k == 1 ? 1 : static_cast<Index>((ranks + 1) / 2);
              const bool divides = group == 0 || ranks % group == 0;
              TESSERA_TRY(context.wrap(paths[k], {.shard_group = divides ? group : 0}));
            }
            TESSERA_ASSIGN(WrapPlan plan, context.plan({}));
            TESSERA_ASSIGN(auto engine, fully_shard(runtime, model, {.plan = std::move(plan)}));
            return std::unique_ptr<Engine>(std::move(engine));
          }};
}

inline std::vector<SummonScheme> summon_schemes() {
  using enum ShardingStrategy;
  std::vector<SummonScheme> all;
  all.push_back(dim0_scheme("fully_shard", {}));
  all.push_back(
      {"replicate", [](Runtime& runtime, const Model& model, const std::vector<std::string>&) {
         return replicate(runtime, model, {});
       }});
  for (const bool strict : {true, false}) {
    all.push_back({strict ? "zero3" : "zero3 as DeepSpeed",
                   [strict](Runtime& runtime, const Model& model,
                            const std::vector<std::string>&) -> Result<std::unique_ptr<Engine>> {
                     Zero3Options o;
                     o.policy = strict ? Zero3Policy::strict : Zero3Policy::compatible;
                     TESSERA_ASSIGN(auto engine, zero3(runtime, model, o));
                     return std::unique_ptr<Engine>(std::move(engine));
                   }});
  }
  all.push_back(flat_scheme("full_shard", {}));
  all.push_back(flat_scheme("original parameters", {.use_orig_params = true}));
  all.push_back(flat_scheme("shard_grad_op", {.strategy = shard_grad_op}));
  all.push_back(flat_scheme("no_shard", {.strategy = no_shard}));
  all.push_back(flat_scheme("hybrid_shard", {.strategy = hybrid_shard}));
  all.push_back(flat_scheme("hybrid_shard_zero2", {.strategy = hybrid_shard_zero2}));
  all.push_back(flat_scheme("offload", {.offload_params = true}));
  all.push_back(flat_scheme("hybrid offload", {.strategy = hybrid_shard, .offload_params = true}));
  all.push_back(dim0_scheme("hybrid fully_shard", {}, /*hybrid=*/true));
  all.push_back(dim0_scheme("hybrid fully_shard, offload", {.offload_params = true}, true));
  all.push_back(units_with_meshes());
  for (const std::int32_t stage : {1, 2}) {
    all.push_back({"zero" + std::to_string(stage),
                   [stage](Runtime& runtime, const Model& model, const std::vector<std::string>&) {
                     return zero12(runtime, model, {.stage = stage});
                   }});
  }
  return all;
}

inline ParameterId parameter_at(std::size_t place) {
  return ParameterId{static_cast<std::int32_t>(place)};
}

inline std::uint32_t bits(float value) { return std::bit_cast<std::uint32_t>(value); }

/// All shards of all ranks, by rank, parameter and flat index.
struct Shards {
  struct Piece {
    Rank rank;
    ParameterId parameter;
    Numel first;
    std::vector<float> values;
  };
  std::vector<Piece> pieces;

  Shards(Engine& engine, const Model& model) {
    for (std::size_t p = 0; p < model.parameters.size(); ++p) {
      const ParameterId id = parameter_at(p);
      require_ok(
          engine.inspect_shards(id, [&](Rank rank, Numel first, std::span<const float> values) {
            pieces.push_back({rank, id, first, {values.begin(), values.end()}});
          }));
    }
  }

  /// The whole parameter; replicas must agree.
  std::vector<float> full(const Model& model, ParameterId id) const {
    std::vector<float> out(static_cast<std::size_t>(model.parameter(id).numel().value));
    for (const Piece& piece : pieces) {
      if (piece.parameter != id) continue;
      std::copy(piece.values.begin(), piece.values.end(),
                out.begin() + static_cast<std::ptrdiff_t>(piece.first.value));
    }
    return out;
  }

  /// How many elements are not expected(rank, parameter, flat index), bit for bit.
  std::size_t different(
      const std::function<float(Rank, ParameterId, std::size_t)>& expected) const {
    std::size_t count = 0;
    for (const Piece& piece : pieces) {
      for (std::size_t i = 0; i < piece.values.size(); ++i) {
        const std::size_t at = static_cast<std::size_t>(piece.first.value) + i;
        count += bits(piece.values[i]) != bits(expected(piece.rank, piece.parameter, at)) ? 1 : 0;
      }
    }
    return count;
  }
};

/// Forwards everything; calls the test before forward, in forward, in backward and before the
/// optimizer.
class Interrupted final : public Engine {
 public:
  using Call = std::function<void()>;

  explicit Interrupted(Engine& inner) : inner_(inner) {}
  Call before_forward, in_forward, in_backward, before_step;

  Status next_forward(const ForwardPass& pass) override { return inner_.next_forward(pass); }
  Status begin_forward() override { return call(before_forward), inner_.begin_forward(); }
  Status pre_forward(ModuleId m) override { return inner_.pre_forward(m); }
  Status post_forward(ModuleId m) override { return call(in_forward), inner_.post_forward(m); }
  Status begin_backward() override { return inner_.begin_backward(); }
  Status pre_backward(ModuleId m) override { return inner_.pre_backward(m); }
  Status grad_ready(ParameterId p) override { return inner_.grad_ready(p); }
  Status post_backward(ModuleId m) override { return call(in_backward), inner_.post_backward(m); }
  Status end_backward() override { return inner_.end_backward(); }
  Status recompute_begin(ModuleId m) override { return inner_.recompute_begin(m); }
  Status recompute_end(ModuleId m) override { return inner_.recompute_end(m); }
  Status compute(const ModuleWork& work) override { return inner_.compute(work); }
  Status keep_activations(const ModuleWork& w) override { return inner_.keep_activations(w); }
  Status restore_activations(const ModuleWork& w) override { return inner_.restore_activations(w); }
  Status free_activations(ModuleId m) override { return inner_.free_activations(m); }
  Status step(const AdamOptions& options) override {
    return call(before_step), inner_.step(options);
  }
  Status set_param_groups(const std::vector<ParamGroup>& groups) override {
    return inner_.set_param_groups(groups);
  }
  Status add_param_group(const ParamGroup& group) override { return inner_.add_param_group(group); }
  Status set_adam(std::size_t group, const AdamOverrides& adam) override {
    return inner_.set_adam(group, adam);
  }
  const std::vector<ParamGroup>& param_groups() const override { return inner_.param_groups(); }
  Status clip_grad_norm(float max_norm, double norm_type,
                        const std::function<void(Rank, float)>& total) override {
    return inner_.clip_grad_norm(max_norm, norm_type, total);
  }
  void set_requires_gradient_sync(bool sync) override { inner_.set_requires_gradient_sync(sync); }
  Status initialise(const std::function<float(ParameterId, Numel)>& value) override {
    return inner_.initialise(value);
  }
  Status inspect_shards(
      ParameterId parameter,
      const std::function<void(Rank, Numel, std::span<const float>)>& read) override {
    return inner_.inspect_shards(parameter, read);
  }
  StreamId compute_stream() const override { return inner_.compute_stream(); }
  std::vector<UnitInfo> units() const override { return inner_.units(); }

 private:
  static void call(const Call& call) {
    if (call) call();
  }

  Engine& inner_;
};

}  // namespace tessera::test
