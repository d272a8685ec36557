// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "training/language/affine.h"
#include "training/language/layers.h"

namespace tessera::language {
namespace {

using kernels::Array;
using kernels::ConstArray;

// y += down(activation(up(x))), or y += down(activation(gate(x)) * up(x)).
class MlpLayer final : public Layer {
 public:
  MlpLayer(const Shape& shape, const MlpSlots& slots, bool gated)
      : shape_(shape), slots_(slots), gated_(gated) {}

  Status prepare(kernels::MathPlan& plan) {
    const AffineShape in{.rows = shape_.tokens(),
                         .in = shape_.width,
                         .out = slots_.inner,
                         .out_in = gated_,
                         .bias = slots_.up_bias.read >= 0};
    TESSERA_ASSIGN(up_, Affine::prepare(plan, shape_, in));
    TESSERA_ASSIGN(down_, Affine::prepare(plan, shape_,
                                          {.rows = shape_.tokens(),
                                           .in = slots_.inner,
                                           .out = shape_.width,
                                           .out_in = gated_,
                                           .bias = slots_.down_bias.read >= 0,
                                           .residual = true}));
    return {};
  }

  Bytes saves() const override { return Saved(*this, nullptr).arena.used(); }
  Bytes temporary(bool backward) const override {
    return Temporary(*this, nullptr, backward).arena.used();
  }

  void forward(const Call& call) const override {
    const Saved saved(*this, call.saved);
    const Temporary own(*this, call.temporary, false);
    keep_input(call, shape_, saved.input);
    up_.forward(call, saved.input, own.weights.matrix(call, slots_.up_weight),
                own.weights.vector(call, slots_.up_bias), saved.up);
    if (gated_) {
      up_.forward(call, saved.input, own.weights.matrix(call, slots_.gate_weight),
                  own.weights.vector(call, slots_.gate_bias), saved.gate);
      call.math->activate_gated(slots_.activation, saved.gate, saved.up, saved.activated, inner());
    } else {
      call.math->activate(slots_.activation, saved.up, saved.activated, inner());
    }
    call.poll();
    down_.forward(call, saved.activated, own.weights.matrix(call, slots_.down_weight),
                  own.weights.vector(call, slots_.down_bias), {call.work.x, DType::float32});
  }

  void backward(const Call& call) const override {
    const Saved saved(*this, call.saved);
    const Temporary own(*this, call.temporary, true);
    ConstArray dx{call.work.dx, DType::float32};
    if (own.converted.data != nullptr) {
      call.math->convert(dx, own.converted, shape_.tokens() * shape_.width);
      dx = own.converted;
    }
    bias_gradient(call, dx, shape_.width, slots_.down_bias, own.sums);
    down_.weight_gradient(call, saved.activated, dx, call.gradient(slots_.down_weight));
    down_.input_gradient(call, dx, own.weights.matrix(call, slots_.down_weight), own.up);
    // Saved are the derivatives: forward left them there.
    if (gated_) call.math->multiply(own.up, saved.gate, own.gate, inner());
    call.math->multiply(own.up, saved.up, own.up, inner());
    call.poll();
    // d(up) = d * f(gate), d(gate) = d * up * f'(gate).
    const ConstArray up = gated_ ? own.gate : own.up;
    through(call, own, saved.input, up, slots_.up_weight, slots_.up_bias, false);
    if (gated_) {
      through(call, own, saved.input, own.up, slots_.gate_weight, slots_.gate_bias, true);
    }
  }

 private:
  std::int64_t inner() const { return shape_.tokens() * slots_.inner; }

  struct Saved {
    Saved(const MlpLayer& l, std::byte* base)
        : arena(base),
          input(arena.take(l.shape_.tokens() * l.shape_.width, l.shape_.dtype)),
          up(arena.take(l.inner(), l.shape_.dtype)),
          gate(arena.take(l.gated_ ? l.inner() : 0, l.shape_.dtype)),
          activated(arena.take(l.inner(), l.shape_.dtype)) {}
    Arena arena;
    Array input, up, gate, activated;
  };
  struct Temporary {
    Temporary(const MlpLayer& l, std::byte* base, bool backward)
        : arena(base),
          weights(l.shape_, l.shape_.width * l.slots_.inner,
                  std::max(l.slots_.inner, l.shape_.width), arena) {
      if (!backward) return;
      if (l.shape_.dtype != DType::float32) {
        converted = arena.take(l.shape_.tokens() * l.shape_.width, l.shape_.dtype);
      }
      up = arena.take(l.inner(), l.shape_.dtype);
      gate = arena.take(l.gated_ ? l.inner() : 0, l.shape_.dtype);
      sums = arena.floats(std::max(l.slots_.inner, l.shape_.width));
    }
    Arena arena;
    Weights weights;
    Array converted, up, gate;
    float* sums = nullptr;
  };

  void through(const Call& call, const Temporary& own, ConstArray x, ConstArray dy,
               const Slot& weight, const Slot& bias, bool add) const {
    bias_gradient(call, dy, slots_.inner, bias, own.sums);
    up_.weight_gradient(call, x, dy, call.gradient(weight));
    up_.input_gradient(call, dy, own.weights.matrix(call, weight), {call.work.dy, DType::float32},
                       add);
  }

  void bias_gradient(const Call& call, ConstArray from, std::int64_t width, const Slot& slot,
                     float* sums) const {
    if (slot.write < 0) return;
    call.math->column_sums(from, shape_.tokens(), width, sums);
    Weights::add(call, slot, sums);
  }

  const Shape& shape_;
  const MlpSlots slots_;
  const bool gated_;
  Affine up_, down_;  // gate has the shape of up
};

MadeLayer made(kernels::MathPlan& plan, const Shape& shape, const MlpSlots& slots, bool gated) {
  auto layer = std::make_unique<MlpLayer>(shape, slots, gated);
  TESSERA_TRY(layer->prepare(plan));
  return std::unique_ptr<Layer>(std::move(layer));
}

}  // namespace

MadeLayer plain_mlp(kernels::MathPlan& plan, const Shape& shape, const MlpSlots& slots) {
  return made(plan, shape, slots, false);
}

MadeLayer gated_mlp(kernels::MathPlan& plan, const Shape& shape, const MlpSlots& slots) {
  return made(plan, shape, slots, true);
}

}  // namespace tessera::language
