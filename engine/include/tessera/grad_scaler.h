// SPDX-License-Identifier: Apache-2.0
// Loss scaling for gradients in float16: the loss is multiplied by a factor that keeps gradients
// from vanishing, and a step whose gradients overflowed is skipped, by all ranks or by none.
//
// The idea: whether a gradient is infinite or NaN is a flag on each rank, all-reduced with MAX over
// every rank of the engine and read once. So ranks cannot disagree, whatever they own, and a
// skipped step leaves parameters and optimizer state as they are.
//
//   TESSERA_ASSIGN(auto scaler, grad_scaler(*engine, {}));
//   ... backward with the loss times scaler->scale() ...
//   scaler->unscale();                       // only if gradients are looked at before the step
//   engine->clip_grad_norm(1.0F, 2, {});
//   TESSERA_ASSIGN(bool stepped, scaler->step(adam));
//   scaler->update();
//
// It works with every scheme. torch.amp.GradScaler and fairscale's ShardedGradScaler are the
// default; `deepspeed_loss_scale()` are the rules of DeepSpeed's DynamicLossScaler.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "tessera/engine.h"

namespace tessera {

struct LossScaleOptions {
  float initial_scale = 65536;
  float growth_factor = 2;
  float backoff_factor = 0.5F;
  std::int32_t growth_interval = 2000;  // steps without overflow until the scale grows
  /// The scale shrinks with this overflow in a row of growth intervals, the first ones only skip.
  std::int32_t hysteresis = 1;
  float min_scale = 0;  // above 0: an overflow at this scale is an error
};

/// Initial scale 2^16, window 1000, hysteresis 2, minimum 1.
LossScaleOptions deepspeed_loss_scale();

/// The scale and when it changes: arithmetic without gradients.
class LossScale {
 public:
  /// The values that a checkpoint keeps.
  struct State {
    float scale = 1;
    std::int32_t growth_tracker = 0;  // steps since the last overflow or growth
    std::int32_t hysteresis_left = 1;
  };

  explicit LossScale(const LossScaleOptions& options)
      : options_(options), state_{options.initial_scale, 0, options.hysteresis} {}

  float value() const { return state_.scale; }
  const State& state() const { return state_; }
  void load(const State& state) { state_ = state; }
  /// Adapts the scale after a step. Fails: invalid_argument (an overflow at the smallest scale).
  Status update(bool overflow);

 private:
  const LossScaleOptions options_;
  State state_;
};

struct GradScalerOptions {
  LossScaleOptions loss_scale = {};
  bool enabled = true;  // false: scale 1, no checks
  /// Whether step `n` (from 0) overflows, on runtimes that keep no numbers. None: never.
  std::function<bool(std::int64_t n)> overflows_without_numbers = {};
};

class GradScaler {
 public:
  virtual ~GradScaler() = default;

  /// The factor by which the program multiplies the loss; 1 if not enabled.
  virtual float scale() const = 0;
  /// Divides all reduced gradients by the scale, at most once between two updates.
  /// Fails: invalid_argument (twice; after step; in forward or backward).
  virtual Status unscale() = 0;
  /// Unscales if that has not happened, then steps the optimizer or, if any rank found an infinite
  /// or NaN gradient, drops the gradients. Returns whether it stepped.
  /// Fails: invalid_argument (twice before an update; what Engine::step refuses).
  virtual Result<bool> step(const AdamOptions& options) = 0;
  /// Adapts the scale. Fails: invalid_argument (no step since the last update; an overflow at the
  /// smallest scale of DeepSpeed's rules).
  virtual Status update() = 0;
  /// Whether the last step was dropped.
  virtual bool skipped() const = 0;
  /// The state for checkpoints. Call `load` between two updates.
  virtual LossScale::State state() const = 0;
  virtual void load(const LossScale::State& state) = 0;
};

/// A scaler for `engine`, which must outlive it. Fails: not_supported (an Engine that another
/// library implements), invalid_argument (a factor or an interval that makes no sense), naming it.
Result<std::unique_ptr<GradScaler>> grad_scaler(Engine& engine, const GradScalerOptions& options);

}  // namespace tessera
