// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "training/language/affine.h"
#include "training/language/block_input.h"
#include "training/language/layers.h"

namespace tessera::language {
namespace {

using kernels::Array;
using kernels::ConstArray;

// y += down(activation(up(x))), or y += down(activation(gate(x)) * up(x)).
class MlpLayer final : public Layer {
 public:
  MlpLayer(const Shape& shape, const MlpSlots& slots, bool gated)
      : shape_(shape),
        slots_(slots),
        branch_(shape, slots.out_dropout, slots.branch),
        input_(shape, slots.norm),
        gated_(gated) {}

  Status prepare(kernels::MathPlan& plan) {
    const AffineShape in{.rows = shape_.tokens(),
                         .in = shape_.width,
                         .out = slots_.inner,
                         .out_in = slots_.out_in,
                         .bias = slots_.up_bias.read >= 0,
                         .fp8 = shape_.fp8};
    const AffineShape out{.rows = shape_.tokens(),
                          .in = slots_.inner,
                          .out = shape_.width,
                          .out_in = slots_.out_in,
                          .bias = slots_.down_bias.read >= 0,
                          .residual = true,
                          .fp8 = shape_.fp8};
    TESSERA_ASSIGN(up_, Affine::prepare(plan, shape_, in));
    TESSERA_ASSIGN(down_, Affine::prepare(plan, shape_, out));
    TESSERA_ASSIGN(up_adapter_, Adapter::prepare(plan, shape_, in, slots_.up_adapter));
    TESSERA_ASSIGN(gate_adapter_, Adapter::prepare(plan, shape_, in, slots_.gate_adapter));
    TESSERA_ASSIGN(down_adapter_, Adapter::prepare(plan, shape_, out, slots_.down_adapter));
    return {};
  }

  Bytes saves() const override { return Saved(*this, nullptr, nullptr).kept.used(); }
  Bytes temporary(bool backward) const override {
    return Temporary(*this, nullptr, backward).arena.used();
  }

  void forward(const Call& call) const override {
    const Temporary own(*this, call.temporary, false);
    const Saved saved(*this, call.saved, own.again);
    input_.keep(call, branch_, saved.input);
    project(call, saved, own);
    activate(call, saved);
    call.poll();
    const Array sum = branch_.begin(call, own.branch);
    down_.forward(call, saved.activated, own.weights.matrix(call, slots_.down_weight),
                  own.weights.vector(call, slots_.down_bias), sum);
    down_adapter_.forward(call, saved.activated, own.weights, saved.adapted_down, sum);
    branch_.add(call, own.branch);
  }

  void backward(const Call& call) const override {
    const Temporary own(*this, call.temporary, true);
    const Saved saved(*this, call.saved, own.again);
    input_.restore(saved.input);
    if (shape_.recompute.ffn) project(call, saved, own);
    if (shape_.recompute.ffn || shape_.recompute.activation) activate(call, saved);
    const ConstArray dx =
        branch_.gradient(call, own.converted, bias_gradient(call, slots_.down_bias, own));
    down_.weight_gradient(call, saved.activated, dx, call.gradient(slots_.down_weight));
    back_down(call, dx, saved, own);
    // d(up) = d * f(gate), d(gate) = d * up * f'(gate).
    const Array up = gated_ ? own.gate : own.up;
    if (gated_) multiply(call, own, saved.gate_slope, own.gate, slots_.up_bias);
    multiply(call, own, saved.up_slope, own.up, gated_ ? slots_.gate_bias : slots_.up_bias);
    call.poll();
    const Array to = branch_.input_gradient(call);
    const Array x = saved.input.input;
    through(call, own, x, up, slots_.up_weight, branch_.adds_to_gradient());
    up_adapter_.backward(call, x, up, own.weights, saved.adapted_up, own.adapted, to);
    if (gated_) {
      through(call, own, x, own.up, slots_.gate_weight, true);
      gate_adapter_.backward(call, x, own.up, own.weights, saved.adapted_gate, own.adapted, to);
    }
    input_.hand_back(call, saved.input);
  }

 private:
  std::int64_t largest_matrix() const {
    return std::max({shape_.width * slots_.inner, up_adapter_.matrix_numel(),
                     gate_adapter_.matrix_numel(), down_adapter_.matrix_numel()});
  }
  std::int64_t inner() const { return shape_.tokens() * slots_.inner; }

