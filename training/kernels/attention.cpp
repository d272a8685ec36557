// SPDX-License-Identifier: Apache-2.0
#include "training/kernels/attention.h"

#include "engine/numbers/parallel.h"
#include "training/kernels/attention_rows.h"
#include "training/kernels/rows.h"

namespace tessera::kernels {
namespace {

constexpr std::int64_t block_rows = 64;
constexpr std::int64_t alignment = 64;

std::int64_t aligned(std::int64_t bytes) { return (bytes + alignment - 1) / alignment * alignment; }

}  // namespace

struct Attention::Buffers {
  float *scores, *weights_gradient, *dk, *dv;
  float* slopes;  // of capped scores
  Array weights;  // in the type of the matrices
};

struct Attention::Head {
  ConstArray q, k, v, out, dout;
  Array to;  // of forward
  Array dq, dk, dv;
  float* statistics;
  const std::int32_t* begins;
  const Dropout* dropout;
  std::int64_t sample, number;  // of the head

  BlockRows rows(const Block& b, const AttentionShape& shape) const {
    return {b.first, b.rows,  b.keys, scale_of(shape),      shape.window,
            begins,  dropout, sample, number * shape.length};
  }
};

Result<Attention> Attention::prepare(Matmuls& matmuls, const AttentionShape& shape, int threads) {
  Attention out;
  out.shape_ = shape;
  out.threads_ = threads;
  const DType type = shape.dtype;
  const std::int64_t d = shape.head_dim;
  const std::int64_t q = shape.q_stride;
  const std::int64_t kv = shape.kv_stride;
  const std::int64_t o = shape.out_stride();
  const std::int64_t kv_gradient = type == DType::float32 ? kv : d;
  for (std::int64_t first = 0; first < shape.length; first += block_rows) {
    Block b{};
    b.first = first;
    b.rows = std::min(block_rows, shape.length - first);
    b.keys = first + b.rows;
    // Rows of scores follow each other, as many numbers as the block has keys.
    const MatmulShape by_keys{
        .m = b.rows, .n = b.keys, .k = d, .input = type, .b_transposed = true, .b_stride = kv};
    auto from = [](MatmulShape s, std::int64_t a_stride) { return s.a_stride = a_stride, s; };
    TESSERA_ASSIGN(b.scores, matmuls.prepare(from(by_keys, q)));
    TESSERA_ASSIGN(b.weights_gradient, matmuls.prepare(from(by_keys, o)));
    const MatmulShape by_weights{
        .m = b.rows, .n = d, .k = b.keys, .input = type, .output = type, .b_stride = kv};
    auto to = [](MatmulShape s, std::int64_t c_stride) { return s.c_stride = c_stride, s; };
    TESSERA_ASSIGN(b.out, matmuls.prepare(to(by_weights, o)));
    TESSERA_ASSIGN(b.dq, matmuls.prepare(to(by_weights, q)));
    for (const bool add : {false, true}) {
      const MatmulShape back{.m = b.keys,
                             .n = d,
                             .k = b.rows,
                             .input = type,
                             .a_transposed = true,
                             .c_stride = kv_gradient,
                             .add = add};
      auto by = [](MatmulShape s, std::int64_t b_stride) { return s.b_stride = b_stride, s; };
      TESSERA_ASSIGN(b.dk[add], matmuls.prepare(by(back, q)));
      TESSERA_ASSIGN(b.dv[add], matmuls.prepare(by(back, o)));
    }
    out.blocks_.push_back(b);
  }
  return out;
}

Bytes Attention::bytes_per_thread() const {
  const std::int64_t scores = std::min(block_rows, shape_.length) * shape_.length;
  const bool half = shape_.dtype != DType::float32;
  const int arrays = shape_.cap > 0 ? 3 : 2;
  return Bytes{arrays * aligned(4 * scores) + (half ? aligned(2 * scores) : 0) +
               2 * aligned(half ? 4 * shape_.length * shape_.head_dim : 0)};
}

Bytes Attention::temporary() const { return bytes_per_thread() * threads_; }

Attention::Buffers Attention::buffers_at(void* temporary, int thread) const {
  const std::int64_t scores = std::min(block_rows, shape_.length) * shape_.length;
  const bool half = shape_.dtype != DType::float32;
  auto* at = static_cast<std::byte*>(temporary) + bytes_per_thread().value * thread;
  auto take = [&at](std::int64_t bytes) { return std::exchange(at, at + aligned(bytes)); };
  Buffers out{};
  out.scores = reinterpret_cast<float*>(take(4 * scores));
  out.weights_gradient = reinterpret_cast<float*>(take(4 * scores));
  out.weights = {out.scores, DType::float32};
  if (shape_.cap > 0) out.slopes = reinterpret_cast<float*>(take(4 * scores));
  if (!half) return out;
  out.weights = {take(2 * scores), shape_.dtype};
  out.dk = reinterpret_cast<float*>(take(4 * shape_.length * shape_.head_dim));
  out.dv = reinterpret_cast<float*>(take(4 * shape_.length * shape_.head_dim));
  return out;
}

void Attention::forward_head(const Head& head, const Buffers& own, void* scratch, int place) const {
  for (const Block& b : blocks_) {
    const BlockRows rows = head.rows(b, shape_);
    b.scores->run(head.q.from(b.first * shape_.q_stride).data, head.k.data, own.scores, nullptr,
                  scratch, place);
    if (shape_.cap > 0) cap_scores(rows, shape_.cap, own.scores, nullptr);
    attention_weights(rows, own.scores, own.weights, head.statistics + 2 * b.first);
    if (rows.dropout != nullptr) drop_weights(rows, own.weights);
    b.out->run(own.weights.data, head.v.data, head.to.from(b.first * shape_.out_stride()).data,
               nullptr, scratch, place);
  }
}

// The last block reaches all keys, so it comes first and writes dk and dv; the others add.
void Attention::backward_head(const Head& head, const Buffers& own, void* scratch, int place,
                              bool first_of_group) const {
  float* const dk = own.dk != nullptr ? own.dk : head.dk.as<float>();
  float* const dv = own.dv != nullptr ? own.dv : head.dv.as<float>();
  for (auto b = blocks_.rbegin(); b != blocks_.rend(); ++b) {
    const bool add = !first_of_group || b != blocks_.rbegin();
    const ConstArray q = head.q.from(b->first * shape_.q_stride);
    const ConstArray out = head.out.from(b->first * shape_.out_stride());
    const ConstArray dout = head.dout.from(b->first * shape_.out_stride());
    const BlockRows rows = head.rows(*b, shape_);
    const OutRows of_out{out, dout, shape_.head_dim, shape_.out_stride()};
    b->scores->run(q.data, head.k.data, own.scores, nullptr, scratch, place);
    if (shape_.cap > 0) cap_scores(rows, shape_.cap, own.scores, own.slopes);
    weights_again(rows, own.scores, own.weights, head.statistics + 2 * b->first);
    b->weights_gradient->run(dout.data, head.v.data, own.weights_gradient, nullptr, scratch, place);
    if (rows.dropout != nullptr) {
      dropped_gradient(rows, of_out, own.weights_gradient, own.weights);
      if (shape_.cap > 0) cap_gradient(rows, own.slopes, {own.weights_gradient, DType::float32});
    }
    b->dv[add]->run(own.weights.data, dout.data, dv, nullptr, scratch, place);
    if (rows.dropout == nullptr) {
      scores_gradient(rows, of_out, own.weights_gradient, own.weights);
      if (shape_.cap > 0) cap_gradient(rows, own.slopes, own.weights);
    } else {
      spread_rows(own.weights_gradient, b->rows, b->keys, own.weights, b->keys);
    }
    b->dk[add]->run(own.weights.data, q.data, dk, nullptr, scratch, place);
    b->dq->run(own.weights.data, head.k.data, head.dq.from(b->first * shape_.q_stride).data,
               nullptr, scratch, place);
  }
}

void Attention::forward(const HeadArrays<ConstArray>& in, Array out, float* statistics,
                        void* temporary, void* scratch, Bytes scratch_per_thread) const {
  const AttentionShape& s = shape_;
  parallel(threads_, s.batch * s.heads, 1, [&](int thread, std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t token = i / s.heads * s.length;
      const std::int64_t h = i % s.heads;
      const std::int64_t kv = h / (s.heads / s.kv_heads) * s.head_dim;
      Head head{};
      head.q = in.q.from(token * s.q_stride + h * s.head_dim);
      head.k = in.k.from(token * s.kv_stride + kv);
      head.v = in.v.from(token * s.kv_stride + kv);
      head.to = out.from(token * s.out_stride() + h * s.head_dim);
      head.statistics = statistics + 2 * i * s.length;
      head.begins = in.begins == nullptr ? nullptr : in.begins + token;
      head.dropout = in.dropout;
      head.sample = i / s.heads;
      head.number = h;
      auto* own = static_cast<std::byte*>(scratch) + scratch_per_thread.value * thread;
      forward_head(head, buffers_at(temporary, thread), own, thread);
    }
  });
}

