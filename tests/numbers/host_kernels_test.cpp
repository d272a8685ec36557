// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

#include "engine/numbers/number.h"
#include "tessera/kernels.h"
#include "tests/random.h"
#include "training/kernels/threads.h"

namespace tessera {
namespace {

constexpr std::array dtypes{DType::float32, DType::bfloat16, DType::float16};
constexpr std::size_t odd = 1031;  // two chunks and a bit, no multiple of any vector

// An array with its own reading of every element, so that nothing is tested against itself.
struct Array {
  DType dtype;
  std::vector<std::byte> bytes;

  Array(DType d, std::size_t n) : dtype(d), bytes(n * static_cast<std::size_t>(size_of(d).value)) {}
  Array(DType d, std::size_t n, test::Random& random) : Array(d, n) {
    for (std::size_t i = 0; i < n; ++i) set(i, static_cast<float>(random.below(1999) - 999) / 512);
  }
  float at(std::size_t i) const { return load_number(bytes, dtype, i); }
  void set(std::size_t i, float x) { store_number(bytes, dtype, i, x); }
  Elements all() { return {bytes, dtype}; }
};

float rounded(DType dtype, float x) {
  Array one(dtype, 1);
  one.set(0, x);
  return one.at(0);
}

TEST_CASE("scale, add and divide round once, whatever the dtypes and however many elements") {
  test::Random random(1);
  for (DType a : dtypes) {
    for (DType b : dtypes) {
      Array from(a, odd, random), to(b, odd, random);
      const Array before = to;
      host_kernels().add(from.all(), to.all());
      for (std::size_t i = 0; i < odd; ++i) {
        REQUIRE(to.at(i) == rounded(b, before.at(i) + from.at(i)));
      }
      host_kernels().scale(from.all(), to.all(), 0.3F);
      for (std::size_t i = 0; i < odd; ++i) REQUIRE(to.at(i) == rounded(b, from.at(i) * 0.3F));
      host_kernels().divide(from.all(), 3);
      for (std::size_t i = 0; i < odd; ++i) {
        // `to` still has what was there before the division, times 0.3.
        REQUIRE(std::fabs(from.at(i) * 0.9F - to.at(i)) <= 0.02F * std::fabs(to.at(i)) + 1e-6F);
      }
    }
  }
}

TEST_CASE("Adam does one step of AdamW on every element of a part and leaves the rest") {
  test::Random random(2);
  const AdamNumbers o{1e-2F, 0.9F, 0.99F, 1e-8F, 0.1F, 0.1F, 0.01F};
  Array g(DType::bfloat16, odd, random), p(DType::float32, odd, random);
  Array m(DType::float32, odd), v(DType::float32, odd);
  const Array before = p;
  host_kernels().adam(o, g.all().part(7, 600), p.all().part(7, 600), m.all().part(7, 600),
                      v.all().part(7, 600));
  for (std::size_t i = 0; i < odd; ++i) {
    if (i < 7 || i >= 607) {
      REQUIRE(p.at(i) == before.at(i));
      continue;
    }
    // At the first step the corrected moments are g and g^2.
    const double step = 1e-2 * (g.at(i) == 0 ? 0 : g.at(i) > 0 ? 1 : -1);
    REQUIRE(p.at(i) == Approx(before.at(i) * (1 - 1e-3) - step).margin(1e-4));
    REQUIRE(v.at(i) == Approx(0.01 * g.at(i) * g.at(i)));
  }
}

TEST_CASE("Adam's bits are those of its formula, whatever the dtypes and however many threads") {
  const AdamNumbers o{3e-3F, 0.9F, 0.99F, 1e-8F, 0.1F, 0.19F, 0.0199F};
  constexpr std::size_t many = 70'001;  // enough for two threads
  for (DType of_gradient : dtypes) {
    for (DType dtype : dtypes) {
      test::Random random(5);
      const std::size_t numel = dtype == DType::float32 ? many : odd;
      Array g(of_gradient, numel, random), p(dtype, numel, random), m(dtype, numel, random);
      Array v(dtype, numel);
      for (std::size_t i = 0; i < numel; ++i) v.set(i, std::fabs(m.at(i)) / 3);
      const Array p0 = p, m0 = m, v0 = v;
      kernels::limit_threads(2);
      host_kernels().adam(o, g.all(), p.all(), m.all(), v.all());
      kernels::limit_threads(1);
      std::size_t wrong = 0;
      for (std::size_t i = 0; i < numel; ++i) {
        const float g_beta1 = (1 - o.beta1) * g.at(i);
        const float m_now = o.beta1 * m0.at(i) + g_beta1;
        const float g_squared = (1 - o.beta2) * g.at(i) * g.at(i);
        const float v_now = o.beta2 * v0.at(i) + g_squared;
        const float root = std::sqrt(v_now / o.correction2);
        const float step = o.learning_rate * (m_now / o.correction1) / (root + o.epsilon);
        const float kept = p0.at(i) * (1 - o.learning_rate * o.weight_decay);
        wrong += m.at(i) != rounded(dtype, m_now) || v.at(i) != rounded(dtype, v_now) ||
                 p.at(i) != rounded(dtype, kept - step);
      }
      CHECK(wrong == 0);
    }
  }
}

TEST_CASE("moments in halves are rounded at random, alike in every cut and number of threads") {
  const AdamNumbers o{1e-3F, 0.9F, 0.999F, 1e-8F, 0.0F, 0.5F, 0.5F};
  constexpr std::size_t many = 70'001;
  const RandomRounding rounding{.key = 0x1234'5678'9ABC'DEF0U, .first = 11};
  const auto stepped = [&](const std::vector<std::size_t>& cuts, int threads, int steps) {
    test::Random random(5);
    Array g(DType::float32, many, random), p(DType::float32, many), m(DType::bfloat16, many);
    Array v(DType::bfloat16, many);
    for (std::size_t i = 0; i < many; ++i) v.set(i, 1);
    kernels::limit_threads(threads);
    for (int step = 0; step < steps; ++step) {
      for (std::size_t k = 0; k + 1 < cuts.size(); ++k) {
        const std::size_t first = cuts[k], count = cuts[k + 1] - cuts[k];
        RandomRounding own = rounding;
        own.key += static_cast<std::uint64_t>(step) * 0x9E3779B97F4A7C15U;
        own.first += static_cast<std::int64_t>(first);
        host_kernels().adam_in_halves(o, own, g.all().part(first, count),
                                      p.all().part(first, count), m.all().part(first, count),
                                      v.all().part(first, count));
      }
    }
    kernels::limit_threads(1);
    std::vector<float> all;
    for (std::size_t i = 0; i < many; ++i) all.insert(all.end(), {p.at(i), m.at(i), v.at(i)});
    return all;
  };
  const auto whole = stepped({0, many}, 1, 1);
  CHECK(stepped({0, many}, 2, 1) == whole);
  CHECK(stepped({0, 7, 600, 40'000, many}, 2, 1) == whole);
  // What one step changes by a thousandth would stay 1 if it were rounded to the nearest.
  double mean = 0, expected = 0;
  test::Random random(5);
  const Array g(DType::float32, many, random);
  const auto later = stepped({0, many}, 1, 100);
  for (std::size_t i = 0; i < many; ++i) {
    mean += later[3 * i + 2] / static_cast<double>(many);
    const double square = static_cast<double>(g.at(i)) * g.at(i);
    expected += (square + (1 - square) * std::pow(0.999, 100)) / static_cast<double>(many);
  }
  CHECK(mean == Approx(expected).epsilon(1e-3));
}

TEST_CASE("a norm is the same after every cut into parts of whole chunks, and keeps what is NaN") {
  test::Random random(3);
  Array x(DType::float32, odd, random);
  for (const Norm norm : {Norm::l1, Norm::l2, Norm::largest}) {
    double expected = 0;
    for (std::size_t i = 0; i < odd; ++i) {
      const double e = std::fabs(x.at(i));
      expected = norm == Norm::l1   ? expected + e
                 : norm == Norm::l2 ? expected + e * e
                                    : std::max(expected, e);
    }
    Array one(DType::float32, 1), parts(DType::float32, 1);
    host_kernels().add_norm(norm, x.all(), one.all());
    host_kernels().add_norm(norm, x.all().part(0, 512), parts.all());
    host_kernels().add_norm(norm, x.all().part(512, odd - 512), parts.all());
    CHECK(one.at(0) == Approx(expected));
    CHECK(parts.at(0) == Approx(expected));
    Array y = x;
    y.set(700, std::numeric_limits<float>::quiet_NaN());
    host_kernels().add_norm(norm, y.all(), one.all());
    host_kernels().add_norm(norm, x.all(), one.all());
    CHECK(std::isnan(one.at(0)));
  }
}

TEST_CASE("clip scales only what is too long") {
  Array x(DType::float32, 2), sum(DType::float32, 1);
  x.set(0, 3);
  x.set(1, 4);
  host_kernels().add_norm(Norm::l2, x.all(), sum.all());
  host_kernels().clip(Norm::l2, sum.all(), 6, x.all());
  CHECK(x.at(0) == 3);
  host_kernels().clip(Norm::l2, sum.all(), 1, x.all());
  CHECK(x.at(0) == Approx(0.6));
  CHECK(x.at(1) == Approx(0.8));
}

TEST_CASE("unscale finds what is not finite in any place, and forgets nothing found before") {
  for (const float bad :
       {std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity(),
        std::numeric_limits<float>::quiet_NaN()}) {
    test::Random random(4);
    Array x(DType::bfloat16, odd, random), found(DType::float32, 1);
    host_kernels().unscale(x.all(), 0.5F, found.all());
    CHECK(found.at(0) == 0);
    x.set(odd - 1, bad);
    host_kernels().unscale(x.all(), 0.5F, found.all());
    CHECK(found.at(0) == 1);
    x.set(odd - 1, 0);
    host_kernels().unscale(x.all(), 0.5F, found.all());
    CHECK(found.at(0) == 1);
  }
}

}  // namespace
}  // namespace tessera
