// SPDX-License-Identifier: Apache-2.0
// Products of numbers of 8 bits: PyTorch's float8_e4m3fn (tools/fp8_truth.py), and the operands
// that GPUs make.
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>

#include "engine/math/e4m3.h"
#include "tests/training/kernels/both_maths.h"
#include "training/kernels/threads.h"

namespace tessera {
namespace {

using kernels::Fp8;
using kernels::MatmulShape;
using test::Both;
using test::Numbers;

const nlohmann::json& recorded() {
  static const nlohmann::json all =
      nlohmann::json::parse(std::ifstream(TESSERA_SOURCE_DIR "/tests/golden/fp8.json"));
  return all;
}

// As tools/fp8_truth.py.
float number(std::int64_t place, std::int64_t seed) {
  const std::int64_t share = (place * 7919 + seed * 104729) % 2003 - 1001;
  const auto exponent = static_cast<int>((place * 31 + seed) % 13) - 6;
  return static_cast<float>(share) / 1001.0F * std::ldexp(1.0F, exponent);
}

Numbers matrix(std::int64_t numel, std::int64_t seed) {
  Numbers out(static_cast<std::size_t>(numel), DType::float32);
  for (std::int64_t i = 0; i < numel; ++i) out.set(static_cast<std::size_t>(i), number(i, seed));
  return out;
}

Numbers product(const MatmulShape& s, Numbers a, Numbers b, int threads = 1) {
  kernels::limit_threads(threads);
  kernels::HostMath host(threads, kernels::HostMath::Memory::own);
  Numbers c(static_cast<std::size_t>(s.m * s.n), DType::float32);
  host.product(s, a.array().data, b.array().data, c.array().data, {}, nullptr);
  kernels::limit_threads(1);
  return c;
}

}  // namespace

TEST_CASE("numbers of 8 bits are PyTorch's", "[kernels]") {
  for (std::size_t code = 0; code < 256; ++code) {
    const float own = kernels::from_e4m3(static_cast<std::uint8_t>(code));
    const auto& theirs = recorded()["decoded"][code];
    CHECK((theirs.is_null() ? std::isnan(own) : own == theirs.get<float>()));
  }
  const auto& codes = recorded()["codes"];
  std::vector<std::size_t> wrong;
  for (std::size_t i = 0; i < codes.size(); ++i) {
    if (kernels::to_e4m3(recorded()["asked"][i].get<float>()) != codes[i]) wrong.push_back(i);
  }
  CHECK(wrong.empty());
  CHECK(codes.size() > 1000);
}

TEST_CASE("what 8 bits cannot say is the largest number, or none", "[kernels]") {
  CHECK(kernels::from_e4m3(kernels::to_e4m3(1e30F)) == 448);
  CHECK(kernels::from_e4m3(kernels::to_e4m3(-465.0F)) == -448);
  for (const float none : {std::numeric_limits<float>::infinity(),
                           -std::numeric_limits<float>::infinity(), std::nanf("")}) {
    CHECK(std::isnan(kernels::from_e4m3(kernels::to_e4m3(none))));
  }
}

TEST_CASE("a scale is the smallest power of two that leaves at most 448", "[kernels]") {
  const auto scale_of = [](float x) { return kernels::e4m3_scale(kernels::magnitude_bits(x)); };
  CHECK(scale_of(448) == 1);
  CHECK(scale_of(std::nextafter(448.0F, 500.0F)) == 2);
  CHECK(scale_of(-224) == 0.5F);
  CHECK(scale_of(0) == 1);
  CHECK(scale_of(std::numeric_limits<float>::infinity()) == 1);
  CHECK(scale_of(std::numeric_limits<float>::denorm_min()) == 0x1p-126F);
  CHECK(scale_of(std::numeric_limits<float>::max()) == 0x1p120F);
  test::Random random(1);
  for (int k = 0; k < 1000; ++k) {
    const float x =
        number(random.below(100'000), 3) * std::ldexp(1.0F, static_cast<int>(k % 200) - 100);
    if (x == 0) continue;
    const float scale = scale_of(x);
    const float scaled = std::abs(x) * kernels::e4m3_inverse(scale);
    CHECK((scaled <= 448 && scaled > 224));
    CHECK(scaled * scale == std::abs(x));
  }
}

TEST_CASE("products in fp8 are those of PyTorch's numbers", "[kernels]") {
  for (const auto& one : recorded()["products"]) {
    MatmulShape s{.m = one["m"], .n = one["n"], .k = one["k"]};
    s.fp8 = one["weight"].get<bool>() ? Fp8::weight : Fp8::tiles;
    INFO(s.m << " x " << s.k << " by " << s.k << " x " << s.n);
    const Numbers c = product(s, matrix(s.m * s.k, 1), matrix(s.k * s.n, 2));
    test::check_near(c, one["c"].get<test::Doubles>(), test::tolerance(DType::float32));
    // However operands lie, and on however many threads.
    MatmulShape turned = s;
    turned.a_transposed = turned.b_transposed = true;
    const auto transposed = [](Numbers from, std::int64_t rows, std::int64_t columns) {
      Numbers to(from.size(), DType::float32);
      for (std::int64_t i = 0; i < rows * columns; ++i) {
        to.set(static_cast<std::size_t>(i % columns * rows + i / columns),
               static_cast<float>(from[static_cast<std::size_t>(i)]));
      }
      return to;
    };
    const Numbers again = product(turned, transposed(matrix(s.m * s.k, 1), s.m, s.k),
                                  transposed(matrix(s.k * s.n, 2), s.k, s.n), 3);
    test::check_near(again, one["c"].get<test::Doubles>(), test::tolerance(DType::float32));
  }
}

TEST_CASE("a number that is none reaches what it is multiplied for, and nothing else",
          "[kernels]") {
  MatmulShape s{.m = 3, .n = 2, .k = 200, .fp8 = Fp8::weight};
  Numbers a = matrix(s.m * s.k, 1);
  a.set(static_cast<std::size_t>(s.k + 5), std::numeric_limits<float>::infinity());
  const Numbers c = product(s, a, matrix(s.k * s.n, 2));
  for (std::size_t i = 0; i < c.size(); ++i) CHECK(std::isnan(c[i]) == (i / 2 == 1));
}

TEST_CASE("products in fp8 on GPUs are the CPU's", "[device]") {
  Both math;
  math.products->with_biases = GENERATE(true, false);
  for (std::uint64_t seed = 1; seed <= 24; ++seed) {
    INFO("seed " << seed);
    test::Random random(seed);
    const auto size = [&](std::int64_t most) { return 16 * (1 + random.below(most)); };
    MatmulShape s{.m = size(11), .n = size(11), .k = 1 + random.below(300)};
    s.fp8 = random.chance(50) ? Fp8::weight : Fp8::tiles;
    s.input = test::computed_dtypes[seed % 3];
    s.output = random.chance(50) ? DType::float32 : s.input;
    s.a_transposed = random.chance(50);
    s.b_transposed = random.chance(50);
    s.bias = random.chance(50);
    s.add = random.chance(50);
    if (random.chance(30)) s.a_stride = (s.a_transposed ? s.m : s.k) + random.below(9);
    if (random.chance(30)) s.b_stride = (s.b_transposed ? s.k : s.n) + random.below(9);
    math.room_for(s);
    const auto any = [&](std::int64_t numel, DType dtype) {
      Numbers out = Numbers::random(random, numel, dtype);
      for (std::size_t i = 0; i < out.size(); i += 3) {  // scales that differ, and small numbers
        out.set(i, static_cast<float>(out[i]) * std::ldexp(1.0F, -static_cast<int>(i % 14)));
      }
      return out;
    };
    math.compare({any(s.a_rows().extent(), s.input), any(s.b_rows().extent(), s.input),
                  any(s.c_rows().extent(), s.output),
                  any(s.n, random.chance(50) ? s.input : DType::float32)},
                 test::tolerance(s.output), [&](kernels::Math& m, auto& x) {
                   m.product(s, x[0].array().data, x[1].array().data, x[2].array().data,
                             s.bias ? x[3].array() : kernels::Array{}, math.scratch.data());
                 });
  }
}

TEST_CASE("sizes that cuBLASLt does not multiply in fp8 are refused by name", "[device]") {
  kernels::DevicePlan plan;
  const MatmulShape good{.m = 32, .n = 48, .k = 7, .fp8 = Fp8::weight};
  CHECK(plan.prepare(good).ok());
  CHECK(plan.scratch() > kernels::device_scratch_bytes);
  for (MatmulShape bad : {MatmulShape{.m = 24, .n = 48}, MatmulShape{.m = 32, .n = 50}}) {
    CHECK(plan.prepare(bad).ok());
    bad.fp8 = Fp8::tiles;
    const Status refused = plan.prepare(bad);
    CHECK(refused.code() == Code::not_supported);
    CHECK(refused.message().find("must be multiples of 16") != std::string::npos);
  }
}

}  // namespace tessera