void Attention::backward(const HeadArrays<ConstArray>& in, ConstArray out, ConstArray out_gradient,
                         const float* statistics, const HeadArrays<Array>& gradients,
                         void* temporary, void* scratch, Bytes scratch_per_thread) const {
  const AttentionShape& s = shape_;
  const std::int64_t group = s.heads / s.kv_heads;
  parallel(
      threads_, s.batch * s.kv_heads, 1, [&](int thread, std::int64_t begin, std::int64_t end) {
        const Buffers own = buffers_at(temporary, thread);
        auto* own_scratch = static_cast<std::byte*>(scratch) + scratch_per_thread.value * thread;
        for (std::int64_t i = begin; i < end; ++i) {
          const std::int64_t token = i / s.kv_heads * s.length;
          const std::int64_t kv = token * s.kv_stride + i % s.kv_heads * s.head_dim;
          for (std::int64_t g = 0; g < group; ++g) {
            const std::int64_t h = i % s.kv_heads * group + g;
            const std::int64_t q = token * s.q_stride + h * s.head_dim;
            const std::int64_t o = token * s.out_stride() + h * s.head_dim;
            Head head{};
            head.q = in.q.from(q);
            head.k = in.k.from(kv);
            head.v = in.v.from(kv);
            head.out = out.from(o);
            head.dout = out_gradient.from(o);
            head.dq = gradients.q.from(q);
            head.dk = gradients.k.from(kv);
            head.dv = gradients.v.from(kv);
            head.begins = in.begins == nullptr ? nullptr : in.begins + token;
            head.dropout = in.dropout;
            head.sample = i / s.kv_heads;
            head.number = h;
            head.statistics =
                const_cast<float*>(statistics) + 2 * (i / s.kv_heads * s.heads + h) * s.length;
            backward_head(head, own, own_scratch, thread, g == 0);
          }
          if (own.dk == nullptr) continue;
          spread_rows(own.dk, s.length, s.head_dim, gradients.k.from(kv), s.kv_stride);
          spread_rows(own.dv, s.length, s.head_dim, gradients.v.from(kv), s.kv_stride);
        }
      });
}

}  // namespace tessera::kernels
