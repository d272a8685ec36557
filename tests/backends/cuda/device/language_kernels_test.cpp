// SPDX-License-Identifier: Apache-2.0
// What language models compute on a device against HostMath: within what another order of sums and
// roundings of halves lose.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "engine/math/device_plan.h"
#include "engine/numbers/number.h"
#include "tests/backends/cuda/device/device.h"
#include "tests/random.h"
#include "training/kernels/host_math.h"

namespace tessera {
namespace {

using kernels::Array;
using kernels::Math;
using test::Device;

struct Given {
  std::vector<std::byte> bytes;
  DType dtype = DType::float32;

  std::size_t numel() const {
    return bytes.size() / static_cast<std::size_t>(size_of(dtype).value);
  }
};

Given numbers(test::Random& random, std::int64_t numel, DType dtype) {
  Given made{std::vector<std::byte>(static_cast<std::size_t>(numel * size_of(dtype).value)), dtype};
  for (std::size_t i = 0; i < made.numel(); ++i) {
    store_number(made.bytes, dtype, i, static_cast<float>(random.below(20001) - 10000) * 1e-4F);
  }
  return made;
}

Given integers(const std::vector<std::int32_t>& values) {
  Given made{std::vector<std::byte>(values.size() * sizeof(std::int32_t)), DType::int32};
  std::memcpy(made.bytes.data(), values.data(), made.bytes.size());
  return made;
}

using Arrays = std::vector<Array>;

enum class Way { plain, hopper };                      // MathOptions::hopper_attention
constexpr std::size_t for_fp8 = std::size_t{1} << 20;  // of scratch memory: small operands

// Computes on both sides, f(math, arrays, scratch), and compares all arrays, within `tolerance` of
// an array's largest number.
template <class F>
void compare(std::vector<Given> given, double tolerance, const F& f, Way way = Way::plain) {
  Device& device = Device::only();
  device.clear();
  std::vector<test::DeviceArray> uploaded;
  Arrays there, here;
  for (Given& g : given) {
    uploaded.push_back(device.upload(g.bytes));
    there.push_back({uploaded.back().at, g.dtype});
    here.push_back({g.bytes.data(), g.dtype});
  }
  static const std::unique_ptr<DeviceMath> plain = test::device_module().make_math({});
  static const std::unique_ptr<DeviceMath> hopper =
      test::device_module().make_math({.hopper_attention = true});
  const std::unique_ptr<DeviceMath>& math = way == Way::hopper ? hopper : plain;
  REQUIRE(math != nullptr);
  math->use(device.stream());
  const auto scratch = static_cast<std::size_t>(kernels::device_scratch_bytes.value);
  f(static_cast<Math&>(*math), there, device.allocate(scratch + for_fp8).at);
  INFO(math->failure().call);
  device.require_code(math->failure().code);
  kernels::HostMath host(1, kernels::HostMath::Memory::own);
  f(static_cast<Math&>(host), here, nullptr);
  for (std::size_t k = 0; k < given.size(); ++k) {
    const std::vector<std::byte> computed = device.download(uploaded[k]);
    float largest = 1e-3F;
    float worst = 0;
    for (std::size_t i = 0; i < given[k].numel(); ++i) {
      const float expected = load_number(given[k].bytes, given[k].dtype, i);
      largest = std::max(largest, std::fabs(expected));
      const float apart = std::fabs(load_number(computed, given[k].dtype, i) - expected);
      if (!(apart <= worst) && !std::isnan(worst)) worst = apart;  // NaN is worst, and stays
    }
    INFO("array " << k << " of " << given[k].numel() << " " << name_of(given[k].dtype));
    CHECK(worst <= tolerance * largest);
  }
}

const float* floats(const Array& array) { return array.as<const float>(); }

constexpr DType dtypes[] = {DType::float32, DType::bfloat16, DType::float16};

double near(DType dtype) {
  if (dtype == DType::float16) return 4e-3;
  return dtype == DType::float32 ? 3e-5 : 3e-2;
}

void check_elements(std::int64_t n) {
  test::Random random(1);
  for (const DType dtype : dtypes) {
    const auto any = [&](DType type) { return numbers(random, n, type); };
    compare({any(dtype), any(dtype), any(dtype), any(DType::float32)}, 0,
            [&](Math& m, Arrays& x, void*) {
              for (const Activation kind :
                   {Activation::gelu_tanh, Activation::gelu, Activation::relu, Activation::silu}) {
                m.activate(kind, x[0], x[1], n);
                m.activate_gated(kind, x[0], x[1], x[2], n);
              }
              m.multiply(x[0], x[1], x[0], n);
              m.convert(x[3], x[1], n);
              m.accumulate(floats(x[3]), x[2], n);
              m.scale(x[2], 0.3F, n);
              m.clear(x[3], n);
            });
  }
}

void check_rows(std::int64_t rows, std::int64_t width) {
  test::Random random(2);
  std::vector<std::int32_t> ids, by_id;
  for (std::int32_t k = 0; k < rows; ++k) {
    ids.push_back(static_cast<std::int32_t>(random.below(5)));
    by_id.push_back(k);
  }
  std::stable_sort(by_id.begin(), by_id.end(), [&](std::int32_t a, std::int32_t b) {
    return ids[static_cast<std::size_t>(a)] < ids[static_cast<std::size_t>(b)];
  });
  for (const DType dtype : dtypes) {
    const auto full = [&](DType type) { return numbers(random, rows * width, type); };
    const auto row = [&](std::int64_t n) { return numbers(random, n, DType::float32); };
    const kernels::NormShape norm{.rows = rows, .width = width};
    std::vector<float> on_host(static_cast<std::size_t>(2 * width));
    const auto sums = [&](void* scratch) {
      return scratch == nullptr ? on_host.data() : static_cast<float*>(scratch);
    };
    const auto halves = [&] { return numbers(random, width, dtype); };
    compare({full(DType::float32), halves(), halves(), full(dtype), full(dtype), row(rows),
             full(DType::float32), halves(), row(width)},
            near(dtype), [&](Math& m, Arrays& x, void* scratch) {
              m.norm_forward(norm, floats(x[0]), x[1], x[2], x[3], x[4], x[5].as<float>());
              m.norm_backward(norm, floats(x[0]), x[1], x[4], floats(x[5]), x[6].as<float>(),
                              {x[7], x[8], sums(scratch), scratch});
            });
    compare({full(DType::float32), full(dtype), row(rows), integers(ids), row(width), row(1),
             full(dtype)},
            near(dtype), [&](Math& m, Arrays& x, void* scratch) {
              m.cross_entropy({rows, width, width}, floats(x[0]), x[3].as<const std::int32_t>(),
                              1.0F, x[1], x[2].as<float>());
              const kernels::ColumnGradient to{x[4], sums(scratch), scratch};
              m.add_column_sums(x[1], rows, width, to);
              m.convert_rows(x[0], x[6], rows, width, to);
              m.multiply_rows(x[6], x[1], x[6], rows, width, to);
              m.mean(floats(x[2]), rows, x[5].as<float>());
            });
    compare(
        {full(DType::float32), numbers(random, 5 * width, dtype), integers(ids), integers(by_id)},
        near(dtype), [&](Math& m, Arrays& x, void*) {
          const kernels::TokenRows places{x[2].as<const std::int32_t>(),
                                          x[3].as<const std::int32_t>(), rows, 2};
          m.scatter_rows(floats(x[0]), places, width, x[1]);
          m.gather_rows(x[1], places, width, x[0].as<float>());
        });
  }
}

void check_products(std::int64_t m_rows, std::int64_t n, std::int64_t k) {
  test::Random random(3);
  for (int which = 0; which < 24; ++which) {
    kernels::MatmulShape s{.m = m_rows, .n = n, .k = k};
    s.input = dtypes[which / 8];
    s.a_transposed = which % 2 == 1;
    s.b_transposed = which / 2 % 2 == 1;
    s.bias = s.add = which / 4 % 2 == 1;
    compare({numbers(random, m_rows * k, s.input), numbers(random, k * n, s.input),
             numbers(random, m_rows * n, DType::float32), numbers(random, n, DType::float32)},
            near(s.input), [&](Math& m, Arrays& x, void* scratch) {
              m.product(s, x[0].data, x[1].data, x[2].data,
                        s.bias ? kernels::ConstArray(x[3]) : kernels::ConstArray{}, scratch);
            });
  }
}

// Twice: all scales along k, and those of a weight.
void check_fp8_products(std::int64_t m_rows, std::int64_t n, std::int64_t k) {
  test::Random random(5);
  for (int which = 0; which < 32; ++which) {
    kernels::MatmulShape s{.m = m_rows, .n = n, .k = k};
    s.fp8 = which % 2 == 0 ? kernels::Fp8::tiles : kernels::Fp8::weight;
    s.input = which / 2 % 2 == 0 ? DType::bfloat16 : DType::float32;
    s.output = which / 4 % 2 == 0 ? DType::float32 : s.input;
    s.a_transposed = which / 8 % 2 == 1;
    s.b_transposed = which / 16 == 1;
    s.bias = s.add = which / 4 % 4 == 1;
    INFO("product " << which);
    compare({numbers(random, m_rows * k, s.input), numbers(random, k * n, s.input),
             numbers(random, m_rows * n, s.output), numbers(random, n, DType::float32)},
            near(DType::bfloat16), [&](Math& m, Arrays& x, void* scratch) {
              m.product(s, x[0].data, x[1].data, x[2].data,
                        s.bias ? kernels::ConstArray(x[3]) : kernels::ConstArray{}, scratch);
            });
  }
}

void check_attention(const kernels::AttentionShape& s, Way way) {
  test::Random random(4);
  const std::int64_t tokens = s.batch * s.length;
  const auto any = [&](std::int64_t width) { return numbers(random, tokens * width, s.dtype); };
  compare(
      {any(s.q_stride), any(s.kv_stride), any(s.kv_stride), any(s.out_stride()),
       any(s.out_stride()), numbers(random, 2 * s.rows(), DType::float32), any(s.q_stride),
       any(s.kv_stride), any(s.kv_stride)},
      near(s.dtype),
      [&](Math& m, Arrays& x, void* temporary) {
        m.attention_forward(s, {x[0], x[1], x[2]}, x[3], x[5].as<float>(), {});
        m.attention_backward(s, {x[0], x[1], x[2]}, {x[3], x[4]}, floats(x[5]), {x[6], x[7], x[8]},
                             {temporary, nullptr});
      },
      way);
}

void check_attentions(std::int64_t length, Way way = Way::plain) {
  for (const DType dtype : dtypes) {
    for (const std::int64_t head_dim : {16, 20, 64, 128}) {
      INFO("head_dim " << head_dim);
      check_attention({.batch = 1,
                       .length = length,
                       .heads = 4,
                       .kv_heads = 2,
                       .head_dim = head_dim,
                       .dtype = dtype,
                       .q_stride = 4 * head_dim,
                       .kv_stride = 2 * head_dim},
                      way);
    }
  }
}

TEST_CASE("language models compute on the device as on the CPU", "[small]") {
  check_elements(1000);
  check_rows(70, 130);
  check_products(24, 40, 16);
  check_attentions(80);
}

TEST_CASE("attention with Hopper's units computes on the device as on the CPU", "[hopper]") {
  check_attentions(1, Way::hopper);
  check_attentions(300, Way::hopper);
}

TEST_CASE("products in fp8 are computed on the device as on the CPU", "[fp8]") {
  const Status here = check_device(test::device_module(), 0, {.fp8 = true});
  if (!here.ok()) {
    WARN(here.message());
    return;
  }
  check_fp8_products(16, 32, 100);
  check_fp8_products(144, 272, 512);
}

TEST_CASE("language models compute on the device as on the CPU, in sizes of real models") {
  check_elements(100'003);
  check_rows(300, 1024);
  check_products(256, 192, 320);
  check_attentions(200);
}

}  // namespace
}  // namespace tessera