  /// What lives from forward to backward, and what either makes for itself.
  struct Saved {
    Saved(const MlpLayer& l, std::byte* base, std::byte* own) : kept(base), again(own) {
      const Recompute& what = l.shape_.recompute;
      const auto take = [&](bool repeated, std::int64_t numel) {
        return (repeated ? again : kept).take(numel, l.shape_.dtype);
      };
      const std::int64_t gates = l.gated_ ? l.inner() : 0;
      input = l.input_.take(kept, again);
      up = take(what.ffn, l.inner());
      gate = take(what.ffn, gates);
      activated = take(what.ffn || what.activation, l.inner());
      // Derivatives take the place of what is not read again.
      const bool apart = what.activation && !what.ffn;
      up_slope = apart ? take(true, l.inner()) : up;
      gate_slope = apart ? take(true, gates) : gate;
      adapted_up = take(what.ffn, l.up_adapter_.numel());
      adapted_gate = take(what.ffn, l.gate_adapter_.numel());
      adapted_down = take(false, l.down_adapter_.numel());
    }
    Arena kept, again;
    BlockInput::Saved input;
    Array up, gate, activated, up_slope, gate_slope;
    Array adapted_up, adapted_gate, adapted_down;
  };
  struct Temporary {
    Temporary(const MlpLayer& l, std::byte* base, bool backward)
        : arena(base),
          weights(l.shape_, l.largest_matrix(), std::max(l.slots_.inner, l.shape_.width), arena),
          again(arena.bytes(Saved(l, nullptr, nullptr).again.used())) {
      if (!backward) {
        branch = arena.take(l.branch_.numel(), DType::float32);
        return;
      }
      if (l.branch_.converts()) {
        converted = arena.take(l.shape_.tokens() * l.shape_.width, l.shape_.dtype);
      }
      up = arena.take(l.inner(), l.shape_.dtype);
      gate = arena.take(l.gated_ ? l.inner() : 0, l.shape_.dtype);
      sums = arena.floats(std::max(l.slots_.inner, l.shape_.width));
      adapted = arena.take(
          std::max({l.up_adapter_.numel(), l.gate_adapter_.numel(), l.down_adapter_.numel()}),
          l.shape_.dtype);
      if (l.down_adapter_.exists()) inner_sums = arena.take(l.inner(), DType::float32);
    }
    Arena arena;
    Weights weights;
    std::byte* again;
    Array branch, converted, up, gate, adapted, inner_sums;
    float* sums = nullptr;
  };

  void project(const Call& call, const Saved& saved, const Temporary& own) const {
    const Array x = saved.input.input;
    up_.forward(call, x, own.weights.matrix(call, slots_.up_weight),
                own.weights.vector(call, slots_.up_bias), saved.up);
    up_adapter_.forward(call, x, own.weights, saved.adapted_up, saved.up);
    if (!gated_) return;
    up_.forward(call, x, own.weights.matrix(call, slots_.gate_weight),
                own.weights.vector(call, slots_.gate_bias), saved.gate);
    gate_adapter_.forward(call, x, own.weights, saved.adapted_gate, saved.gate);
  }

  void activate(const Call& call, const Saved& saved) const {
    if (saved.up_slope.data != saved.up.data) {
      call.math->convert(saved.up, saved.up_slope, inner());
      if (gated_) call.math->convert(saved.gate, saved.gate_slope, inner());
    }
    if (gated_) {
      call.math->activate_gated(slots_.activation, saved.gate_slope, saved.up_slope,
                                saved.activated, inner());
    } else {
      call.math->activate(slots_.activation, saved.up_slope, saved.activated, inner());
    }
  }

  void through(const Call& call, const Temporary& own, ConstArray x, ConstArray dy,
               const Slot& weight, bool add) const {
    up_.weight_gradient(call, x, dy, call.gradient(weight));
    up_.input_gradient(call, dy, own.weights.matrix(call, weight), branch_.input_gradient(call),
                       add);
  }

  // Sums of gradients are float32.
  void back_down(const Call& call, ConstArray dx, const Saved& saved, const Temporary& own) const {
    const void* weight = own.weights.matrix(call, slots_.down_weight);
    if (!down_adapter_.exists()) return down_.input_gradient(call, dx, weight, own.up);
    down_.input_gradient(call, dx, weight, own.inner_sums);
    down_adapter_.backward(call, saved.activated, dx, own.weights, saved.adapted_down, own.adapted,
                           own.inner_sums);
    call.math->convert(own.inner_sums, own.up, inner());
  }

  // to = own.up times `factor`, the gradient of a projection with this bias.
  void multiply(const Call& call, const Temporary& own, ConstArray factor, Array to,
                const Slot& bias) const {
    call.math->multiply_rows(own.up, factor, to, shape_.tokens(), slots_.inner,
                             bias_gradient(call, bias, own));
  }

  static kernels::ColumnGradient bias_gradient(const Call& call, const Slot& slot,
                                               const Temporary& own) {
    return {call.gradient(slot), own.sums, call.work.scratch};
  }

  const Shape& shape_;
  const MlpSlots slots_;
  const Branch branch_;
  const BlockInput input_;
  const bool gated_;
  Affine up_, down_;  // gate has the shape of up
  Adapter up_adapter_, gate_adapter_, down_adapter_;
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
