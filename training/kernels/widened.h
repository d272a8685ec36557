// SPDX-License-Identifier: Apache-2.0
// Products that the library has not: of float16, of bfloat16 on processors without AVX-512, and in
// fp8. Operands are widened to float32, which is exact, or rounded to what fp8 can say; the result
// is rounded once, as a product of halves would be.
//
//   const WidenedProduct widened(shape);
//   ... prepare widened.product() ...
//   const Widened in = widened.before(a, b, c, scratch);   // widened.scratch() bytes
//   ... run it on `in` ...
//   widened.after(in, c);
#pragma once

#include "tessera/math_shapes.h"

namespace tessera::kernels {

/// Operands of the product in float32.
struct Widened {
  const float *a, *b;
  float* c;
  void* scratch;  // the part of the scratch memory that is left for the product
};

class WidenedProduct {
 public:
  /// REQUIRES: the input is float16 or bfloat16, or the product is one in fp8.
  explicit WidenedProduct(const MatmulShape& shape) : shape_(shape) {}

  MatmulShape product() const;
  /// The scratch memory besides that of the float32 product; a multiple of 64 bytes.
  Bytes scratch() const;

  Widened before(const void* a, const void* b, void* c, void* scratch) const;
  void after(const Widened& widened, void* c) const;

 private:
  bool widens_c() const { return shape_.output != DType::float32; }

  MatmulShape shape_;
};

}  // namespace tessera::kernels
