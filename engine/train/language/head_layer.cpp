// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "engine/kernels/cross_entropy.h"
#include "engine/train/language/affine.h"
#include "engine/train/language/layers.h"

namespace tessera::language {
namespace {

using kernels::Array;

constexpr std::int64_t chunk_rows = 128;

// Logits exist for some rows at a time, unless their gradient can take their place.
class HeadLayer final : public Layer {
 public:
  HeadLayer(const Shape& shape, const HeadSlots& slots) : shape_(shape), slots_(slots) {}

  Status prepare(kernels::Matmuls& matmuls) {
    AffineShape all{
        .rows = shape_.tokens(), .in = shape_.width, .out = slots_.vocabulary, .out_in = true};
    TESSERA_ASSIGN(back_, Affine::prepare(matmuls, shape_, all));
    kernels::MatmulShape some{
        .n = all.out, .k = all.in, .input = shape_.dtype, .b_transposed = true};
    for (int last = 0; last < 2; ++last) {
      some.m = last == 0 ? chunk() : (shape_.tokens() - 1) % chunk() + 1;
      TESSERA_ASSIGN(logits_[last], matmuls.prepare(some));
    }
    return {};
  }

  Bytes saves() const override { return Saved(*this, nullptr).room.used(); }
  Bytes temporary(bool backward) const override {
    return Temporary(*this, nullptr, backward).room.used();
  }

  void forward(const Call& call) const override {
    const Saved saved(*this, call.saved);
    const Temporary own(*this, call.temporary, false);
    const std::int64_t v = slots_.vocabulary;
    keep_input(call, shape_, saved.input);
    const void* weight = own.weights.matrix(call, slots_.weight);
    for (std::int64_t first = 0; first < shape_.tokens(); first += chunk()) {
      const std::int64_t rows = std::min(chunk(), shape_.tokens() - first);
      const Array gradient = saved.gradient.from(first * v);
      float* const logits = own.logits != nullptr ? own.logits : gradient.as<float>();
      logits_[first + rows == shape_.tokens()]->run(saved.input.from(first * shape_.width).data,
                                                    weight, logits, nullptr, call.work.scratch);
      kernels::cross_entropy(logits, call.work.targets + first, rows, v, call.gradient_scale,
                             gradient, own.losses + first, shape_.threads);
      call.poll();
    }
    double sum = 0;
    for (std::int64_t n = 0; n < shape_.tokens(); ++n) sum += static_cast<double>(own.losses[n]);
    *call.loss = static_cast<float>(sum / static_cast<double>(shape_.tokens()));
  }

  void backward(const Call& call) const override {
    const Saved saved(*this, call.saved);
    const Temporary own(*this, call.temporary, true);
    back_.weight_gradient(call, saved.input, saved.gradient, call.gradient(slots_.weight));
    back_.input_gradient(call, saved.gradient, own.weights.matrix(call, slots_.weight),
                         {call.work.dy, DType::float32});
  }

 private:
  std::int64_t chunk() const { return std::min(chunk_rows, shape_.tokens()); }

  struct Saved {
    Saved(const HeadLayer& l, std::byte* base)
        : room(base),
          input(room.take(l.shape_.tokens() * l.shape_.width, l.shape_.dtype)),
          gradient(room.take(l.shape_.tokens() * l.slots_.vocabulary, l.shape_.dtype)) {}
    Room room;
    Array input, gradient;
  };
  struct Temporary {
    Temporary(const HeadLayer& l, std::byte* base, bool backward)
        : room(base), weights(l.shape_, l.shape_.width * l.slots_.vocabulary, 0, room) {
      if (backward) return;
      losses = room.floats(l.shape_.tokens());
      if (l.shape_.dtype != DType::float32) {
        logits = room.floats(l.chunk() * l.slots_.vocabulary);
      }
    }
    Room room;
    Weights weights;
    float* losses = nullptr;
    float* logits = nullptr;
  };

  const Shape& shape_;
  const HeadSlots slots_;
  Affine back_;
  const kernels::Matmul* logits_[2] = {};  // of a chunk, of the last
};

}  // namespace

MadeLayer head(kernels::Matmuls& matmuls, const Shape& shape, const HeadSlots& slots) {
  auto layer = std::make_unique<HeadLayer>(shape, slots);
  TESSERA_TRY(layer->prepare(matmuls));
  return std::unique_ptr<Layer>(std::move(layer));
}

}  // namespace tessera::language
