// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "training/kernels/attention_onward.h"
#include "training/kernels/head_order.h"
#include "training/language/affine.h"
#include "training/language/block_input.h"
#include "training/language/head_norm.h"
#include "training/language/layers.h"

namespace tessera::language {
namespace {

using kernels::Array;
using kernels::ConstArray;

class AttentionLayer final : public Layer {
 public:
  AttentionLayer(const Shape& shape, const AttentionSlots& slots)
      : shape_(shape),
        slots_(slots),
        branch_(shape, slots.out_dropout, slots.branch),
        input_(shape, slots.norm),
        norms_{HeadNorm(shape, slots.q_norm, slots.heads, slots.head_dim),
               HeadNorm(shape, slots.k_norm, slots.kv_heads, slots.head_dim)} {
    const std::int64_t q = slots.heads * slots.head_dim;
    const std::int64_t kv = slots.kv_heads * slots.head_dim;
    if (slots.fused) {
      widths_ = {q + 2 * kv};
    } else {
      widths_ = {q, kv, kv};
    }
  }

  Status prepare(kernels::MathPlan& plan) {
    for (std::size_t k = 0; k < products(); ++k) {
      const AffineShape in{.rows = shape_.tokens(),
                           .in = shape_.width,
                           .out = product_width(k),
                           .out_in = !slots_.fused,
                           .bias = slots_.bias[k].read >= 0,
                           .fp8 = shape_.fp8};
      TESSERA_ASSIGN(in_.emplace_back(), Affine::prepare(plan, shape_, in));
      TESSERA_ASSIGN(adapters_.emplace_back(),
                     Adapter::prepare(plan, shape_, in, slots_.adapter[k]));
    }
    const AffineShape out{.rows = shape_.tokens(),
                          .in = out_width(),
                          .out = shape_.width,
                          .out_in = !slots_.fused,
                          .bias = slots_.out_bias.read >= 0,
                          .residual = true,
                          .fp8 = shape_.fp8};
    TESSERA_ASSIGN(out_, Affine::prepare(plan, shape_, out));
    TESSERA_ASSIGN(out_adapter_, Adapter::prepare(plan, shape_, out, slots_.out_adapter));
    attention_ = {.batch = shape_.batch,
                  .length = shape_.length,
                  .heads = slots_.heads,
                  .kv_heads = slots_.kv_heads,
                  .head_dim = slots_.head_dim,
                  .dtype = shape_.dtype,
                  .q_stride = widths_.front(),
                  .kv_stride = widths_.back(),
                  .window = slots_.window,
                  .scale = slots_.scale,
                  .cap = slots_.cap};
    if (decodes()) {
      attention_bytes_[0] = bytes_of(Numel{shape_.threads * shape_.context}, DType::float32);
      return {};
    }
    TESSERA_TRY(plan.prepare(attention_));
    for (const bool backward : {false, true})
      attention_bytes_[backward] = plan.temporary(attention_, backward);
    Bytes& back = attention_bytes_[true];
    if (shape_.recompute.attention) back = std::max(back, attention_bytes_[false]);
    return {};
  }

  Bytes saves() const override { return Saved(*this, {}, nullptr).arena.used(); }
  Bytes keeps() const override { return Saved(*this, {}, nullptr).kept.used(); }
  Bytes temporary(bool backward) const override {
    return Temporary(*this, nullptr, backward).arena.used();
  }

  void forward(const Call& call) const override {
    const Temporary own(*this, call.temporary, false);
    const Saved saved(*this, call, own.again);
    input_.keep(call, branch_, saved.input);
    project(call, saved, own);
    attend(call, saved, own);
    call.poll();
    const Array sum = branch_.begin(call, own.branch);
    out_.forward(call, saved.out, own.weights.matrix(call, slots_.out_weight),
                 own.weights.vector(call, slots_.out_bias), sum);
    out_adapter_.forward(call, saved.out, own.weights, saved.adapted.back(), sum);
    branch_.add(call, own.branch);
  }

  void backward(const Call& call) const override {
    const Temporary own(*this, call.temporary, true);
    const Saved saved(*this, call, own.again);
    const Recompute& what = shape_.recompute;
    input_.restore(saved.input);
    if (what.qkv || what.attention) project(call, saved, own);
    if (what.attention) attend(call, saved, own);
    const ConstArray dx =
        branch_.gradient(call, own.converted, bias_gradient(call, slots_.out_bias, own));
    out_.weight_gradient(call, saved.out, dx, call.gradient(slots_.out_weight));
    back_out(call, dx, saved, own);
    const Heads h = heads(saved.projected);
    const Heads d = heads(own.projected);
    const kernels::Dropout dropout = call.dropout(slots_.weight_dropout);
    call.math->attention_backward(attention_, in_heads(call, h, dropout), {saved.out, own.out},
                                  saved.statistics, {d.q, d.k, d.v},
                                  {own.attention, call.work.scratch});
    call.poll();
    rotate(call, own.projected, true);
    back_project(call, saved, own);
    input_.hand_back(call, saved.input);
  }

 private:
  using Heads = kernels::HeadArrays<Array>;

