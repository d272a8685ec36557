// SPDX-License-Identifier: Apache-2.0
#include "engine/backends/cuda/module/kernel_math.h"

#include <cuda_runtime.h>

#include "engine/backends/cuda/module/language_kernels.h"
#include "engine/backends/cuda/module/product_cut.h"

namespace tessera::device {
namespace {

using kernels::AttentionMemory;
using kernels::MatmulShape;

class KernelMath final : public DeviceMath {
 public:
  KernelMath(std::unique_ptr<Products> products, bool hopper_attention)
      : products_(std::move(products)), hopper_attention_(hopper_attention) {}

  void use(CudaStream stream) override {
    stream_ = stream;
    failure_ = {};
    calls_ = 0;
  }
  Failure failure() const override { return failure_; }
  int calls() const override { return calls_; }

  void clear(Array values, std::int64_t numel) override {
    call("clear", [&] {
      const auto bytes = static_cast<std::size_t>(numel * size_of(values.dtype).value);
      return cudaMemsetAsync(values.data, 0, bytes, reinterpret_cast<cudaStream_t>(stream_));
    });
  }
  void convert(ConstArray from, Array to, std::int64_t numel) override {
    call("convert", [&] { return device::convert(from, to, numel, stream_); });
  }
  void accumulate(const float* from, Array to, std::int64_t numel) override {
    call("accumulate", [&] { return device::accumulate(from, to, numel, stream_); });
  }
  void multiply(ConstArray a, ConstArray b, Array to, std::int64_t numel) override {
    call("multiply", [&] { return device::multiply(a, b, to, numel, stream_); });
  }
  void scale(Array values, float factor, std::int64_t numel) override {
    call("scale", [&] { return device::scale(values, factor, numel, stream_); });
  }
  void add_column_sums(ConstArray from, std::int64_t rows, std::int64_t width,
                       const kernels::ColumnGradient& to) override {
    call("add_column_sums",
         [&] { return device::add_column_sums(from, rows, width, to, stream_); });
  }
  void convert_rows(ConstArray from, Array to, std::int64_t rows, std::int64_t width,
                    const kernels::ColumnGradient& sums) override {
    call("convert_rows",
         [&] { return device::convert_rows(from, to, rows, width, sums, stream_); });
  }
  void multiply_rows(ConstArray a, ConstArray b, Array to, std::int64_t rows, std::int64_t width,
                     const kernels::ColumnGradient& sums) override {
    call("multiply_rows",
         [&] { return device::multiply_rows(a, b, to, rows, width, sums, stream_); });
  }
  void mean(const float* values, std::int64_t numel, float* to) override {
    call("mean", [&] { return device::mean(values, numel, to, stream_); });
  }
  void gather_rows(ConstArray table, const TokenRows& rows, std::int64_t width, float* x) override {
    call("gather_rows", [&] { return device::gather_rows(table, rows, width, x, stream_); });
  }
  void scatter_rows(const float* dx, const TokenRows& rows, std::int64_t width,
                    Array gradient) override {
    call("scatter_rows", [&] { return device::scatter_rows(dx, rows, width, gradient, stream_); });
  }
  void add_positions(ConstArray table, const Positions& shape, float* x) override {
    call("add_positions", [&] { return device::add_positions(table, shape, x, stream_); });
  }
  void sum_positions(const float* dx, const Positions& shape, Array gradient) override {
    call("sum_positions", [&] { return device::sum_positions(dx, shape, gradient, stream_); });
  }
  void norm_forward(const NormShape& shape, const float* x, ConstArray weight, ConstArray bias,
                    Array y, Array normal, float* reciprocal) override {
    call("norm_forward", [&] {
      return device::norm_forward(shape, x, weight, bias, y, normal, reciprocal, stream_);
    });
  }
  void norm_backward(const NormShape& shape, const float* dy, ConstArray weight, ConstArray normal,
                     const float* reciprocal, float* dx,
                     const kernels::NormGradients& gradients) override {
    call("norm_backward", [&] {
      return device::norm_backward(shape, dy, weight, normal, reciprocal, dx, gradients, stream_);
    });
  }
  void activate(Activation kind, Array x, Array y, std::int64_t numel) override {
    call("activate", [&] { return device::activate(kind, x, y, numel, stream_); });
  }
  void activate_gated(Activation kind, Array gate, Array up, Array y, std::int64_t numel) override {
    call("activate_gated",
         [&] { return device::activate_gated(kind, gate, up, y, numel, stream_); });
  }
  void rotate(const RotaryRows& table, Array x, std::int64_t rows, std::int64_t heads,
              bool inverse) override {
    call("rotate", [&] { return device::rotate(table, x, rows, heads, inverse, stream_); });
  }
  void cross_entropy(const StoredRows& rows, const float* logits, const std::int32_t* targets,
                     float scale, Array gradient, float* losses) override {
    call("cross_entropy", [&] {
      return device::cross_entropy(rows, logits, targets, scale, gradient, losses, stream_);
    });
  }
  void product(const MatmulShape& shape, const void* a, const void* b, void* c, ConstArray bias,
               void* scratch) override {
    const ProductOperands all{a, b, c, bias, scratch};
    if (shape.fp8 != kernels::Fp8::none) return product_in_fp8(shape, all);
    const std::optional<ProductCut> cut = ProductCut::of(shape);
    bool whole = !cut.has_value();
    if (cut.has_value()) {
      call("product", [&] {
        const int code = run(cut->rest, cut->of_rest(all));
        whole = code == not_supported;
        return whole ? cuda_success : code;
      });
    }
    call("product", [&] { return run(whole ? shape : cut->most, all); });
  }
  void attention_forward(const AttentionShape& shape, const HeadArrays<ConstArray>& in, Array out,
                         float* statistics, const AttentionMemory&) override {
    call("attention_forward", [&] {
      return device::attention_forward(shape, in, out, statistics, hopper_attention_, stream_);
    });
  }
  void attention_backward(const AttentionShape& shape, const HeadArrays<ConstArray>& in,
                          const AttentionOut& out, const float* statistics,
                          const HeadArrays<Array>& gradients,
                          const AttentionMemory& memory) override {
    call("attention_backward", [&] {
      return device::attention_backward(shape, in, out, statistics, gradients, memory.temporary,
                                        hopper_attention_, stream_);
    });
  }

