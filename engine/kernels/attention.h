// SPDX-License-Identifier: Apache-2.0
// Causal attention of heads, where several query heads may share a key and value head.
//
// The idea: per head, blocks of query rows against the keys up to the block's end; scores exist
// for one block at a time. Forward keeps two numbers per row, from which backward makes the
// probabilities again (FlashAttention-2, arXiv 2307.08691).
#pragma once

#include <vector>

#include "engine/kernels/matmul.h"

namespace tessera::kernels {

struct AttentionShape {
  std::int64_t batch = 1, length = 1, heads = 1, kv_heads = 1, head_dim = 1;
  DType dtype = DType::float32;
  std::int64_t q_stride = 0, kv_stride = 0;  // from one token to the next, in elements
  int threads = 1;

  std::int64_t rows() const { return batch * heads * length; }
  std::int64_t out_stride() const { return heads * head_dim; }
};

/// q, k, v or their gradients: tokens of heads side by side.
template <class A>
struct HeadArrays {
  A q, k, v;
};

class Attention {
 public:
  /// Fails: what Matmuls::prepare fails with.
  static Result<Attention> prepare(Matmuls& matmuls, const AttentionShape& shape);

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
  std::vector<Block> blocks_;
};

}  // namespace tessera::kernels
