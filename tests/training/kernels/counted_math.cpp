// SPDX-License-Identifier: Apache-2.0
#include "tests/training/kernels/counted_math.h"

namespace tessera::test {
namespace {

double bytes_per(DType dtype) { return static_cast<double>(size_of(dtype).value); }
double numbers(std::int64_t a, std::int64_t b) {
  return static_cast<double>(a) * static_cast<double>(b);
}

// One launch each; parts of a product that cuBLASLt adds afterwards are not known here.
class CountedProducts final : public device::Products {
 public:
  int run(const kernels::MatmulShape&, const device::ProductOperands&, CudaStream) override {
    ++device::emulator::launched.kernels;
    return 0;
  }
};

// What one score costs a product, over all scores that a causal mask leaves.
double attention_flops(const kernels::AttentionShape& s) {
  const auto length = static_cast<double>(s.length);
  return 2 * numbers(s.batch, s.heads) * length * (length + 1) / 2 *
         static_cast<double>(s.head_dim);
}
double head_bytes(const kernels::AttentionShape& s, double of_queries, double of_keys) {
  return numbers(s.batch, s.length) * static_cast<double>(s.head_dim) * bytes_per(s.dtype) *
         (of_queries * static_cast<double>(s.heads) + of_keys * static_cast<double>(s.kv_heads));
}

}  // namespace

std::unique_ptr<DeviceMath> CountedMath::make() {
  auto made = device::make_kernel_math(std::make_unique<CountedProducts>());
  made->use(nullptr);
  return made;
}

std::int64_t CountedMath::launches() const {
  std::int64_t all = 0;
  for (const auto& [name, one] : counts_) all += one.launches;
  return all;
}

void CountedMath::clear(Array values, std::int64_t numel) {
  count("clear", numbers(numel, 1) * bytes_per(values.dtype), 0,
        [&] { real_->clear(values, numel); });
}

void CountedMath::convert(ConstArray from, Array to, std::int64_t numel) {
  count("convert", numbers(numel, 1) * (bytes_per(from.dtype) + bytes_per(to.dtype)), 0,
        [&] { real_->convert(from, to, numel); });
}

void CountedMath::accumulate(const float* from, Array to, std::int64_t numel) {
  count("accumulate", numbers(numel, 1) * (4 + 2 * bytes_per(to.dtype)), 0,
        [&] { real_->accumulate(from, to, numel); });
}

void CountedMath::multiply(ConstArray a, ConstArray b, Array to, std::int64_t numel) {
  count("multiply", numbers(numel, 3) * bytes_per(to.dtype), 0,
        [&] { real_->multiply(a, b, to, numel); });
}

void CountedMath::scale(Array values, float factor, std::int64_t numel) {
  count("scale", numbers(numel, 2) * bytes_per(values.dtype), 0,
        [&] { real_->scale(values, factor, numel); });
}

void CountedMath::add_column_sums(ConstArray from, std::int64_t rows, std::int64_t width,
                                  const kernels::ColumnGradient& to) {
  const double all = to.gradient.data == nullptr ? 0 : numbers(rows, width);
  count("column sums", all * bytes_per(from.dtype), 0,
        [&] { real_->add_column_sums(from, rows, width, to); });
}

void CountedMath::convert_rows(ConstArray from, Array to, std::int64_t rows, std::int64_t width,
                               const kernels::ColumnGradient& sums) {
  count("convert", numbers(rows, width) * (bytes_per(from.dtype) + bytes_per(to.dtype)), 0,
        [&] { real_->convert_rows(from, to, rows, width, sums); });
}

void CountedMath::multiply_rows(ConstArray a, ConstArray b, Array to, std::int64_t rows,
                                std::int64_t width, const kernels::ColumnGradient& sums) {
  count("multiply", 3 * numbers(rows, width) * bytes_per(to.dtype), 0,
        [&] { real_->multiply_rows(a, b, to, rows, width, sums); });
}

void CountedMath::mean(const float* values, std::int64_t numel, float* to) {
  count("mean", numbers(numel, 4), 0, [&] { real_->mean(values, numel, to); });
}

void CountedMath::activate(Activation kind, Array x, Array y, std::int64_t numel) {
  count("activate", numbers(numel, 3) * bytes_per(x.dtype), 0,
        [&] { real_->activate(kind, x, y, numel); });
}

void CountedMath::activate_gated(Activation kind, Array gate, Array up, Array y,
                                 std::int64_t numel) {
  count("activate", numbers(numel, 5) * bytes_per(y.dtype), 0,
        [&] { real_->activate_gated(kind, gate, up, y, numel); });
}

void CountedMath::gather_rows(ConstArray table, const kernels::TokenRows& rows, std::int64_t width,
                              float* x) {
  count("embedding", numbers(rows.count, width) * (4 + bytes_per(table.dtype)), 0,
        [&] { real_->gather_rows(table, rows, width, x); });
}

void CountedMath::scatter_rows(const float* dx, const kernels::TokenRows& rows, std::int64_t width,
                               Array gradient) {
  count("embedding", numbers(rows.count, width) * (4 + 2 * bytes_per(gradient.dtype)), 0,
        [&] { real_->scatter_rows(dx, rows, width, gradient); });
}

void CountedMath::add_positions(ConstArray table, const kernels::Positions& shape, float* x) {
  count("embedding", 8 * numbers(shape.batch * shape.length, shape.width), 0,
        [&] { real_->add_positions(table, shape, x); });
}

void CountedMath::sum_positions(const float* dx, const kernels::Positions& shape, Array gradient) {
  count("embedding", 4 * numbers(shape.batch * shape.length, shape.width), 0,
        [&] { real_->sum_positions(dx, shape, gradient); });
}

// x is read once: a row stays in the first cache.
void CountedMath::norm_forward(const kernels::NormShape& shape, const float* x, ConstArray weight,
                               ConstArray bias, Array y, Array normal, float* reciprocal) {
  count("norm", numbers(shape.rows, shape.width) * (4 + 2 * bytes_per(y.dtype)), 0,
        [&] { real_->norm_forward(shape, x, weight, bias, y, normal, reciprocal); });
}

// dy and the normal are read by two kernels.
void CountedMath::norm_backward(const kernels::NormShape& shape, const float* dy, ConstArray weight,
                                ConstArray normal, const float* reciprocal, float* dx,
                                const kernels::NormGradients& gradients) {
  const double each = 4 + bytes_per(normal.dtype);
  count("norm, backward", numbers(shape.rows, shape.width) * (2 * each + 8), 0,
        [&] { real_->norm_backward(shape, dy, weight, normal, reciprocal, dx, gradients); });
}

void CountedMath::rotate(const kernels::RotaryRows& table, Array x, std::int64_t rows,
                         std::int64_t heads, bool inverse) {
  count("rotate", numbers(rows * heads, 4 * table.half) * bytes_per(x.dtype), 0,
        [&] { real_->rotate(table, x, rows, heads, inverse); });
}

// Half of a row is in the cache when it is read again.
void CountedMath::cross_entropy(const kernels::StoredRows& rows, const float* logits,
                                const std::int32_t* targets, float scale, Array gradient,
                                float* losses) {
  count("cross entropy", numbers(rows.count, rows.width) * (6 + bytes_per(gradient.dtype)), 0,
        [&] { real_->cross_entropy(rows, logits, targets, scale, gradient, losses); });
}

void CountedMath::product(const kernels::MatmulShape& shape, const void* a, const void* b, void* c,
                          ConstArray bias, void* scratch) {
  const bool in_fp8 = shape.fp8 != kernels::Fp8::none;
  const char* const name = in_fp8 ? "products in fp8" : "products";
  const double in = numbers(shape.m, shape.k) + numbers(shape.k, shape.n);
  const double out = numbers(shape.m, shape.n) * (shape.add ? 2 : 1);
  count(name, in * (in_fp8 ? 1 : bytes_per(shape.input)) + out * bytes_per(shape.output),
        2 * numbers(shape.m, shape.n) * static_cast<double>(shape.k),
        [&] { real_->product(shape, a, b, c, bias, scratch); });
  if (!in_fp8) return;
  constexpr std::int64_t casts = 2;  // of what it launches
  counts_[name].launches -= casts;
  counts_["casts to fp8"].launches += casts;
  counts_["casts to fp8"].bytes += in * (bytes_per(shape.input) + 1);
}

void CountedMath::attention_forward(const kernels::AttentionShape& shape,
                                    const kernels::HeadArrays<ConstArray>& in, Array out,
                                    float* statistics, const kernels::AttentionMemory& memory) {
  count("attention", head_bytes(shape, 2, 2), 2 * attention_flops(shape),
        [&] { real_->attention_forward(shape, in, out, statistics, memory); });
}

// FLOPs of the five products that its gradient needs, though the kernels do seven.
void CountedMath::attention_backward(const kernels::AttentionShape& shape,
                                     const kernels::HeadArrays<ConstArray>& in,
                                     const kernels::AttentionOut& out, const float* statistics,
                                     const kernels::HeadArrays<Array>& gradients,
                                     const kernels::AttentionMemory& memory) {
  count("attention, backward", head_bytes(shape, 4, 4), 5 * attention_flops(shape),
        [&] { real_->attention_backward(shape, in, out, statistics, gradients, memory); });
}

}  // namespace tessera::test
