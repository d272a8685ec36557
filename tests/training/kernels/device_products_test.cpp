// SPDX-License-Identifier: Apache-2.0
// Products and attention of GPUs, carried out by the emulator, against those of the CPU.
#include "engine/math/hopper_gradient.h"
#include "tests/training/kernels/both_maths.h"

namespace tessera {
namespace device {

int blackwell_tiles_backward(const AttentionShape& shape, const HeadArrays<ConstArray>& in,
                             const AttentionOut& out, const float* statistics,
                             const HeadArrays<Array>& gradients, const float* along,
                             CudaStream stream);  // blackwell_tiles.cpp

}  // namespace device

namespace {

using kernels::AttentionShape;
using kernels::MatmulShape;
using test::Both;
using test::computed_dtypes;
using test::floats;
using test::Numbers;

}  // namespace

TEST_CASE("products by columns are those by rows", "[device]") {
  Both math;
  math.products->with_biases = GENERATE(true, false);
  math.products->with_narrow = GENERATE(true, false);
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    INFO("seed " << seed);
    test::Random random(seed);
    const std::int64_t least = math.products->with_narrow ? 1 : 8;
    const auto size = [&] { return least + random.below(23 - least); };
    MatmulShape s{.m = size(), .n = size(), .k = size()};
    s.input = computed_dtypes[random.below(3)];
    s.output = random.chance(50) ? DType::float32 : s.input;
    s.a_transposed = random.chance(50);
    s.b_transposed = random.chance(50);
    s.bias = random.chance(50);
    s.add = random.chance(50);
    const auto stride = [&](std::int64_t columns) {
      if (random.chance(30)) return (columns + 7) / 8 * 8;
      return random.chance(40) ? 0 : columns + random.below(3);
    };
    s.a_stride = stride(s.a_transposed ? s.m : s.k);
    s.b_stride = stride(s.b_transposed ? s.k : s.n);
    s.c_stride = stride(s.n);
    const std::int64_t most = 24 * 24;
    math.compare({Numbers::random(random, most, s.input), Numbers::random(random, most, s.input),
                  Numbers::random(random, most, s.output),
                  Numbers::random(random, s.n, random.chance(50) ? s.input : DType::float32)},
                 test::tolerance(s.output), [&](kernels::Math& m, auto& x) {
                   m.product(s, x[0].array().data, x[1].array().data, x[2].array().data,
                             s.bias ? x[3].array() : kernels::Array{}, math.scratch.data());
                 });
  }
}

TEST_CASE("attention on GPUs is the CPU's, with tensor cores and without", "[device]") {
  struct Sizes {
    std::int64_t batch, length, heads, kv_heads, head_dim;
    DType dtype;
    bool hopper = false;
  };
  const auto sizes = GENERATE(values<Sizes>({{1, 70, 2, 1, 5, DType::float32},
                                             {2, 33, 3, 3, 80, DType::bfloat16},
                                             {1, 1, 1, 1, 64, DType::bfloat16},
                                             {1, 150, 2, 1, 16, DType::bfloat16},
                                             {1, 65, 4, 2, 64, DType::bfloat16},
                                             {1, 40, 1, 1, 6, DType::bfloat16},
                                             {1, 65, 4, 2, 64, DType::float16},
                                             {2, 33, 3, 3, 80, DType::float16},
                                             {1, 40, 1, 1, 6, DType::float16},
                                             {1, 70, 1, 1, 128, DType::bfloat16},
                                             {2, 1, 2, 2, 64, DType::bfloat16, true},
                                             {1, 128, 1, 1, 64, DType::bfloat16, true},
                                             {2, 131, 2, 1, 64, DType::float16, true},
                                             {1, 500, 1, 1, 64, DType::bfloat16, true},
                                             {1, 259, 2, 2, 128, DType::bfloat16, true},
                                             {1, 150, 2, 1, 128, DType::float16, true},
                                             {1, 70, 1, 1, 80, DType::bfloat16, true}}));
  INFO(sizes.length << " rows of " << sizes.heads << " heads of " << sizes.head_dim);
  AttentionShape s{.batch = sizes.batch,
                   .length = sizes.length,
                   .heads = sizes.heads,
                   .kv_heads = sizes.kv_heads,
                   .head_dim = sizes.head_dim,
                   .dtype = sizes.dtype};
  const bool fused = sizes.heads == sizes.kv_heads;  // q, k and v side by side
  const std::int64_t q = s.heads * s.head_dim;
  const std::int64_t kv = s.kv_heads * s.head_dim;
  s.q_stride = fused ? q + 2 * kv : q + 8;
  s.kv_stride = fused ? s.q_stride : kv;
  test::Random random(static_cast<std::uint64_t>(sizes.length));
  const std::int64_t tokens = s.batch * s.length;
  const auto any = [&](std::int64_t n, DType type, double scale) {
    return Numbers::random(random, n, type, scale);
  };
  std::vector<Numbers> arrays = {any(tokens * s.q_stride, s.dtype, 2),
                                 any(tokens * q, s.dtype, 1),  // the output and its gradient
                                 any(tokens * q, s.dtype, 1), any(2 * s.rows(), DType::float32, 1),
                                 any(tokens * s.q_stride, s.dtype, 1)};
  if (!fused) {
    for (int k = 0; k < 4; ++k) arrays.push_back(any(tokens * s.kv_stride, s.dtype, 1));
  }
  const Bytes needed = kernels::DevicePlan(sizes.hopper).temporary(s, true);
  std::vector<float> temporary(static_cast<std::size_t>(needed.value / 4));
  const double near = test::attention_tolerance(s.dtype);
  Both{.hopper = sizes.hopper}.compare(arrays, near, [&](kernels::Math& m, auto& x) {
    const auto heads = [&](std::size_t first, std::size_t rest) {
      const kernels::Array all = x[first].array();
      if (fused) return kernels::HeadArrays<kernels::Array>{all, all.from(q), all.from(q + kv)};
      return kernels::HeadArrays<kernels::Array>{all, x[rest].array(), x[rest + 1].array()};
    };
    const auto in = heads(0, 5);
    m.attention_forward(s, {in.q, in.k, in.v}, x[1].array(), floats(x[3]), {});
    m.attention_backward(s, {in.q, in.k, in.v}, {x[1].array(), x[2].array()}, floats(x[3]),
                         heads(4, 7), {temporary.data(), nullptr});
  });
}

