// SPDX-License-Identifier: Apache-2.0
// A product of matrices whose rows begin at multiples of 16 bytes, but do not end there.
//
// The idea: cuBLASLt feeds tensor cores by 16 bytes at a time only if strides and sizes are
// multiples of that. Where somebody gave rows such a stride, what is beyond the last multiple, less
// than `unit` numbers of one size, becomes a product of its own. It comes first.
#pragma once

#include <optional>

#include "engine/backends/cuda/module/products.h"

namespace tessera::device {

struct ProductCut {
  static constexpr std::int64_t unit = 8;  // halves: 16 bytes

  kernels::MatmulShape rest, most;
  std::int64_t m = 0, n = 0, k = 0;  // where the rest begins

  /// None where it would change nothing, and where sums of halves would be rounded twice.
  static std::optional<ProductCut> of(const kernels::MatmulShape& s) {
    const auto is_cut = [](const kernels::StoredRows& rows) {
      return rows.stride % unit == 0 && rows.width % unit != 0 && rows.width > unit;
    };
    ProductCut cut{s, s};
    if (is_cut(s.a_rows())) {
      if (s.a_transposed) return cut.along(cut.m, &kernels::MatmulShape::m);
      if (s.output == DType::float32) return cut.along(cut.k, &kernels::MatmulShape::k);
    }
    if (is_cut(s.c_rows())) return cut.along(cut.n, &kernels::MatmulShape::n);
    return {};
  }

  ProductOperands of_rest(const ProductOperands& o) const {
    return {
        at(o.a, rest.a_transposed ? k : m, rest.a_transposed ? m : k, rest.a_rows(), rest.input),
        at(o.b, rest.b_transposed ? n : k, rest.b_transposed ? k : n, rest.b_rows(), rest.input),
        const_cast<void*>(at(o.c, m, n, rest.c_rows(), rest.output)),
        o.bias.data == nullptr ? o.bias : o.bias.from(n), o.scratch};
  }

 private:
  ProductCut along(std::int64_t& first, std::int64_t kernels::MatmulShape::*size) {
    for (kernels::MatmulShape* shape : {&rest, &most}) {  // which keep the strides of the whole
      shape->a_stride = rest.a_rows().stride;
      shape->b_stride = rest.b_rows().stride;
      shape->c_stride = rest.c_rows().stride;
    }
    first = rest.*size / unit * unit;
    rest.*size -= first;
    most.*size = first;
    if (k > 0) {
      most.add = true;
      most.bias = false;
    }
    return *this;
  }

  static const void* at(const void* from, std::int64_t row, std::int64_t column,
                        const kernels::StoredRows& rows, DType dtype) {
    return kernels::ConstArray(from, dtype).from(row * rows.stride + column).data;
  }
};

}  // namespace tessera::device
