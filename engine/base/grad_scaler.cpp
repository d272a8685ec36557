// SPDX-License-Identifier: Apache-2.0
#include "tessera/grad_scaler.h"

#include <fmt/format.h>

#include <cmath>

#include "engine/base/optimizer_step.h"
#include "engine/numbers/arithmetic.h"
#include "tessera/assert.h"

namespace tessera {

/// The operations on an engine's gradients.
class ScaledGradients {
 public:
  explicit ScaledGradients(ShardedState& state) : state_(state), issuer_(state.issuer()) {}

  Status setup();
  Status expect_idle(const char* call) const {
    return state_.parts().calls.expect(CallOrder::Stage::idle, call);
  }
  Status unscale(float scale);
  /// None: the runtime keeps no numbers.
  Result<std::optional<bool>> read_found();
  Status skip_step() { return state_.parts().optimizer.skip(); }

 private:
  ShardedState& state_;
  Issuer& issuer_;
  CommunicatorId everyone_;
  BufferId found_;  // 1 if a gradient overflowed, from unscale until it is read
  EventId unscaled_;
};

namespace {

Compute unscaled(Compute work, const std::vector<ParamShard*>& shards, const View& found,
                 float factor) {
  std::vector<DType> gradients;
  for (const ParamShard* shard : shards) {
    const View& gradient = shard->gradient;
    if (!gradient.buffer.valid()) continue;
    gradients.push_back(gradient.dtype);
    work.writes.push_back(gradient);
    work.cost.elementwise_bytes +=
        2 * static_cast<double>(bytes_of(gradient.numel, gradient.dtype).value);
  }
  work.reads = work.writes;
  work.zeroed = {work.writes.size()};
  work.writes.push_back(found);
  work.body = [gradients = std::move(gradients), factor](const BodyContext& context) {
    const Elements overflowed{context.write(gradients.size()), DType::float32};
    for (std::size_t k = 0; k < gradients.size(); ++k) {
      context.kernels().unscale({context.write(k), gradients[k]}, factor, overflowed);
    }
  };
  return work;
}

}  // namespace

Status ScaledGradients::setup() {
  const auto count = static_cast<Index>(issuer_.runtime().world().count());
  if (count == 1) return {};
  TESSERA_ASSIGN(const RankGroups groups, RankGroups::strided(count, count));
  TESSERA_ASSIGN(everyone_, issuer_.runtime().create_communicator(groups, "found_inf"));
  return {};
}

// Whether a step is skipped is agreed on by all ranks: one engine call holds for all of them.
Status ScaledGradients::unscale(float scale) {
  TESSERA_ASSERT(!found_.valid(), "the step before has read its flag");
  TESSERA_TRY(state_.parts().optimizer.complete_gradients());
  const Cause why = issuer_.cause("", Reason::unscale);
  const StreamId compute = issuer_.compute_stream();
  TESSERA_ASSIGN(found_, issuer_.allocate_answer("found_inf", why));
  const View one = View::whole(found_, DType::float32, Numel{1});
  // The reciprocal in double, as the original's.
  const auto factor = static_cast<float>(1.0 / static_cast<double>(scale));
  auto work = [&](const auto& shards) {
    return unscaled(state_.shard_work(), shards, one, factor);
  };
  TESSERA_TRY(issuer_.submit_by_shard(issuer_.active(), why, state_.all_shards(), work).status());
  if (everyone_.valid()) {
    TESSERA_TRY(issuer_
                    .submit_on(issuer_.runtime().world(), compute, why,
                               AllReduce{everyone_, one, one, Reduction::max})
                    .status());
  }
  TESSERA_ASSIGN(unscaled_,
                 issuer_.submit_on(issuer_.runtime().world(), compute, why, declare_read({one})));
  return {};
}

Result<std::optional<bool>> ScaledGradients::read_found() {
  const auto values = issuer_.runtime().read(View::whole(found_, DType::float32, Numel{1}));
  if (!values.ok() && values.status().code() != Code::not_supported) return values.status();
  std::optional<bool> found;
  if (values.ok()) {
    TESSERA_ASSIGN(const float flag, values->uniform("found_inf"));
    found = flag != 0;
  } else {
    TESSERA_TRY(issuer_.runtime().wait(unscaled_));
  }
  TESSERA_TRY(issuer_.release(found_, unscaled_));
  return found;
}

namespace {

class EngineGradScaler final : public GradScaler {
 public:
  EngineGradScaler(Engine& engine, ShardedState& state, const GradScalerOptions& options)
      : engine_(engine), gradients_(state), options_(options), scale_(options.loss_scale) {}

