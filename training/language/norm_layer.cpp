// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "training/language/layers.h"

namespace tessera::language {
namespace {

struct NormParameters {
  kernels::ConstArray weight, bias;
};

// Of one type, though a scheme may leave one of them in float32.
NormParameters parameters_of(const Call& call, const NormSlots& slots, const Weights& weights,
                             float* own) {
  NormParameters out{weights.about_one(call, slots.weight, own),
                     weights.vector(call, slots.bias, 1)};
  if (out.bias.data == nullptr || out.bias.dtype == out.weight.dtype) return out;
  return {weights.wide_vector(call, slots.weight, 0), weights.wide_vector(call, slots.bias, 1)};
}

class NormLayer final : public Layer {
 public:
  NormLayer(const Shape& shape, const NormSlots& slots)
      : shape_(shape),
        slots_(slots),
        norm_{shape.tokens(), shape.width, slots.bias.read >= 0, slots.epsilon} {}

  Bytes saves() const override { return Saved(*this, nullptr).arena.used(); }
  Bytes temporary(bool) const override { return Temporary(*this, nullptr).arena.used(); }

  void forward(const Call& call) const override {
    const Saved saved(*this, call.saved);
    const Temporary temporary(*this, call.temporary);
    const auto [weight, bias] = parameters_of(call, slots_, temporary.weights, temporary.scale);
    call.math->norm_forward(norm_, call.work.x, weight, bias, call.work.y, normal(call, saved),
                            saved.reciprocal);
    if (!slots_.repeated) return;
    std::copy_n(weight.as<float>(), shape_.width, call.work.norm_weight);
    if (norm_.centred) std::copy_n(bias.as<float>(), shape_.width, call.work.norm_bias);
  }

  void backward(const Call& call) const override {
    const Saved saved(*this, call.saved);
    const Temporary temporary(*this, call.temporary);
    if (slots_.last) {
      call.math->clear({call.work.dx, DType::float32}, shape_.tokens() * shape_.width);
    }
    call.math->norm_backward(norm_, call.work.dy,
                             temporary.weights.about_one(call, slots_.weight, temporary.scale),
                             normal(call, saved), saved.reciprocal, call.work.dx,
                             {call.gradient(slots_.weight), call.gradient(slots_.bias),
                              temporary.sums, call.work.scratch});
  }

 private:
  struct Saved {
    Saved(const NormLayer& l, std::byte* base)
        : arena(base),
          normal(arena.take(l.slots_.repeated ? 0 : l.shape_.tokens() * l.shape_.width,
                            l.shape_.dtype)),
          reciprocal(arena.floats(l.shape_.tokens())) {}
    Arena arena;
    kernels::Array normal;
    float* reciprocal;
  };
  kernels::Array normal(const Call& call, const Saved& saved) const {
    return slots_.repeated ? call.work.normal : saved.normal;
  }
  struct Temporary {
    Temporary(const NormLayer& l, std::byte* base)
        : arena(base),
          weights(l.shape_, 0, l.shape_.width, arena),
          sums(arena.floats(2 * l.shape_.width)),
          scale(l.slots_.about_one ? arena.floats(l.shape_.width) : nullptr) {}
    Arena arena;
    Weights weights;
    float* sums;
    float* scale;
  };

  const Shape& shape_;
  const NormSlots slots_;
  const kernels::NormShape norm_;
};

class NormBehind final : public Layer {
 public:
  NormBehind(const Shape& shape, const NormSlots& slots)
      : shape_(shape),
        slots_(slots),
        norm_{shape.tokens(), shape.width, slots.bias.read >= 0, slots.epsilon} {}

  Bytes saves() const override { return Saved(*this, nullptr).arena.used(); }
  Bytes temporary(bool) const override { return Temporary(*this, nullptr).arena.used(); }

  void forward(const Call& call) const override {
    const Saved saved(*this, call.saved);
    const Temporary own(*this, call.temporary);
    const auto [weight, bias] = parameters_of(call, slots_, own.weights, own.scale);
    call.math->norm_forward(norm_, call.work.dy, weight, bias, own.out, saved.normal,
                            saved.reciprocal);
    const Array sum{call.work.dy, DType::float32};
    call.math->convert(own.out, sum, numel());
    call.math->accumulate(call.work.dy, {call.work.x, DType::float32}, numel());
  }

  void backward(const Call& call) const override {
    const Saved saved(*this, call.saved);
    const Temporary own(*this, call.temporary);
    call.math->clear({call.work.dy, DType::float32}, numel());
    call.math->norm_backward(
        norm_, call.work.dx, own.weights.about_one(call, slots_.weight, own.scale), saved.normal,
        saved.reciprocal, call.work.dy,
        {call.gradient(slots_.weight), call.gradient(slots_.bias), own.sums, call.work.scratch});
  }

 private:
  using Array = kernels::Array;

  std::int64_t numel() const { return shape_.tokens() * shape_.width; }

  struct Saved {
    Saved(const NormBehind& l, std::byte* base)
        : arena(base),
          normal(arena.take(l.numel(), l.shape_.dtype)),
          reciprocal(arena.floats(l.shape_.tokens())) {}
    Arena arena;
    Array normal;
    float* reciprocal;
  };
  struct Temporary {
    Temporary(const NormBehind& l, std::byte* base)
        : arena(base),
          weights(l.shape_, 0, l.shape_.width, arena),
          sums(arena.floats(2 * l.shape_.width)),
          scale(l.slots_.about_one ? arena.floats(l.shape_.width) : nullptr),
          out(arena.take(l.numel(), l.shape_.dtype)) {}
    Arena arena;
    Weights weights;
    float* sums;
    float* scale;
    Array out;
  };

  const Shape& shape_;
  const NormSlots slots_;
  const kernels::NormShape norm_;
};

}  // namespace

MadeLayer norm_behind(const Shape& shape, const NormSlots& slots) {
  return std::unique_ptr<Layer>(std::make_unique<NormBehind>(shape, slots));
}

MadeLayer norm(const Shape& shape, const NormSlots& slots) {
  return std::unique_ptr<Layer>(std::make_unique<NormLayer>(shape, slots));
}

}  // namespace tessera::language