// Blackwell's kernels take fewer columns of weights at a time.
TEST_CASE("the gradients of attention are the same bits on Blackwell", "[device]") {
  const std::int64_t head_dim = GENERATE(32, 64, 128);
  const std::int64_t length = GENERATE(1, 64, 131);
  const AttentionShape s{.batch = 1,
                         .length = length,
                         .heads = 2,
                         .kv_heads = 1,
                         .head_dim = head_dim,
                         .dtype = length == 64 ? DType::float16 : DType::bfloat16,
                         .q_stride = 2 * head_dim,
                         .kv_stride = head_dim};
  test::Random random(static_cast<std::uint64_t>(length + head_dim));
  const auto any = [&](std::int64_t width) {
    return Numbers::random(random, length * width, s.dtype);
  };
  Numbers q = any(s.q_stride), k = any(head_dim), v = any(head_dim), gradient = any(s.q_stride);
  Numbers statistics = Numbers::random(random, 2 * s.rows(), DType::float32);
  for (std::size_t row = 0; row < statistics.size(); row += 2) statistics.set(row + 1, 3);
  Numbers along = Numbers::random(random, s.rows(), DType::float32);
  const auto gradients = [&](auto* tiles) {
    std::vector<Numbers> found = {any(s.q_stride), any(head_dim), any(head_dim)};
    const kernels::HeadArrays<kernels::ConstArray> in{q.array(), k.array(), v.array()};
    CHECK(tiles(s, in, {q.array(), gradient.array()}, floats(statistics),
                {found[0].array(), found[1].array(), found[2].array()}, floats(along),
                nullptr) == 0);
    std::vector<test::Doubles> numbers;
    for (const Numbers& each : found) numbers.push_back(each.doubles());
    return numbers;
  };
  const auto hopper = gradients(device::tiles_backward);
  CHECK(gradients(device::blackwell_tiles_backward) == hopper);
  CHECK(std::abs(hopper[1][0]) > 0);
}

// A block waits for the one with the keys before its own, which must have begun.
TEST_CASE("on Hopper each head's blocks begin in the order of their keys", "[device]") {
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    INFO("seed " << seed);
    test::Random random(seed);
    AttentionShape s{.batch = 1 + random.below(20), .length = 1 + random.below(9'000)};
    s.head_dim = random.chance(50) ? 64 : 128;
    s.kv_heads = 1 + random.below(40);
    s.heads = s.kv_heads * (1 + random.below(8));
    const kernels::BlockOrder order(s, kernels::HopperGradient(s).tiles);
    std::vector<int> next(static_cast<std::size_t>(order.heads), 0);
    bool in_order = true;
    for (int number = 0; number < order.blocks(); ++number) {
      const auto [head, tile] = order.block(number);
      in_order = in_order && tile == next.at(static_cast<std::size_t>(head))++;
    }
    CHECK(in_order);
    CHECK(next == std::vector<int>(next.size(), order.tiles));
  }
}

}  // namespace tessera
