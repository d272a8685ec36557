// SPDX-License-Identifier: Apache-2.0
#include "engine/kernels/rows.h"
#include "engine/train/language/layers.h"

namespace tessera::language {
namespace {

class TokenEmbedding final : public Layer {
 public:
  TokenEmbedding(const Shape& shape, const Slot& table) : shape_(shape), table_(table) {}

  Bytes saves() const override { return {}; }
  Bytes temporary(bool) const override { return {}; }

  void forward(const Call& call) const override {
    kernels::gather_rows(call.parameter(table_), ids(call), shape_.width, call.work.x,
                         shape_.threads);
  }

  void backward(const Call& call) const override {
    const kernels::Array gradient = call.gradient(table_);
    if (gradient.data == nullptr) return;
    kernels::scatter_rows(call.work.dx, ids(call), shape_.width, gradient, shape_.threads);
  }

 private:
  std::span<const std::int32_t> ids(const Call& call) const {
    return {call.work.inputs, static_cast<std::size_t>(shape_.tokens())};
  }

  const Shape& shape_;
  const Slot table_;
};

class PositionEmbedding final : public Layer {
 public:
  PositionEmbedding(const Shape& shape, const Slot& table) : shape_(shape), table_(table) {}

  Bytes saves() const override { return {}; }
  Bytes temporary(bool) const override { return {}; }

  void forward(const Call& call) const override {
    kernels::add_positions(call.parameter(table_), shape_.batch, shape_.length, shape_.width,
                           call.work.x, shape_.threads);
  }

  void backward(const Call& call) const override {
    const kernels::Array gradient = call.gradient(table_);
    if (gradient.data == nullptr) return;
    kernels::sum_positions(call.work.dx, shape_.batch, shape_.length, shape_.width, gradient,
                           shape_.threads);
  }

 private:
  const Shape& shape_;
  const Slot table_;
};

}  // namespace

MadeLayer token_embedding(const Shape& shape, const Slot& table) {
  return std::unique_ptr<Layer>(std::make_unique<TokenEmbedding>(shape, table));
}

MadeLayer position_embedding(const Shape& shape, const Slot& table) {
  return std::unique_ptr<Layer>(std::make_unique<PositionEmbedding>(shape, table));
}

}  // namespace tessera::language
