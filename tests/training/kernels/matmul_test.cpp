// SPDX-License-Identifier: Apache-2.0
#include "training/kernels/matmul.h"

#include "tests/training/kernels/numbers.h"
#include "training/kernels/threads.h"

namespace tessera {
namespace {

using kernels::MatmulShape;
using test::Numbers;

std::size_t place(std::int64_t row, std::int64_t column, std::int64_t stride) {
  return static_cast<std::size_t>(row * stride + column);
}

void check_product(MatmulShape s, test::Random& random) {
  kernels::Matmuls matmuls(1);
  auto product = matmuls.prepare(s);
  INFO(product.status().message());
  REQUIRE(product.ok());
  const std::int64_t a_rows = s.a_transposed ? s.k : s.m;
  const std::int64_t b_rows = s.b_transposed ? s.n : s.k;
  if (s.a_stride == 0) s.a_stride = s.a_transposed ? s.m : s.k;
  if (s.b_stride == 0) s.b_stride = s.b_transposed ? s.k : s.n;
  if (s.c_stride == 0) s.c_stride = s.n;
  Numbers a = Numbers::random(random, a_rows * s.a_stride, s.input);
  Numbers b = Numbers::random(random, b_rows * s.b_stride, s.input);
  Numbers c = Numbers::random(random, s.m * s.c_stride, s.output);
  Numbers bias = Numbers::random(random, s.n, DType::float32);
  test::Doubles expected = c.doubles();
  for (std::int64_t i = 0; i < s.m; ++i) {
    for (std::int64_t j = 0; j < s.n; ++j) {
      double sum = s.bias ? bias[static_cast<std::size_t>(j)] : 0;
      for (std::int64_t k = 0; k < s.k; ++k) {
        sum += a[s.a_transposed ? place(k, i, s.a_stride) : place(i, k, s.a_stride)] *
               b[s.b_transposed ? place(j, k, s.b_stride) : place(k, j, s.b_stride)];
      }
      double& to = expected[place(i, j, s.c_stride)];
      to = s.add ? to + sum : sum;
    }
  }
  std::vector<std::byte> scratch(static_cast<std::size_t>(matmuls.scratch().value) + 64);
  auto* aligned =
      scratch.data() + (64 - reinterpret_cast<std::uintptr_t>(scratch.data()) % 64) % 64;
  (*product)->run(a.array().data, b.array().data, c.array().data, bias.array().as<float>(),
                  aligned);
  test::check_near(c, expected, test::tolerance(s.output));
}

}  // namespace

TEST_CASE("products of matrices are those of double precision", "[kernels]") {
  kernels::limit_threads(1);
  for (std::uint64_t seed = 1; seed <= 90; ++seed) {
    test::Random random(seed);
    INFO("seed " << seed);
    MatmulShape s{.m = 1 + random.below(70), .n = 1 + random.below(70), .k = 1 + random.below(70)};
    s.a_transposed = random.chance(50);
    s.b_transposed = random.chance(50);
    s.bias = random.chance(30);
    s.add = random.chance(40);
    s.input = test::computed_dtypes[seed % 3];
    if (random.chance(50)) s.output = s.input;
    if (random.chance(30)) s.a_stride = (s.a_transposed ? s.m : s.k) + random.below(9);
    if (random.chance(30)) s.b_stride = (s.b_transposed ? s.k : s.n) + random.below(9);
    if (random.chance(30)) s.c_stride = s.n + random.below(9);
    check_product(s, random);
  }
}

}  // namespace tessera