  std::int64_t out_width() const { return slots_.heads * slots_.head_dim; }

  /// Products of the input, of which `fused` and `interleaved` make one.
  std::size_t products() const { return slots_.interleaved ? 1 : widths_.size(); }
  std::int64_t product_width(std::size_t k) const {
    return slots_.interleaved ? widths_[0] + widths_[1] + widths_[2] : widths_[k];
  }

  std::int64_t largest_matrix() const {
    std::int64_t most = shape_.width * std::max(product_width(0), out_width());
    for (const Adapter& adapter : adapters_) most = std::max(most, adapter.matrix_numel());
    return std::max(most, out_adapter_.matrix_numel());
  }

  bool decodes() const { return shape_.context > 0; }

  std::vector<Array> take_projected(Arena& arena) const {
    const std::int64_t tokens = decodes() ? shape_.context : shape_.tokens();
    std::vector<Array> out;
    for (const std::int64_t width : widths_) {
      out.push_back(arena.take(tokens * width, shape_.dtype));
    }
    return out;
  }

  // Those of this pass's tokens.
  std::vector<Array> rows(const Call& call, std::vector<Array> projected) const {
    for (std::size_t k = 0; k < widths_.size(); ++k) {
      projected[k] = projected[k].from(call.first * widths_[k]);
    }
    return projected;
  }

  Heads heads(const std::vector<Array>& projected) const {
    if (!slots_.fused) return {projected[0], projected[1], projected[2]};
    const std::int64_t q = out_width();
    const std::int64_t kv = slots_.kv_heads * slots_.head_dim;
    return {projected[0], projected[0].from(q), projected[0].from(q + kv)};
  }

  struct Saved;
  struct Temporary;

  // Queries, keys and values of the input, rotated.
  void project(const Call& call, const Saved& saved, const Temporary& own) const {
    const Array x = saved.input.input;
    const std::vector<Array> to = rows(call, saved.projected);
    for (std::size_t k = 0; k < products(); ++k) {
      const Array y = slots_.interleaved ? own.joined : to[k];
      in_[k].forward(call, x, own.weights.matrix(call, slots_.weight[k]),
                     own.weights.vector(call, slots_.bias[k]), y);
      adapters_[k].forward(call, x, own.weights, saved.adapted[k], y);
    }
    if (slots_.interleaved) {
      kernels::split_heads(order(), own.joined, {to[0], to[1], to[2]}, shape_.threads);
    }
    for (std::size_t k = 0; k < 2; ++k) {
      if (!norms_[k].exists()) continue;
      norms_[k].forward(call, own.weights, to[k], saved.norms[k], own.norms[k]);
    }
    rotate(call, to, false);
  }

  void back_project(const Call& call, const Saved& saved, const Temporary& own) const {
    for (std::size_t k = 0; k < 2; ++k) {
      if (!norms_[k].exists()) continue;
      norms_[k].backward(call, own.weights, own.projected[k], saved.norms[k], own.norms[k]);
    }
    if (slots_.interleaved) {
      const std::vector<Array>& d = own.projected;
      kernels::join_heads(order(), {d[0], d[1], d[2]}, own.joined, shape_.threads);
    }
    const Array to = branch_.input_gradient(call);
    const Array x = saved.input.input;
    for (std::size_t k = 0; k < products(); ++k) {
      const ConstArray dy = slots_.interleaved ? own.joined : own.projected[k];
      call.math->add_column_sums(dy, shape_.tokens(), product_width(k),
                                 bias_gradient(call, slots_.bias[k], own));
      in_[k].weight_gradient(call, x, dy, call.gradient(slots_.weight[k]));
      in_[k].input_gradient(call, dy, own.weights.matrix(call, slots_.weight[k]), to,
                            k > 0 || branch_.adds_to_gradient());
      adapters_[k].backward(call, x, dy, own.weights, saved.adapted[k], own.adapted, to);
    }
  }

  kernels::HeadOrder order() const { return {shape_.tokens(), slots_.heads, slots_.head_dim}; }

  void rotate(const Call& call, const std::vector<Array>& projected, bool inverse) const {
    if (slots_.rotary_half == 0) return;
    const std::int64_t half = slots_.rotary_half;
    const float* const cosine = call.work.rotary + slots_.rotary_at + call.first * half;
    const kernels::RotaryRows table{cosine, cosine + shape_.places() * half, half, shape_.length,
                                    slots_.head_dim};
    call.math->rotate(table, projected[0], shape_.tokens(), slots_.heads, inverse);
    call.math->rotate(table, projected[1], shape_.tokens(), slots_.kv_heads, inverse);
  }

