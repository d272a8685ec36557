// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "training/language/layers.h"

namespace tessera::language {
namespace {

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
    call.math->norm_forward(norm_, call.work.x, temporary.weights.vector(call, slots_.weight),
                            temporary.weights.vector(call, slots_.bias, 1), call.work.y,
                            saved.normal, saved.reciprocal);
  }

  void backward(const Call& call) const override {
    const Saved saved(*this, call.saved);
    const Temporary temporary(*this, call.temporary);
    if (slots_.last) {
      call.math->clear({call.work.dx, DType::float32}, shape_.tokens() * shape_.width);
    }
    call.math->norm_backward(norm_, call.work.dy, temporary.weights.vector(call, slots_.weight),
                             saved.normal, saved.reciprocal, call.work.dx, temporary.sums,
                             call.work.scratch);
    Weights::add(call, slots_.weight, temporary.sums);
    Weights::add(call, slots_.bias, temporary.sums + shape_.width);
  }

 private:
  struct Saved {
    Saved(const NormLayer& l, std::byte* base)
        : arena(base),
          normal(arena.take(l.shape_.tokens() * l.shape_.width, l.shape_.dtype)),
          reciprocal(arena.floats(l.shape_.tokens())) {}
    Arena arena;
    kernels::Array normal;
    float* reciprocal;
  };
  struct Temporary {
    Temporary(const NormLayer& l, std::byte* base)
        : arena(base),
          weights(l.shape_, 0, l.shape_.width, arena),
          sums(arena.floats(2 * l.shape_.width)) {}
    Arena arena;
    Weights weights;
    float* sums;
  };

  const Shape& shape_;
  const NormSlots slots_;
  const kernels::NormShape norm_;
};

}  // namespace

MadeLayer norm(const Shape& shape, const NormSlots& slots) {
  return std::unique_ptr<Layer>(std::make_unique<NormLayer>(shape, slots));
}

}  // namespace tessera::language