 private:
  // Operands become codes behind the scratch memory of other products.
  void product_in_fp8(const MatmulShape& shape, const ProductOperands& o) {
    const kernels::Fp8Operands places(shape);
    const Fp8Memory to(places, o.scratch);
    call("an operand in fp8", [&] {
      return device::to_fp8(shape.a_rows(), {o.a, shape.input}, shape.a_transposed, places.a, to.a,
                            to.a_scales, stream_);
    });
    call("an operand in fp8", [&] {
      return device::to_fp8(shape.b_rows(), {o.b, shape.input}, !shape.b_transposed, places.b, to.b,
                            to.b_scales, stream_);
    });
    call("a product in fp8", [&] { return run(shape, to.operands(o)); });
  }

  // cuBLASLt adds biases of C's type, as PyTorch lets it: the sum is rounded once. Some of its
  // algorithms load them 16 bytes at a time. Beside operands in fp8 those of a float32 C are
  // halves.
  int run(const MatmulShape& shape, const ProductOperands& o) {
    if (!shape.bias) return products_->run(shape, o, stream_);
    if (shape.fp8 != kernels::Fp8::none && shape.output == DType::float32) {
      return run_and_add(shape, o);
    }
    const ConstArray bias = o.bias;
    const bool as_it_is =
        bias.dtype == shape.output && reinterpret_cast<std::uintptr_t>(bias.data) % 16 == 0;
    ProductOperands own = o;
    if (as_it_is || shape.n * size_of(shape.output).value <= bias_bytes.value) {
      if (!as_it_is) {
        const Array place{static_cast<std::byte*>(o.scratch) + workspace_bytes.value, shape.output};
        own.bias = place;
        const int code = device::convert(bias, place, shape.n, stream_);
        if (code != cuda_success) return code;
      }
      const int product = products_->run(shape, own, stream_);
      if (product != not_supported) return product;
    }
    return run_and_add(shape, o);
  }

  int run_and_add(const MatmulShape& shape, const ProductOperands& o) {
    MatmulShape plain = shape;
    plain.bias = false;
    ProductOperands own = o;
    own.bias = {};
    const int code = products_->run(plain, own, stream_);
    if (code != cuda_success) return code;
    return device::add_bias({o.c, shape.output}, shape.c_rows(), o.bias, stream_);
  }

  template <class F>
  void call(const char* name, const F& f) {
    if (failure_.code != cuda_success) return;
    ++calls_;
    const int code = f();
    if (code != cuda_success) failure_ = {code, name};
  }

  const std::unique_ptr<Products> products_;
  const bool hopper_attention_;
  CudaStream stream_ = nullptr;
  Failure failure_;
  int calls_ = 0;
};

}  // namespace

std::unique_ptr<DeviceMath> make_kernel_math(std::unique_ptr<Products> products,
                                             bool hopper_attention) {
  if (products == nullptr) return nullptr;
  return std::make_unique<KernelMath>(std::move(products), hopper_attention);
}

}  // namespace tessera::device
