// SPDX-License-Identifier: Apache-2.0
#include "training/kernels/dropout.h"
#include "training/language/layers.h"

namespace tessera::language {
namespace {

class TokenEmbedding final : public Layer {
 public:
  TokenEmbedding(const Shape& shape, const Slot& table, float scale, std::int32_t padding_token)
      : shape_(shape), table_(table), scale_(scale), padding_token_(padding_token) {}

  Bytes saves() const override { return {}; }
  Bytes temporary(bool) const override { return {}; }

  void forward(const Call& call) const override {
    call.math->gather_rows(call.parameter(table_), rows(call), shape_.width, call.work.x);
    scale(call, call.work.x);
  }

  void backward(const Call& call) const override {
    const kernels::Array gradient = call.gradient(table_);
    if (gradient.data == nullptr) return;
    scale(call, call.work.dx);
    call.math->scatter_rows(call.work.dx, rows(call), shape_.width, gradient);
  }

 private:
  kernels::TokenRows rows(const Call& call) const {
    const std::int64_t n = shape_.tokens();
    return {call.work.tokens, call.work.tokens + 2 * n, n, padding_token_};
  }

  void scale(const Call& call, float* stream) const {
    if (scale_ == 1) return;
    call.math->scale({stream, DType::float32}, scale_, shape_.tokens() * shape_.width);
  }

  const Shape& shape_;
  const Slot table_;
  const float scale_;
  const std::int32_t padding_token_;
};

class PositionEmbedding final : public Layer {
 public:
  PositionEmbedding(const Shape& shape, const Slot& table, const DropoutSlots& dropout)
      : shape_(shape), table_(table), dropout_(dropout) {}

  Bytes saves() const override { return {}; }
  Bytes temporary(bool) const override { return {}; }

  void forward(const Call& call) const override {
    const kernels::ConstArray table = call.parameter(table_).from(call.first * shape_.width);
    kernels::Positions all = positions();
    if (shape_.documents) all.places = call.work.begins + shape_.tokens();
    call.math->add_positions(table, all, call.work.x);
    drop(call, call.work.x);
  }

  void backward(const Call& call) const override {
    drop(call, call.work.dx);
    const kernels::Array gradient = call.gradient(table_);
    if (gradient.data == nullptr) return;
    if (!shape_.documents) return call.math->sum_positions(call.work.dx, positions(), gradient);
    const std::int64_t n = shape_.tokens();
    const std::int32_t* const places = call.work.begins + n;
    call.math->scatter_rows(call.work.dx, {places, places + n, n}, shape_.width, gradient);
  }

 private:
  kernels::Positions positions() const { return {shape_.batch, shape_.length, shape_.width}; }

  void drop(const Call& call, float* x) const {
    const kernels::Dropout dropout = call.dropout(dropout_);
    if (dropout.share == 0) return;
    const kernels::Array all{x, DType::float32};
    kernels::drop(dropout, positions(), all, all, shape_.threads);
  }

  const Shape& shape_;
  const Slot table_;
  const DropoutSlots dropout_;
};

}  // namespace

MadeLayer token_embedding(const Shape& shape, const Slot& table, float scale,
                          std::int64_t padding_token) {
  return std::unique_ptr<Layer>(std::make_unique<TokenEmbedding>(
      shape, table, scale, static_cast<std::int32_t>(padding_token)));
}

MadeLayer position_embedding(const Shape& shape, const Slot& table, const DropoutSlots& dropout) {
  return std::unique_ptr<Layer>(std::make_unique<PositionEmbedding>(shape, table, dropout));
}

}  // namespace tessera::language
