// SPDX-License-Identifier: Apache-2.0
// Norms, activations, losses and moves of rows, with odd sizes, against double precision.
#include "training/kernels/rows.h"

#include <bit>

#include "engine/math/scalar_math.h"
#include "engine/numbers/number.h"
#include "tests/training/kernels/numbers.h"
#include "training/kernels/activation.h"
#include "training/kernels/cross_entropy.h"
#include "training/kernels/norm.h"
#include "training/kernels/rope.h"

namespace tessera {
namespace {

using test::Doubles;
using test::Numbers;

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

}  // namespace

TEST_CASE("halves round as everywhere else", "[kernels]") {
  test::Random random(1);
  for (int k = 0; k < 20000; ++k) {
    const float value = std::bit_cast<float>(static_cast<std::uint32_t>(random.next()));
    kernels::BFloat16 half{};
    kernels::store(half, value);
    REQUIRE(half.bits == to_bfloat16(value));
    kernels::Float16 short_half{};
    kernels::store(short_half, value);
    REQUIRE(short_half.bits == to_float16(value));
  }
  for (std::uint32_t bits = 0; bits < 0x10000U; ++bits) {
    const auto half = static_cast<std::uint16_t>(bits);
    const float value = kernels::load(kernels::Float16{half});
    REQUIRE(std::bit_cast<std::uint32_t>(value) ==
            std::bit_cast<std::uint32_t>(from_float16(half)));
    kernels::Float16 again{};
    kernels::store(again, value);
    if (!std::isnan(value)) REQUIRE(again.bits == half);
  }
}

TEST_CASE("exponentials and logarithms are exact to some units in the last place", "[kernels]") {
  for (float x = -87.2F; x < 88.2F; x += 0.0137F) {
    REQUIRE(kernels::exponential(x) ==
            Approx(std::exp(static_cast<double>(x))).epsilon(3e-7).margin(0));
  }
  for (float x = 1e-30F; x < 1e30F; x *= 1.37F) {
    REQUIRE(kernels::logarithm(x) ==
            Approx(std::log(static_cast<double>(x))).epsilon(3e-7).margin(1e-7));
  }
}

TEST_CASE("norms and their gradients are those of double precision", "[kernels]") {
  for (std::uint64_t seed = 1; seed <= 24; ++seed) {
    test::Random random(seed);
    INFO("seed " << seed);
    kernels::NormShape s{.rows = 1 + random.below(150), .width = 1 + random.below(150)};
    s.centred = random.chance(50);
    const int threads = static_cast<int>(1 + random.below(2));
    const DType dtype = test::computed_dtypes[seed % 3];
    const std::int64_t w = s.width;
    Numbers x = Numbers::random(random, s.rows * w, DType::float32, 3);
    Numbers weight = Numbers::random(random, w, DType::float32);
    Numbers bias = Numbers::random(random, w, DType::float32);
    Numbers dy = Numbers::random(random, s.rows * w, DType::float32);
    Numbers dx = Numbers::random(random, s.rows * w, DType::float32);
    Numbers y(x.size(), dtype), normal(x.size(), dtype);
    Numbers reciprocal(at(s.rows), DType::float32), sums(at(2 * w), DType::float32);
    Doubles ey, edx, esums(at(2 * w), 0);
    const double n = static_cast<double>(w);
    for (std::int64_t r = 0; r < s.rows; ++r) {
      double mean = 0, square = 0, m1 = 0, m2 = 0;
      for (std::int64_t i = 0; i < w; ++i) mean += s.centred ? x[at(r * w + i)] / n : 0;
      for (std::int64_t i = 0; i < w; ++i) square += std::pow(x[at(r * w + i)] - mean, 2) / n;
      const double inverse = 1 / std::sqrt(square + static_cast<double>(s.epsilon));
      for (std::int64_t i = 0; i < w; ++i) {
        const double hat = (x[at(r * w + i)] - mean) * inverse;
        const double g = dy[at(r * w + i)] * weight[at(i)];
        ey.push_back(hat * weight[at(i)] + (s.centred ? bias[at(i)] : 0));
        m1 += s.centred ? g / n : 0;
        m2 += g * hat / n;
        esums[at(i)] += dy[at(r * w + i)] * hat;
        esums[at(w + i)] += dy[at(r * w + i)];
      }
      for (std::int64_t i = 0; i < w; ++i) {
        const double hat = (x[at(r * w + i)] - mean) * inverse;
        edx.push_back(dx[at(r * w + i)] +
                      inverse * (dy[at(r * w + i)] * weight[at(i)] - m1 - hat * m2));
      }
    }
    auto floats = [](Numbers& v) { return v.array().as<float>(); };
    kernels::norm_forward(s, floats(x), floats(weight), s.centred ? floats(bias) : nullptr,
                          y.array(), normal.array(), floats(reciprocal), threads);
    kernels::norm_backward(s, floats(dy), floats(weight), normal.array(), floats(reciprocal),
                           floats(dx), floats(sums), threads);
    const double near = 3 * test::tolerance(dtype);
    test::check_near(y, ey, near);
    if (w > 2) test::check_near(dx, edx, 10 * near);  // of two numbers little is left
    test::check_near(sums, esums, near);
  }
}

TEST_CASE("activations come with their derivatives", "[kernels]") {
  test::Random random(4);
  for (const DType dtype : test::computed_dtypes) {
    constexpr std::int64_t n = 1003;
    Numbers x = Numbers::random(random, n, dtype, 6);
    Numbers up = Numbers::random(random, n, dtype, 2);
    Numbers y(at(n), dtype);
    Numbers gate = x;
    Doubles ey, edx, esilu, eup, ez;
    for (std::int64_t i = 0; i < n; ++i) {
      const double v = x[at(i)];
      const double c = std::sqrt(2 / std::acos(-1.0));
      const double th = std::tanh(c * (v + 0.044715 * v * v * v));
      ey.push_back(0.5 * v * (1 + th));
      edx.push_back(0.5 * (1 + th) + 0.5 * v * (1 - th * th) * c * (1 + 3 * 0.044715 * v * v));
      const double sig = 1 / (1 + std::exp(-v));
      esilu.push_back(v * sig);
      ez.push_back(v * sig * up[at(i)]);
      eup.push_back(up[at(i)] * (sig + v * sig * (1 - sig)));
    }
    kernels::activate(Activation::gelu_tanh, x.array(), y.array(), n, 2);
    test::check_near(y, ey, test::tolerance(dtype));
    test::check_near(x, edx, test::tolerance(dtype));
    kernels::activate_gated(Activation::silu, gate.array(), up.array(), y.array(), n, 2);
    test::check_near(y, ez, test::tolerance(dtype));
    test::check_near(gate, esilu, test::tolerance(dtype));
    test::check_near(up, eup, test::tolerance(dtype));
  }
}

TEST_CASE("cross entropy comes with its gradient", "[kernels]") {
  test::Random random(9);
  for (const DType dtype : test::computed_dtypes) {
    for (const std::int64_t width : {1, 7, 257}) {
      constexpr std::int64_t rows = 37;
      constexpr double scale = 0.25;
      Numbers logits = Numbers::random(random, rows * width, DType::float32, 30);
      Numbers gradient(logits.size(), dtype), losses(at(rows), DType::float32);
      std::vector<std::int32_t> targets;
      Doubles eg, el;
      for (std::int64_t r = 0; r < rows; ++r) {
        targets.push_back(static_cast<std::int32_t>(random.below(width)));
        double sum = 0;
        for (std::int64_t i = 0; i < width; ++i) sum += std::exp(logits[at(r * width + i)]);
        for (std::int64_t i = 0; i < width; ++i) {
          const double p = std::exp(logits[at(r * width + i)]) / sum;
          eg.push_back(scale * (p - (i == targets.back() ? 1 : 0)));
        }
        el.push_back(std::log(sum) - logits[at(r * width + targets.back())]);
      }
      kernels::cross_entropy({rows, width, width}, logits.array().as<float>(), targets.data(),
                             static_cast<float>(scale), gradient.array(),
                             losses.array().as<float>(), 2);
      test::check_near(gradient, eg, test::tolerance(dtype));
      test::check_near(losses, el, 1e-6);
    }
  }
}

TEST_CASE("rotating back is the inverse of rotating", "[kernels]") {
  test::Random random(2);
  const RotaryEmbedding rotary{.theta = 10000};
  const auto table = kernels::rotary_table(rotary, 10, 300);
  for (std::int64_t t = 0; t < 300; ++t) {
    for (std::int64_t i = 0; i < 5; ++i) {
      const double angle =
          static_cast<double>(t) * std::pow(10000.0, -0.2 * static_cast<double>(i));
      REQUIRE(table.cosine[at(t * 5 + i)] == Approx(std::cos(angle)).margin(1e-6));
      REQUIRE(table.sine[at(t * 5 + i)] == Approx(std::sin(angle)).margin(1e-6));
    }
  }
  Numbers x = Numbers::random(random, 600 * 3 * 10, DType::float32);
  const Doubles before = x.doubles();
  const kernels::RotaryRows rows{table.cosine.data(), table.sine.data(), 5, 300};
  kernels::rotate(rows, x.array(), 600, 3, false, 2);
  CHECK(x.doubles() != before);
  kernels::rotate(rows, x.array(), 600, 3, true, 2);
  test::check_near(x, before, 1e-6);
}

TEST_CASE("rows are gathered, scattered and summed in their order", "[kernels]") {
  test::Random random(6);
  for (const DType dtype : test::computed_dtypes) {
    constexpr std::int64_t width = 71, rows = 50, table_rows = 9;
    Numbers table = Numbers::random(random, table_rows * width, dtype);
    Numbers x(at(rows * width), DType::float32);
    Numbers sums(at(width), DType::float32);
    std::vector<std::int32_t> ids;
    Doubles expected, scattered = table.doubles(), columns(at(width), 0);
    for (std::int64_t r = 0; r < rows; ++r) {
      ids.push_back(static_cast<std::int32_t>(random.below(table_rows)));
      for (std::int64_t i = 0; i < width; ++i) {
        expected.push_back(table[at(ids.back() * width + i)]);
        columns[at(i)] += expected.back();
      }
    }
    for (std::int64_t r = 0; r < rows; ++r) {
      for (std::int64_t i = 0; i < width; ++i) {
        scattered[at(ids[at(r)] * width + i)] += expected[at(r * width + i)];
      }
    }
    auto* out = x.array().as<float>();
    kernels::gather_rows(table.array(), ids, width, out, 2);
    CHECK(x.doubles() == expected);
    kernels::column_sums(x.array(), rows, width, sums.array().as<float>(), 2);
    test::check_near(sums, columns, 1e-6);
    kernels::scatter_rows(out, ids, width, table.array(), 2);
    test::check_near(table, scattered, dtype == DType::float32 ? 1e-6 : 0.1);
  }
}

}  // namespace tessera