  struct Saved {
    Saved(const AttentionLayer& l, const Call& call, std::byte* own)
        : arena(call.saved), kept(call.kept), again(own) {
      const Recompute& what = l.shape_.recompute;
      Arena& of_heads = what.qkv || what.attention ? again : arena;
      Arena& of_attention = what.attention ? again : arena;
      input = l.input_.take(arena, again);
      projected = l.take_projected(l.decodes() ? kept : of_heads);
      out = of_attention.take(l.shape_.tokens() * l.out_width(), l.shape_.dtype);
      statistics = of_attention.floats(2 * l.shape_.tokens() * l.slots_.heads);
      for (const Adapter& adapter : l.adapters_) {
        adapted.push_back(of_heads.take(adapter.numel(), l.shape_.dtype));
      }
      adapted.push_back(arena.take(l.out_adapter_.numel(), l.shape_.dtype));
      for (std::size_t k = 0; k < 2; ++k) norms[k] = l.norms_[k].take_saved(of_heads);
    }
    Arena arena, kept, again;  // `again`: what a pass makes for itself
    BlockInput::Saved input;
    std::vector<Array> projected;
    Array out;
    float* statistics = nullptr;
    std::vector<Array> adapted;  // of the projections, then of the output
    HeadNorm::Saved norms[2];    // of queries and of keys
  };
  struct Temporary {
    Temporary(const AttentionLayer& l, std::byte* base, bool backward)
        : arena(base),
          weights(l.shape_, l.largest_matrix(), std::max(l.product_width(0), l.shape_.width),
                  arena),
          attention(arena.bytes(l.attention_bytes_[backward])),
          again(arena.bytes(Saved(l, {}, nullptr).again.used())) {
      if (l.slots_.interleaved) {
        joined = arena.take(l.shape_.tokens() * l.product_width(0), l.shape_.dtype);
      }
      for (std::size_t k = 0; k < 2; ++k) norms[k] = l.norms_[k].take_temporary(arena, backward);
      if (!backward) {
        branch = arena.take(l.branch_.numel(), DType::float32);
        return;
      }
      if (l.branch_.converts()) {
        converted = arena.take(l.shape_.tokens() * l.shape_.width, l.shape_.dtype);
      }
      out = arena.take(l.shape_.tokens() * l.out_width(), l.shape_.dtype);
      projected = l.take_projected(arena);
      std::int64_t most = l.out_adapter_.numel();
      for (const Adapter& adapter : l.adapters_) most = std::max(most, adapter.numel());
      adapted = arena.take(most, l.shape_.dtype);
      if (l.out_adapter_.exists()) {
        out_sums = arena.take(l.shape_.tokens() * l.out_width(), DType::float32);
      }
      sums = arena.floats(std::max(l.product_width(0), l.shape_.width));
    }
    Arena arena;
    Weights weights;
    std::byte *attention, *again;
    Array branch, converted, out, adapted, out_sums, joined;
    HeadNorm::Temporary norms[2];
    std::vector<Array> projected;
    float* sums = nullptr;
  };

  static kernels::HeadArrays<ConstArray> in_heads(const Call& call, const Heads& h,
                                                  const kernels::Dropout& dropout) {
    return {h.q, h.k, h.v, call.work.begins, dropout.share > 0 ? &dropout : nullptr};
  }

  // While decoding queries are kept, too, because they lie among keys and values.
  void attend(const Call& call, const Saved& saved, const Temporary& own) const {
    const Heads all = heads(saved.projected);
    if (!decodes()) {
      const kernels::Dropout dropout = call.dropout(slots_.weight_dropout);
      return call.math->attention_forward(attention_, in_heads(call, all, dropout), saved.out,
                                          saved.statistics, {own.attention, call.work.scratch});
    }
    const Array q = heads(rows(call, saved.projected)).q;
    kernels::attention_onward(attention_, call.first, {q, all.k, all.v}, saved.out,
                              reinterpret_cast<float*>(own.attention), shape_.threads);
  }

  // Sums of gradients are float32.
  void back_out(const Call& call, ConstArray dx, const Saved& saved, const Temporary& own) const {
    const void* weight = own.weights.matrix(call, slots_.out_weight);
    if (!out_adapter_.exists()) return out_.input_gradient(call, dx, weight, own.out);
    out_.input_gradient(call, dx, weight, own.out_sums);
    out_adapter_.backward(call, saved.out, dx, own.weights, saved.adapted.back(), own.adapted,
                          own.out_sums);
    call.math->convert(own.out_sums, own.out, shape_.tokens() * out_width());
  }

  static kernels::ColumnGradient bias_gradient(const Call& call, const Slot& slot,
                                               const Temporary& own) {
    return {call.gradient(slot), own.sums, call.work.scratch};
  }

  const Shape& shape_;
  const AttentionSlots slots_;
  const Branch branch_;
  const BlockInput input_;
  const HeadNorm norms_[2];           // of queries and of keys
  std::vector<std::int64_t> widths_;  // of the projections
  std::vector<Affine> in_;
  Affine out_;
  std::vector<Adapter> adapters_;  // of the projections
  Adapter out_adapter_;
  kernels::AttentionShape attention_;
  Bytes attention_bytes_[2] = {};  // of attention: forward, backward
};

}  // namespace

MadeLayer attention(kernels::MathPlan& plan, const Shape& shape, const AttentionSlots& slots) {
  auto layer = std::make_unique<AttentionLayer>(shape, slots);
  TESSERA_TRY(layer->prepare(plan));
  return std::unique_ptr<Layer>(std::move(layer));
}

}  // namespace tessera::language
