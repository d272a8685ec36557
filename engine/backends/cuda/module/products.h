// SPDX-License-Identifier: Apache-2.0
// Products of matrices on a device, and what a library that counts by columns takes them for.
//
// The idea: rows that follow each other are the columns of the transposed matrix. So C = A B of
// rows is C' = B' A' of columns, with the same memory; only the operands change places.
#pragma once

#include <memory>

#include "engine/backends/cuda/cuda_api.h"
#include "engine/math/device_plan.h"
#include "engine/math/fp8_operands.h"

namespace tessera::device {

/// A matrix by columns; `leading`: the distance of two of them.
struct ColumnMatrix {
  std::int64_t rows = 1, columns = 1, leading = 1;
  bool transposed = false;  // for the product
  auto operator<=>(const ColumnMatrix&) const = default;
};

/// result = first second.
struct ColumnProduct {
  ColumnMatrix first, second, result;
};

/// `first` is B of the shape, `second` is A. In fp8 they are Fp8Operands.
inline ColumnProduct by_columns(const kernels::MatmulShape& s) {
  const auto matrix = [](const kernels::StoredRows& rows, bool transposed) {
    return ColumnMatrix{rows.width, rows.count, rows.stride, transposed};
  };
  const ColumnMatrix result = matrix(s.c_rows(), false);
  if (s.fp8 != kernels::Fp8::none) {
    const kernels::Fp8Operands in(s);
    const std::int64_t k = in.a.row_codes();
    return {{k, s.n, k, true}, {k, s.m, k, false}, result};
  }
  return {matrix(s.b_rows(), s.b_transposed), matrix(s.a_rows(), s.a_transposed), result};
}

/// What of the scratch memory is for a bias in the type of C, behind the library's workspace.
inline constexpr Bytes bias_bytes{256 << 10};
inline constexpr Bytes workspace_bytes = kernels::device_scratch_bytes - bias_bytes;

struct ProductOperands {
  const void* a = nullptr;
  const void* b = nullptr;
  void* c = nullptr;
  kernels::ConstArray bias = {};
  void* scratch = nullptr;  // kernels::device_scratch_bytes
  // In fp8 alone, where a and b are codes.
  const float* a_scales = nullptr;
  const float* b_scales = nullptr;
};

/// Where codes and scales of a product in fp8 lie: behind the scratch memory of other products.
struct Fp8Memory {
  std::uint8_t *a, *b;
  float *a_scales, *b_scales;

  Fp8Memory(const kernels::Fp8Operands& places, void* scratch) {
    auto* const base = static_cast<std::uint8_t*>(scratch) + kernels::device_scratch_bytes.value;
    const auto floats = [base](std::int64_t at) { return reinterpret_cast<float*>(base + at); };
    a = base + places.codes_of_a();
    b = base + places.codes_of_b();
    a_scales = floats(places.scales_of_a());
    b_scales = floats(places.scales_of_b());
  }

  /// `o` with these instead of matrices.
  ProductOperands operands(const ProductOperands& o) const {
    return {a, b, o.c, o.bias, o.scratch, a_scales, b_scales};
  }
};

/// The error code of a product that the library does not compute.
inline constexpr int not_supported = 801;  // cudaErrorNotSupported

class Products {
 public:
  virtual ~Products() = default;
  /// A CUDA error code. The bias has the type of C.
  virtual int run(const kernels::MatmulShape& shape, const ProductOperands& operands,
                  CudaStream stream) = 0;
};

/// The version of cuBLASLt that is loaded.
std::size_t cublas_version();

/// By cuBLASLt; `tf32`: as CudaOptions. Null: it does not start.
std::unique_ptr<Products> make_products(bool tf32);

}  // namespace tessera::device
