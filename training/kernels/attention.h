// SPDX-License-Identifier: Apache-2.0
// Causal attention of heads, where several query heads may share a key and value head.
//
// The idea: per head, blocks of query rows against the keys up to the block's end; scores exist
// for one block at a time. Forward keeps two numbers per row, from which backward makes the
// probabilities again (FlashAttention-2, arXiv 2307.08691).
#pragma once

#include <vector>

#include "training/kernels/matmul.h"

namespace tessera::kernels {

class Attention {
 public:
  /// Fails: what Matmuls::prepare fails with.
  static Result<Attention> prepare(Matmuls& matmuls, const AttentionShape& shape, int threads);

  /// Memory for a pass, which may hold anything before.
  Bytes room(bool backward) const;

  /// statistics: 2 * shape.rows() numbers, for backward.
  void forward(const HeadArrays<ConstArray>& in, Array out, float* statistics, void* room,
               void* scratch, Bytes scratch_of_thread) const;
  /// Writes the gradients of q, k and v, all of them.
  void backward(const HeadArrays<ConstArray>& in, ConstArray out, ConstArray out_gradient,
                const float* statistics, const HeadArrays<Array>& gradients, void* room,
                void* scratch, Bytes scratch_of_thread) const;

 private:
  struct Block {  // of query rows
    std::int64_t first, rows, keys;
    const Matmul *scores, *out;        // of forward; scores also of backward
    const Matmul* weights_gradient;    // dO V^T
    const Matmul *dq, *dk[2], *dv[2];  // dk, dv: written, added to
  };
  struct Room;  // of one thread
  struct Head;  // where one head's arrays begin

  Room room_at(void* room, int thread) const;
  Bytes room_of_thread() const;
  void forward_head(const Head& head, const Room& room, void* scratch, int place) const;
  void backward_head(const Head& head, const Room& room, void* scratch, int place,
                     bool first_of_group) const;

  AttentionShape shape_;
  int threads_ = 1;
  std::vector<Block> blocks_;
};

}  // namespace tessera::kernels
