// SPDX-License-Identifier: Apache-2.0
#include "sim/compute/attention_time.h"

#include <algorithm>
#include <cmath>

#include "sim/compute/matmul_time.h"
#include "sim/time/duration.h"

namespace tessera::sim {
namespace {

constexpr double block = 128;             // queries, and keys, that a kernel works on at a time
constexpr double backward_matmuls = 2.5;  // five of them instead of two
constexpr double narrow_head = 64, wide_head = 128;

// Heads between 64 and 128 lie between both, in proportion.
double efficiency_of(const AttentionCurve& curve, double head_dim, bool backward) {
  const double wide = std::clamp((head_dim - narrow_head) / (wide_head - narrow_head), 0.0, 1.0);
  const double forward = curve.narrow + wide * (curve.forward - curve.narrow);
  return backward ? forward * curve.backward : forward;
}

// Squares of queries and keys that a head needs. Causal: the first block of queries sees one block
// of keys, the last all, or as many as its window reaches.
double squares_of(const AttentionShape& shape, double blocks) {
  if (!shape.causal) return blocks * blocks;
  const double whole = blocks * (blocks + 1) / 2;
  if (shape.window == 0 || shape.window >= shape.sequence) return whole;
  const double reach = std::ceil(static_cast<double>(shape.window) / block);
  if (shape.chunked) return blocks / reach * reach * (reach + 1) / 2;
  const double wide = std::min(blocks, reach + 1);  // the first and the last in part
  return wide * (wide + 1) / 2 + (blocks - wide) * wide;
}

// Squares that the block of queries with the most keys needs, one after the other.
double longest_row(const AttentionShape& shape, double blocks) {
  if (shape.window == 0 || shape.window >= shape.sequence) return blocks;
  return std::min(blocks, std::ceil(static_cast<double>(shape.window) / block) + 1);
}

}  // namespace

double fused_attention_ns(const AttentionShape& shape, const Gpu& gpu, const AttentionCurve& curve,
                          double peak) {
  const auto sequence = static_cast<double>(shape.sequence);
  const auto head_dim = static_cast<double>(shape.head_dim);
  const auto processors = static_cast<double>(gpu.multiprocessors);
  const double blocks = std::ceil(sequence / block);
  const double width = std::min(block, sequence);
  const double rate = peak / processors / ns_per_s * efficiency_of(curve, head_dim, shape.backward);
  const double square =
      4 * block * width * head_dim / rate * (shape.backward ? backward_matmuls : 1);
  const auto start = static_cast<double>(curve.block_ns);
  const double whole = static_cast<double>(shape.batch * shape.heads) *
                       (squares_of(shape, blocks) * square + blocks * start);
  const double longest = longest_row(shape, blocks) * square + start;
  return static_cast<double>(curve.start_ns) + std::max(longest, whole / processors);
}

double unfused_attention_ns(const AttentionShape& shape, const Gpu& gpu, double peak,
                            double score_passes, double element_bytes) {
  const std::int64_t s = shape.sequence;
  const std::int64_t d = shape.head_dim;
  const std::int64_t count = shape.batch * shape.heads;
  double ns = matmul_ns({s, s, d, count}, gpu, peak, element_bytes) +
              matmul_ns({s, d, s, count}, gpu, peak, element_bytes);
  if (shape.backward) ns *= 2;
  const auto rows = static_cast<double>(s);
  const double scores = element_bytes * rows * rows * static_cast<double>(count);
  const double passes = score_passes * (shape.backward ? 2 : 1);
  return ns + passes * scores / (gpu.memory_bytes_per_s * gpu.memory_efficiency) * ns_per_s;
}

}  // namespace tessera::sim
