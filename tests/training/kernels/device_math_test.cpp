// SPDX-License-Identifier: Apache-2.0
// The kernels of GPUs, carried out by the emulator, against those of the CPU.
#include "tests/training/kernels/both_maths.h"

namespace tessera {
namespace {

using test::Both;
using test::computed_dtypes;
using test::floats;
using test::Numbers;

}  // namespace

TEST_CASE("kernels of one element per thread give the CPU's bits", "[device]") {
  test::Random random(11);
  Both math;
  const bool packed = GENERATE(false, true);
  for (const DType dtype : computed_dtypes) {
    const std::int64_t n = packed ? 4 * (1 + random.below(200)) : 1 + 2 * random.below(300);
    const auto any = [&](DType type) { return Numbers::random(random, n, type, 4); };
    for (const Activation kind :
         {Activation::gelu_tanh, Activation::gelu, Activation::relu, Activation::silu}) {
      math.compare({any(dtype), any(dtype)}, 0, [&](kernels::Math& m, auto& x) {
        m.activate(kind, x[0].array(), x[1].array(), n);
      });
      math.compare({any(dtype), any(dtype), any(dtype)}, 0, [&](kernels::Math& m, auto& x) {
        m.activate_gated(kind, x[0].array(), x[1].array(), x[2].array(), n);
        m.multiply(x[0].array(), x[1].array(), x[0].array(), n);
      });
    }
    math.compare({any(DType::float32), any(dtype), any(dtype)}, 0, [&](kernels::Math& m, auto& x) {
      m.convert(x[0].array(), x[1].array(), n);
      m.accumulate(floats(x[0]), x[2].array(), n);
      m.scale(x[2].array(), 0.3F, n);
      m.clear(x[0].array(), n / 2);
    });
    const std::int64_t heads = 3, half = 5, length = 7, rows = 14;
    const auto angles = Numbers::random(random, length * half, DType::float32);
    math.compare({Numbers::random(random, rows * heads * 2 * half, dtype), angles, angles}, 0,
                 [&](kernels::Math& m, auto& x) {
                   const kernels::RotaryRows table{floats(x[1]), floats(x[2]), half, length};
                   m.rotate(table, x[0].array(), rows, heads, false);
                   m.rotate(table, x[0].array(), rows, heads, true);
                 });
  }
}

TEST_CASE("casts of blocks are those of the host", "[device]") {
  test::Random random(3);
  for (const DType from_dtype : computed_dtypes) {
    for (const DType to_dtype : computed_dtypes) {
      for (const std::int64_t numel : {1, 12, 700}) {
        const BlockCopy shape{from_dtype, to_dtype, numel, 3, numel + 4, (numel + 3) / 4 * 4};
        Numbers from = Numbers::random(random, 3 * shape.from_pitch, from_dtype);
        Numbers to = Numbers::random(random, 3 * shape.to_pitch, to_dtype);
        Numbers expected = to;
        for (std::int64_t k = 0; k < 3; ++k) {
          kernels::convert(from.array().from(k * shape.from_pitch),
                           expected.array().from(k * shape.to_pitch), numel, 1);
        }
        Numbers whole = Numbers::random(random, 9000, from_dtype);
        Numbers copy = Numbers::random(random, 9000, to_dtype);
        const BlockCast casts[] = {
            {to.array().data, from.array().data, shape},
            {copy.array().data, whole.array().data, {from_dtype, to_dtype, 9000}}};
        CHECK(device::cast_blocks(casts, nullptr) == 0);
        test::check_near(to, expected.doubles(), 0);
        Numbers rounded = Numbers::random(random, 9000, to_dtype);
        kernels::convert(whole.array(), rounded.array(), 9000, 1);
        test::check_near(copy, rounded.doubles(), 0);
      }
    }
  }
}

TEST_CASE("all parameters of a step give the bits that each gives alone", "[device]") {
  constexpr std::int64_t sizes[] = {1, 768, 5000, 9, 4096, 12, 4097};
  const AdamNumbers numbers{.learning_rate = 0.01F,
                            .beta1 = 0.9F,
                            .beta2 = 0.95F,
                            .epsilon = 1e-8F,
                            .weight_decay = 0.1F,
                            .correction1 = 0.1F,
                            .correction2 = 0.05F};
  test::Random random(9);
  for (const DType half : computed_dtypes) {
    std::vector<Numbers> on_device;
    for (int k = 0; k < 200; ++k) {  // more than one launch has place for
      const std::int64_t numel = sizes[static_cast<std::size_t>(random.below(7))];
      const DType dtype = k < 100 ? half : DType::float32;
      on_device.push_back(Numbers::random(random, numel, dtype));
      for (int moment = 0; moment < 3; ++moment) {
        on_device.push_back(Numbers::random(random, numel, DType::float32));
        Numbers& last = on_device.back();
        for (std::int64_t i = 0; moment == 2 && i < numel; ++i) floats(last)[i] *= floats(last)[i];
      }
    }
    std::vector<Numbers> on_host = on_device;
    const auto array = [](Numbers& x, std::int64_t numel) {
      return KernelArray{x.array().data, numel, x.array().dtype};
    };
    const auto elements = [](Numbers& x, std::int64_t numel) {
      const auto bytes = static_cast<std::size_t>(numel * size_of(x.array().dtype).value);
      return Elements{{x.array().as<std::byte>(), bytes}, x.array().dtype};
    };
    std::vector<AdamArrays> all;
    std::vector<KernelArray> gradients;
    for (std::size_t k = 0; k < on_device.size(); k += 4) {
      const auto numel = static_cast<std::int64_t>(on_device[k].size());
      const auto of = [&](std::size_t i) { return array(on_device[k + i], numel); };
      all.push_back({numbers, of(0), of(1), of(2), of(3)});
      gradients.push_back(of(0));
    }
    const float sum = 4;
    CHECK(device::clip(Norm::l2, &sum, 1, gradients, nullptr) == 0);
    CHECK(device::adam(all, nullptr) == 0);
    for (std::size_t k = 0; k < on_host.size(); k += 4) {
      const auto numel = static_cast<std::int64_t>(on_host[k].size());
      const auto of = [&](std::size_t i) { return elements(on_host[k + i], numel); };
      float one = sum;
      host_kernels().clip(Norm::l2, {std::as_writable_bytes(std::span(&one, 1)), DType::float32}, 1,
                          of(0));
      host_kernels().adam(numbers, of(0), of(1), of(2), of(3));
    }
    for (std::size_t k = 0; k < on_host.size(); ++k) {
      test::check_near(on_device[k], on_host[k].doubles(), 0);
    }
  }
}

TEST_CASE("norms of few and of many numbers are those of the host", "[device]") {
  test::Random random(6);
  std::vector<std::byte> workspace(norm_workspace_bytes);
  for (const DType dtype : computed_dtypes) {
    for (const std::int64_t numel : {1, 1000, 9001, 40'000}) {
      Numbers values = Numbers::random(random, numel, dtype);
      for (const Norm norm : {Norm::l1, Norm::l2, Norm::largest}) {
        float one = 0.5F;
        float expected = one;
        const KernelArray array{values.array().data, numel, dtype};
        const std::vector<KernelArray> twice(numel == 1000 ? 150 : 2, array);
        CHECK(device::add_norm(norm, twice, &one, workspace.data(), nullptr) == 0);
        const auto bytes = static_cast<std::size_t>(numel * size_of(dtype).value);
        for (std::size_t k = 0; k < twice.size(); ++k) {
          host_kernels().add_norm(
              norm, {{values.array().as<std::byte>(), bytes}, dtype},
              {std::as_writable_bytes(std::span(&expected, 1)), DType::float32});
        }
        CHECK(one == Approx(expected).epsilon(1e-5));
      }
    }
  }
}

TEST_CASE("kernels of rows give the CPU's sums", "[device]") {
  Both math;
  for (std::uint64_t seed = 1; seed <= 11; ++seed) {
    INFO("seed " << seed);
    test::Random random(seed);
    const DType dtype = computed_dtypes[seed % 3];
    const std::int64_t unit = seed % 2 == 0 ? 8 : 7;
    const bool long_rows = seed > 9;
    const std::int64_t rows = 1 + random.below(long_rows ? 4 : 250);
    const std::int64_t width = unit * (long_rows ? 300 : 1 + random.below(40));
    const kernels::StoredRows logits{rows, width, width + (seed % 3 == 0 ? 5 : 0)};
    const auto array = [&](std::int64_t n, DType type) { return Numbers::random(random, n, type); };
    const auto full = [&](DType type) { return array(rows * width, type); };
    const double near = test::tolerance(dtype);
    std::vector<float> sums(static_cast<std::size_t>(2 * width));
    const auto to = [&](Numbers& gradient) {
      return kernels::ColumnGradient{gradient.array(), sums.data(), math.scratch.data()};
    };
    math.compare({full(dtype), array(width, DType::float32), array(1, DType::float32)}, 3e-6,
                 [&](kernels::Math& m, auto& x) {
                   m.add_column_sums(x[0].array(), rows, width, to(x[1]));
                   m.mean(floats(x[1]), width, floats(x[2]));
                 });
    math.compare({full(DType::float32), full(dtype), full(dtype), array(width, dtype)}, near,
                 [&](kernels::Math& m, auto& x) {
                   m.convert_rows(x[0].array(), x[1].array(), rows, width, to(x[3]));
                   m.multiply_rows(x[1].array(), x[2].array(), x[2].array(), rows, width, to(x[3]));
                   m.convert_rows(x[0].array(), x[1].array(), rows, width, {});
                   m.multiply_rows(x[1].array(), x[2].array(), x[1].array(), rows, width, {});
                 });
    kernels::NormShape norm{.rows = rows, .width = width, .centred = seed % 2 == 0};
    const DType parameters = seed % 4 < 2 ? dtype : DType::float32;
    math.compare({full(DType::float32), array(width, parameters), array(width, parameters),
                  full(dtype), full(dtype), array(rows, DType::float32)},
                 3 * near, [&](kernels::Math& m, auto& x) {
                   m.norm_forward(norm, floats(x[0]), x[1].array(),
                                  norm.centred ? x[2].array() : kernels::Array{}, x[3].array(),
                                  x[4].array(), floats(x[5]));
                 });
    const DType of_bias = seed % 3 == 0 ? DType::float32 : parameters;
    math.compare(
        {full(DType::float32), array(width, parameters), full(dtype), array(rows, DType::float32),
         full(DType::float32), array(width, parameters), array(width, of_bias)},
        parameters == DType::float32 ? 3e-5 : near, [&](kernels::Math& m, auto& x) {
          const kernels::Array bias = norm.centred ? x[6].array() : kernels::Array{};
          m.norm_backward(norm, floats(x[0]), x[1].array(), x[2].array(), floats(x[3]),
                          floats(x[4]), {x[5].array(), bias, sums.data(), math.scratch.data()});
        });
    std::vector<std::int32_t> targets;
    for (std::int64_t r = 0; r < rows; ++r) {
      targets.push_back(static_cast<std::int32_t>(random.below(width)));
    }
    targets.front() = -100;  // none
    math.compare(
        {array(logits.extent(), DType::float32), array(logits.extent(), dtype),
         array(rows, DType::float32)},
        near, [&](kernels::Math& m, auto& x) {
          m.cross_entropy(logits, floats(x[0]), targets.data(), 0.5F, x[1].array(), floats(x[2]));
          m.cross_entropy(logits, floats(x[0]), targets.data(), 0.5F, x[0].array(), floats(x[2]));
        });
  }
}

TEST_CASE("a row whose target does not exist says so, and nothing is read there", "[device]") {
  Both math;
  const std::vector<float> logits = {1, 2, 3, 4};
  const std::int32_t targets[] = {2, 1 << 30};
  const kernels::StoredRows rows{2, 2, 2};
  for (kernels::Math* m :
       {static_cast<kernels::Math*>(&math.host), static_cast<kernels::Math*>(math.device.get())}) {
    std::vector<float> gradient(4, 7.0F);
    std::vector<float> losses(2);
    m->cross_entropy(rows, logits.data(), targets, 1, {gradient.data(), DType::float32},
                     losses.data());
    CHECK(gradient == std::vector<float>(4));
    CHECK((std::isnan(losses[0]) && std::isnan(losses[1])));
  }
}

TEST_CASE("embeddings on GPUs give the CPU's bits", "[device]") {
  test::Random random(4);
  Both math;
  for (const DType dtype : computed_dtypes) {
    const std::int64_t count = 60, width = 33, table_rows = 7;
    std::vector<std::int32_t> ids, by_id;
    for (std::int32_t n = 0; n < count; ++n) {
      ids.push_back(static_cast<std::int32_t>(random.below(table_rows)));
      by_id.push_back(n);
    }
    std::stable_sort(by_id.begin(), by_id.end(), [&](std::int32_t a, std::int32_t b) {
      return ids[static_cast<std::size_t>(a)] < ids[static_cast<std::size_t>(b)];
    });
    const kernels::TokenRows rows{ids.data(), by_id.data(), count};
    const kernels::Positions positions{.batch = 4, .length = 15, .width = width};
    math.compare({Numbers::random(random, table_rows * width, dtype),
                  Numbers::random(random, count * width, DType::float32),
                  Numbers::random(random, 15 * width, dtype)},
                 0, [&](kernels::Math& m, auto& x) {
                   m.scatter_rows(floats(x[1]), rows, width, x[0].array());
                   m.sum_positions(floats(x[1]), positions, x[2].array());
                   m.gather_rows(x[0].array(), rows, width, floats(x[1]));
                   m.add_positions(x[2].array(), positions, floats(x[1]));
                 });
  }
}

}  // namespace tessera
