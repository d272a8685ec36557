// SPDX-License-Identifier: Apache-2.0
// Causal attention of heads, where several query heads may share a key and value head.
//
// The idea: each head multiplies blocks of query rows by the keys up to the block's end, so scores
// exist for one block at a time. Forward keeps two numbers per row, from which backward recomputes
// the probabilities (FlashAttention-2, arXiv 2307.08691).
#pragma once

#include <vector>

#include "training/kernels/matmul.h"

namespace tessera::kernels {

class Attention {
 public:
  /// Fails: what Matmuls::prepare fails with.
  static Result<Attention> prepare(Matmuls& matmuls, const AttentionShape& shape, int threads);

  /// The temporary memory of a pass, which need not be initialised.
  Bytes temporary() const;

  /// `statistics` receives 2 * shape.rows() numbers, for backward.
  void forward(const HeadArrays<ConstArray>& in, Array out, float* statistics, void* temporary,
               void* scratch, Bytes scratch_per_thread) const;
  /// Writes the gradients of q, k and v, all of them.
  void backward(const HeadArrays<ConstArray>& in, ConstArray out, ConstArray out_gradient,
                const float* statistics, const HeadArrays<Array>& gradients, void* temporary,
                void* scratch, Bytes scratch_per_thread) const;

 private:
  struct Block {  // of query rows
    std::int64_t first, rows, keys;
    const Matmul *scores, *out;        // of forward; scores also of backward
    const Matmul* weights_gradient;    // dO V^T
    const Matmul *dq, *dk[2], *dv[2];  // dk, dv: written, added to
  };
  struct Buffers;  // one thread's part of the temporary memory
  struct Head;     // the addresses of one head's arrays

  Buffers buffers_at(void* temporary, int thread) const;
  Bytes bytes_per_thread() const;
  void forward_head(const Head& head, const Buffers& own, void* scratch, int place) const;
  void backward_head(const Head& head, const Buffers& own, void* scratch, int place,
                     bool first_of_group) const;

  AttentionShape shape_;
  int threads_ = 1;
  std::vector<Block> blocks_;
};

}  // namespace tessera::kernels