  Status setup() { return options_.enabled ? gradients_.setup() : Status{}; }

  float scale() const override { return options_.enabled ? scale_.value() : 1; }

  Status unscale() override {
    if (!options_.enabled) return {};
    TESSERA_TRY(gradients_.expect_idle("unscale"));
    if (state_ == State::unscaled) {
      return refuse("unscale() has already been called on this optimizer since the last update()");
    }
    if (state_ == State::stepped) return refuse("unscale() is being called after step()");
    TESSERA_TRY(gradients_.unscale(scale_.value()));
    state_ = State::unscaled;
    return {};
  }

  Result<bool> step(const AdamOptions& options) override {
    if (!options_.enabled) {
      TESSERA_TRY(engine_.step(options));
      return true;
    }
    if (state_ == State::stepped) {
      return refuse("step() has already been called since the last update()");
    }
    if (state_ == State::ready) TESSERA_TRY(unscale());
    TESSERA_ASSIGN(const auto found, gradients_.read_found());
    found_ = found.value_or(options_.overflows_without_numbers &&
                            options_.overflows_without_numbers(steps_));
    TESSERA_TRY(found_ ? gradients_.skip_step() : engine_.step(options));
    ++steps_;
    state_ = State::stepped;
    return !found_;
  }

  Status update() override {
    if (!options_.enabled) return {};
    if (state_ != State::stepped) {
      return refuse("No inf checks were recorded prior to update(): call step() before");
    }
    state_ = State::ready;
    return scale_.update(found_);
  }

  bool skipped() const override { return found_; }
  LossScale::State state() const override { return scale_.state(); }
  void load(const LossScale::State& state) override { scale_.load(state); }

 private:
  enum class State : std::uint8_t { ready, unscaled, stepped };

  static Status refuse(const char* why) { return Status(Code::invalid_argument, why); }

  Engine& engine_;
  ScaledGradients gradients_;
  const GradScalerOptions options_;
  LossScale scale_;
  State state_ = State::ready;
  bool found_ = false;
  std::int64_t steps_ = 0;
};

Status check(const LossScaleOptions& o) {
  auto bad = [](const char* what, auto found) {
    return Status(Code::invalid_argument, fmt::format("{}, found {}", what, found));
  };
  if (!(o.initial_scale > 0) || !std::isfinite(o.initial_scale)) {
    return bad("initial_scale must be finite and above 0", o.initial_scale);
  }
  if (!(o.growth_factor >= 1)) return bad("growth_factor must be at least 1", o.growth_factor);
  if (!(o.backoff_factor > 0 && o.backoff_factor <= 1)) {
    return bad("backoff_factor must be above 0 and at most 1", o.backoff_factor);
  }
  if (o.growth_interval < 1) return bad("growth_interval must be at least 1", o.growth_interval);
  if (o.hysteresis < 1) return bad("hysteresis must be at least 1", o.hysteresis);
  if (!(o.min_scale >= 0)) return bad("min_scale must be at least 0", o.min_scale);
  return {};
}

}  // namespace

Result<std::unique_ptr<GradScaler>> grad_scaler(Engine& engine, const GradScalerOptions& options) {
  ShardedState* const state = engine.sharded_state();
  if (state == nullptr) {
    return Status(Code::not_supported, "gradients can only be scaled of an engine of this library");
  }
  TESSERA_TRY(check(options.loss_scale));
  auto scaler = std::make_unique<EngineGradScaler>(engine, *state, options);
  TESSERA_TRY(scaler->setup());
  return std::unique_ptr<GradScaler>(std::move(scaler));
}

}  // namespace tessera
