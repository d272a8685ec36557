// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "training/kernels/cross_entropy.h"
#include "training/language/affine.h"
#include "training/language/layers.h"

namespace tessera::language {
namespace {

using kernels::Array;

// Logits exist for some rows at a time, unless their gradient can take their place.
class HeadLayer final : public Layer {
 public:
  HeadLayer(const Shape& shape, const HeadSlots& slots) : shape_(shape), slots_(slots) {}

  Status prepare(kernels::MathPlan& plan) {
    stride_ = plan.logits_stride(slots_.vocabulary);
    const AffineShape all{.rows = shape_.tokens(),
                          .in = shape_.width,
                          .out = slots_.vocabulary,
                          .out_in = true,
                          .out_stride = stride_};
    TESSERA_ASSIGN(back_, Affine::prepare(plan, shape_, all));
    chunk_ = std::min(plan.logits_rows(), shape_.tokens());
    logits_ = {.n = all.out,
               .k = all.in,
               .input = shape_.dtype,
               .b_transposed = true,
               .c_stride = stride_};
    for (const std::int64_t rows : {chunk_, (shape_.tokens() - 1) % chunk_ + 1}) {
      logits_.m = rows;
      TESSERA_TRY(plan.prepare(logits_));
    }
    return {};
  }

  Bytes saves() const override { return Saved(*this, nullptr).arena.used(); }
  Bytes temporary(bool backward) const override {
    return Temporary(*this, nullptr, backward).arena.used();
  }

  void forward(const Call& call) const override {
    const Saved saved(*this, call.saved);
    const Temporary own(*this, call.temporary, false);
    const std::int32_t* const targets = call.work.tokens + shape_.tokens();
    keep_input(call, shape_, saved.input);
    const void* weight = own.weights.matrix(call, slots_.weight);
    for (std::int64_t first = 0; first < shape_.tokens(); first += chunk_) {
      const std::int64_t rows = std::min(chunk_, shape_.tokens() - first);
      const Array gradient = saved.gradient.from(first * stride_);
      float* const logits = own.logits != nullptr ? own.logits : gradient.as<float>();
      kernels::MatmulShape shape = logits_;
      shape.m = rows;
      call.math->product(shape, saved.input.from(first * shape_.width).data, weight, logits, {},
                         call.work.scratch);
      const kernels::StoredRows stored{rows, slots_.vocabulary, stride_};
      if (slots_.cap > 0) {
        kernels::cap_logits(stored, slots_.cap, logits, own.slopes, shape_.threads);
      }
      call.math->cross_entropy(stored, logits, targets + first, call.gradient_scale, gradient,
                               own.losses + first);
      if (slots_.cap > 0) {
        kernels::cap_logits_back(stored, own.slopes, gradient, shape_.threads);
      }
      call.poll();
    }
    call.math->mean(own.losses, shape_.tokens(), own.losses);
    call.give_loss(own.losses);
  }

  void backward(const Call& call) const override {
    const Saved saved(*this, call.saved);
    const Temporary own(*this, call.temporary, true);
    back_.weight_gradient(call, saved.input, saved.gradient, call.gradient(slots_.weight));
    back_.input_gradient(call, saved.gradient, own.weights.matrix(call, slots_.weight),
                         {call.work.dy, DType::float32});
  }

 private:
  struct Saved {
    Saved(const HeadLayer& l, std::byte* base)
        : arena(base),
          input(arena.take(l.shape_.tokens() * l.shape_.width, l.shape_.dtype)),
          gradient(arena.take(l.shape_.tokens() * l.stride_, l.shape_.dtype)) {}
    Arena arena;
    Array input, gradient;
  };
  struct Temporary {
    Temporary(const HeadLayer& l, std::byte* base, bool backward)
        : arena(base), weights(l.shape_, l.shape_.width * l.slots_.vocabulary, 0, arena) {
      if (backward) return;
      losses = arena.floats(l.shape_.tokens());
      if (l.shape_.dtype != DType::float32) {
        logits = arena.floats(l.chunk_ * l.stride_);
      }
      if (l.slots_.cap > 0) slopes = arena.floats(l.chunk_ * l.stride_);
    }
    Arena arena;
    Weights weights;
    float* losses = nullptr;
    float* logits = nullptr;
    float* slopes = nullptr;
  };

  const Shape& shape_;
  const HeadSlots slots_;
  Affine back_;
  kernels::MatmulShape logits_;  // of one row after another
  std::int64_t chunk_ = 1;       // rows
  std::int64_t stride_ = 1;      // of logits and their gradient
};

}  // namespace

MadeLayer head(kernels::MathPlan& plan, const Shape& shape, const HeadSlots& slots) {
  auto layer = std::make_unique<HeadLayer>(shape, slots);
  TESSERA_TRY(layer->prepare(plan));
  return std::unique_ptr<Layer>(std::move(layer));
}

}  // namespace tessera::language
