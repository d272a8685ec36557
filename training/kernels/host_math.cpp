// SPDX-License-Identifier: Apache-2.0
#include "training/kernels/host_math.h"

#include <algorithm>
#include <cstring>

#include "training/kernels/activation.h"
#include "training/kernels/cross_entropy.h"
#include "training/kernels/norm.h"
#include "training/kernels/rope.h"
#include "training/kernels/rows.h"

namespace tessera::kernels {
namespace {

constexpr std::int64_t block_alignment = 64;

std::size_t bytes(std::int64_t numel, DType dtype) {
  return static_cast<std::size_t>(numel * size_of(dtype).value);
}

std::span<const std::int32_t> ids(const TokenRows& rows) {
  return {rows.ids, static_cast<std::size_t>(rows.count)};
}

}  // namespace

void HostMath::clear(Array values, std::int64_t numel) {
  std::memset(values.data, 0, bytes(numel, values.dtype));
}

void HostMath::convert(ConstArray from, Array to, std::int64_t numel) {
  if (from.dtype == to.dtype) {
    std::memcpy(to.data, from.data, bytes(numel, to.dtype));
  } else {
    kernels::convert(from, to, numel, threads_);
  }
}

void HostMath::accumulate(const float* from, Array to, std::int64_t numel) {
  kernels::accumulate(from, to, numel);
}

void HostMath::multiply(ConstArray a, ConstArray b, Array to, std::int64_t numel) {
  kernels::multiply(a, b, to, numel, threads_);
}

void HostMath::scale(Array values, float factor, std::int64_t numel) {
  kernels::scale(values, factor, numel);
}

void HostMath::add_column_sums(ConstArray from, std::int64_t rows, std::int64_t width,
                               const ColumnGradient& to) {
  if (to.gradient.data == nullptr) return;
  kernels::column_sums(from, rows, width, to.sums, threads_);
  kernels::accumulate(to.sums, to.gradient, width);
}

void HostMath::convert_rows(ConstArray from, Array to, std::int64_t rows, std::int64_t width,
                            const ColumnGradient& sums) {
  convert(from, to, rows * width);
  add_column_sums(to, rows, width, sums);
}

void HostMath::multiply_rows(ConstArray a, ConstArray b, Array to, std::int64_t rows,
                             std::int64_t width, const ColumnGradient& sums) {
  multiply(a, b, to, rows * width);
  add_column_sums(to, rows, width, sums);
}

void HostMath::mean(const float* values, std::int64_t numel, float* to) {
  double sum = 0;
  for (std::int64_t n = 0; n < numel; ++n) sum += static_cast<double>(values[n]);
  *to = static_cast<float>(sum / static_cast<double>(numel));
}

void HostMath::gather_rows(ConstArray table, const TokenRows& rows, std::int64_t width, float* x) {
  kernels::gather_rows(table, ids(rows), width, x, threads_);
}

void HostMath::scatter_rows(const float* dx, const TokenRows& rows, std::int64_t width,
                            Array gradient) {
  kernels::scatter_rows(dx, ids(rows), width, gradient, threads_, rows.skipped);
}

void HostMath::add_positions(ConstArray table, const Positions& shape, float* x) {
  kernels::add_positions(table, shape, x, threads_);
}

void HostMath::sum_positions(const float* dx, const Positions& shape, Array gradient) {
  kernels::sum_positions(dx, shape.batch, shape.length, shape.width, gradient, threads_);
}

void HostMath::norm_forward(const NormShape& shape, const float* x, ConstArray weight,
                            ConstArray bias, Array y, Array normal, float* reciprocal) {
  kernels::norm_forward(shape, x, widened(weight, shape.width, 0), widened(bias, shape.width, 1), y,
                        normal, reciprocal, threads_);
}

void HostMath::norm_backward(const NormShape& shape, const float* dy, ConstArray weight,
                             ConstArray normal, const float* reciprocal, float* dx,
                             const NormGradients& gradients) {
  const std::int64_t w = shape.width;
  kernels::norm_backward(shape, dy, widened(weight, w, 0), normal, reciprocal, dx, gradients.sums,
                         threads_);
  if (gradients.weight.data != nullptr) kernels::accumulate(gradients.sums, gradients.weight, w);
  if (gradients.bias.data != nullptr) kernels::accumulate(gradients.sums + w, gradients.bias, w);
}

void HostMath::activate(Activation kind, Array x, Array y, std::int64_t numel) {
  kernels::activate(kind, x, y, numel, threads_);
}

void HostMath::activate_gated(Activation kind, Array gate, Array up, Array y, std::int64_t numel) {
  kernels::activate_gated(kind, gate, up, y, numel, threads_);
}

void HostMath::rotate(const RotaryRows& table, Array x, std::int64_t rows, std::int64_t heads,
                      bool inverse) {
  kernels::rotate(table, x, rows, heads, inverse, threads_);
}

void HostMath::cross_entropy(const StoredRows& rows, const float* logits,
                             const std::int32_t* targets, float scale, Array gradient,
                             float* losses) {
  kernels::cross_entropy(rows, logits, targets, scale, gradient, losses, threads_);
}

void HostMath::product(const MatmulShape& shape, const void* a, const void* b, void* c,
                       ConstArray bias, void* scratch) {
  const auto prepared = products_.prepare(shape);
  TESSERA_ASSERT(prepared.ok(), "the CPU multiplies what was prepared");
  (*prepared)->run(a, b, c, widened(bias, shape.n, 0), memory({}, {nullptr, scratch}).scratch);
}

void HostMath::attention_forward(const AttentionShape& shape, const HeadArrays<ConstArray>& in,
                                 Array out, float* statistics, const AttentionMemory& given) {
  const Attention& prepared = attention(shape);
  const AttentionMemory own = memory(prepared.temporary(), given);
  prepared.forward(in, out, statistics, own.temporary, own.scratch, scratch_per_thread());
}

void HostMath::attention_backward(const AttentionShape& shape, const HeadArrays<ConstArray>& in,
                                  const AttentionOut& out, const float* statistics,
                                  const HeadArrays<Array>& gradients,
                                  const AttentionMemory& given) {
  const Attention& prepared = attention(shape);
  const AttentionMemory own = memory(prepared.temporary(), given);
  prepared.backward(in, out.values, out.gradient, statistics, gradients, own.temporary, own.scratch,
                    scratch_per_thread());
}

Status HostMath::prepare(const MatmulShape& shape) { return products_.prepare(shape).status(); }

Status HostMath::prepare(const AttentionShape& shape) {
  if (attentions_.contains(shape)) return {};
  TESSERA_ASSIGN(Attention made, Attention::prepare(in_attention_, shape, threads_));
  attentions_.emplace(shape, std::move(made));
  return {};
}

Bytes HostMath::temporary(const AttentionShape& shape, bool) const {
  return attentions_.at(shape).temporary();
}

Bytes HostMath::scratch() const {
  return std::max(products_.scratch(), scratch_per_thread() * threads_);
}

Bytes HostMath::scratch_per_thread() const {
  return Bytes{(in_attention_.scratch().value + block_alignment - 1) / block_alignment *
               block_alignment};
}

const Attention& HostMath::attention(const AttentionShape& shape) {
  const Status prepared = prepare(shape);
  TESSERA_ASSERT(prepared.ok(), "the CPU multiplies what was prepared");
  return attentions_.at(shape);
}

const float* HostMath::widened(ConstArray values, std::int64_t numel, std::size_t place) {
  if (values.data == nullptr || values.dtype == DType::float32) return values.as<float>();
  TESSERA_ASSERT(memory_ == Memory::own, "halves are widened where memory was planned for it");
  std::vector<float>& to = widened_[place];
  to.resize(static_cast<std::size_t>(numel));
  kernels::convert(values, {to.data(), DType::float32}, numel, threads_);
  return to.data();
}

AttentionMemory HostMath::memory(Bytes temporary, const AttentionMemory& given) {
  if (memory_ == Memory::given) return given;
  const Bytes wanted = temporary + scratch() + Bytes{2 * block_alignment};
  if (own_.size() < static_cast<std::size_t>(wanted.value)) {
    own_.resize(static_cast<std::size_t>(wanted.value));
  }
  const auto begin = reinterpret_cast<std::uintptr_t>(own_.data());
  std::byte* const aligned =
      own_.data() + (block_alignment - begin % block_alignment) % block_alignment;
  return {aligned,
          aligned + (temporary.value + block_alignment - 1) / block_alignment * block_alignment};
}

}  // namespace tessera::kernels
