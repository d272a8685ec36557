// SPDX-License-Identifier: Apache-2.0
// Products of matrices on a device, and what a library that counts by columns takes them for.
//
// The idea: rows that follow each other are the columns of the transposed matrix. So C = A B of
// rows is C' = B' A' of columns, with the same memory; only the operands change places.
#pragma once

#include <memory>

#include "engine/backends/cuda/cuda_api.h"
#include "engine/math/device_plan.h"

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

/// `first` is B of the shape, `second` is A.
inline ColumnProduct by_columns(const kernels::MatmulShape& s) {
  const auto matrix = [](const kernels::StoredRows& rows, bool transposed) {
    return ColumnMatrix{rows.width, rows.count, rows.stride, transposed};
  };
  return {matrix(s.b_rows(), s.b_transposed), matrix(s.a_rows(), s.a_transposed),
          matrix(s.c_rows(), false)};
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

/// By cuBLASLt; `tf32`: as CudaOptions. Null: it does not start.
std::unique_ptr<Products> make_products(bool tf32);

}  // namespace tessera::device
