// SPDX-License-Identifier: Apache-2.0
// Products of matrices by oneDNN: C = A B, or C += A B, perhaps plus a bias for every column.
//
// The idea: a product is prepared once for its shape (machine code, size of scratch memory); a run
// only gets addresses. Products are summed in float32, whatever the dtype of the elements.
//
//   TESSERA_ASSIGN(const Matmul* product, matmuls.prepare({.m = 8, .n = 4, .k = 2}));
//   product->run(a, b, c, nullptr, scratch);
#pragma once

#include <map>
#include <memory>
#include <optional>

#include "tessera/status.h"
#include "training/kernels/widened.h"

namespace tessera::kernels {

class Matmul {
 public:
  /// Threads that run it at the same time need different `place`s in [0, places).
  void run(const void* a, const void* b, void* c, const float* bias, void* scratch,
           int place = 0) const;

 private:
  friend class Matmuls;
  struct Prepared;
  std::shared_ptr<const Prepared> prepared_;
  std::optional<WidenedProduct> widened_;  // of which prepared_ is the float32
};

class Matmuls {
 public:
  /// `places`: how many threads may run the same product at the same time.
  explicit Matmuls(int places);

  /// The product stays where it is as long as this lives.
  /// Fails: not_supported (built without oneDNN; oneDNN cannot do it), naming the sizes.
  Result<const Matmul*> prepare(const MatmulShape& shape);
  /// The scratch memory of the largest prepared product; it must be aligned to 64 bytes.
  Bytes scratch() const { return scratch_; }

 private:
  Matmul made(const MatmulShape& shape, bool widened);

  int places_;
  Bytes scratch_{};
  std::map<MatmulShape, Matmul> prepared_;
};

}  // namespace tessera::kernels
