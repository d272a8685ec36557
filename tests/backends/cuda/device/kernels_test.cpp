// SPDX-License-Identifier: Apache-2.0
// Each of the project's kernels against its twin on the CPU: the same bits, but for sums.
// [small] is for tools that slow everything down a hundredfold.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "engine/files/block_sum.h"
#include "engine/numbers/number.h"
#include "tessera/number_arrays.h"
#include "tests/backends/cuda/device/device.h"
#include "tests/random.h"

namespace tessera {
namespace {

using test::Device;
using test::DeviceArray;

constexpr DType dtypes[] = {DType::float32, DType::bfloat16, DType::float16};
const std::vector<std::int64_t> small_sizes = {1, 3, 31, 257, 1000};
const std::vector<std::int64_t> large_sizes = {255, 256, 65'537, 1'000'003};

// Numbers on both sides.
struct Twin {
  std::vector<std::byte> host;
  DType dtype = DType::float32;
  DeviceArray device;

  std::int64_t numel() const {
    return static_cast<std::int64_t>(host.size()) / size_of(dtype).value;
  }
  KernelArray array() const { return {device.at, numel(), dtype}; }
  Elements elements() { return {host, dtype}; }
  float* floats() const { return reinterpret_cast<float*>(device.at); }
};

class Bench {
 public:
  explicit Bench(std::uint64_t seed) : random_(seed) { device_.clear(); }

  Device& device() { return device_; }
  const KernelApi& kernels() const { return device_.kernels(); }
  CudaStream stream() const { return device_.stream(); }

  /// Numbers between -2 and 2; `least`: and this far from 0.
  Twin numbers(std::int64_t numel, DType dtype, float least = 0) {
    std::vector<float> values(static_cast<std::size_t>(numel));
    for (float& x : values) {
      x = static_cast<float>(random_.below(4'000'001) - 2'000'000) * 1e-6F;
      if (least > 0) x = std::fabs(x) + least;
    }
    return twin(values, dtype);
  }
  Twin twin(const std::vector<float>& values, DType dtype) {
    Twin made{.host = std::vector<std::byte>(values.size() *
                                             static_cast<std::size_t>(size_of(dtype).value)),
              .dtype = dtype,
              .device = {}};
    store_numbers(values, {made.host, dtype});
    made.device = device_.upload(made.host);
    return made;
  }
  void check_same_bits(const Twin& twin) {
    const auto computed = device_.download(twin.device);
    const auto [at, other] = std::mismatch(computed.begin(), computed.end(), twin.host.begin());
    INFO("byte " << at - computed.begin() << " of " << computed.size());
    CHECK(at == computed.end());
    static_cast<void>(other);
  }
  /// The first element, within a relative error.
  void check_close(const Twin& twin, float error) {
    const float computed = load_number(device_.download(twin.device), twin.dtype, 0);
    CHECK(computed == Approx(load_number(twin.host, twin.dtype, 0)).epsilon(error));
  }
  void check_ran(int code) { device_.require_code(code); }

 private:
  test::Random random_;
  Device& device_ = Device::only();
};

template <class F>
void for_each_shape(const std::vector<std::int64_t>& sizes, F&& f) {
  std::uint64_t seed = 1;
  for (const DType dtype : dtypes) {
    for (const std::int64_t numel : sizes) {
      INFO(numel << " numbers of " << name_of(dtype));
      Bench bench(seed++);
      f(bench, numel, dtype);
    }
  }
}

void check_elementwise(const std::vector<std::int64_t>& sizes) {
  Kernels& host = host_kernels();
  for_each_shape(sizes, [&](Bench& b, std::int64_t numel, DType dtype) {
    for (const DType wide : {DType::float32, dtype}) {
      Twin from = b.numbers(numel, dtype);
      Twin into = b.numbers(numel, wide);
      b.check_ran(b.kernels().add(from.array(), into.array(), b.stream()));
      host.add(from.elements(), into.elements());
      b.check_same_bits(into);
      b.check_ran(b.kernels().scale(into.array(), from.array(), 0.3F, b.stream()));
      host.scale(into.elements(), from.elements(), 0.3F);
      b.check_same_bits(from);
      b.check_ran(b.kernels().divide(from.array(), 3, b.stream()));
      host.divide(from.elements(), 3);
      b.check_same_bits(from);
    }
  });
}

void check_adam(const std::vector<std::int64_t>& sizes) {
  const AdamNumbers numbers{.learning_rate = 0.01F,
                            .beta1 = 0.9F,
                            .beta2 = 0.95F,
                            .epsilon = 1e-8F,
                            .weight_decay = 0.1F,
                            .correction1 = 0.1F,
                            .correction2 = 0.05F};
  for_each_shape(sizes, [&](Bench& b, std::int64_t numel, DType dtype) {
    Twin gradient = b.numbers(numel, dtype);
    Twin values = b.numbers(numel, DType::float32);
    Twin first = b.numbers(numel, DType::float32);
    Twin second = b.numbers(numel, DType::float32, 0.001F);
    const AdamArrays arrays{numbers, gradient.array(), values.array(), first.array(),
                            second.array()};
    b.check_ran(b.kernels().adam({&arrays, 1}, b.stream()));
    host_kernels().adam(numbers, gradient.elements(), values.elements(), first.elements(),
                        second.elements());
    for (const Twin* changed : {&values, &first, &second}) b.check_same_bits(*changed);
  });
}

void check_norms(const std::vector<std::int64_t>& sizes) {
  for_each_shape(sizes, [&](Bench& b, std::int64_t numel, DType dtype) {
    const DeviceArray workspace = b.device().allocate(norm_workspace_bytes);
    for (const Norm norm : {Norm::l1, Norm::l2, Norm::largest}) {
      Twin values = b.numbers(numel, dtype);
      Twin sum = b.twin({0.5F}, DType::float32);
      const KernelArray array = values.array();
      b.check_ran(b.kernels().add_norm(norm, {&array, 1}, sum.floats(), workspace.at, b.stream()));
      host_kernels().add_norm(norm, values.elements(), sum.elements());
      b.check_close(sum, 1e-5F);
      // From here on with the same sum on both sides.
      Twin same = b.twin({load_number(sum.host, DType::float32, 0)}, DType::float32);
      b.check_ran(b.kernels().clip(norm, same.floats(), 0.25F, {&array, 1}, b.stream()));
      host_kernels().clip(norm, same.elements(), 0.25F, values.elements());
      b.check_same_bits(values);
    }
  });
}

// A sum is the same whenever it is computed, whatever it was computed beside.
void check_sums_repeat(std::int64_t numel) {
  Bench b(5);
  const DeviceArray workspace = b.device().allocate(norm_workspace_bytes);
  const Twin values = b.numbers(numel, DType::float32);
  std::vector<std::byte> first;
  for (int k = 0; k < 5; ++k) {
    const Twin sum = b.twin({0}, DType::float32);
    const KernelArray array = values.array();
    b.check_ran(
        b.kernels().add_norm(Norm::l2, {&array, 1}, sum.floats(), workspace.at, b.stream()));
    const auto computed = b.device().download(sum.device);
    if (k == 0) first = computed;
    CHECK(computed == first);
  }
}

void check_unscale(const std::vector<std::int64_t>& sizes) {
  for_each_shape(sizes, [&](Bench& b, std::int64_t numel, DType dtype) {
    for (const bool finite : {true, false}) {
      Twin values = b.numbers(numel, dtype);
      if (!finite) {
        store_number(values.host, dtype, static_cast<std::size_t>(numel - 1), INFINITY);
        values.device = b.device().upload(values.host);
      }
      Twin found = b.twin({0}, DType::float32);
      b.check_ran(b.kernels().unscale(values.array(), 0.125F, found.array(), b.stream()));
      host_kernels().unscale(values.elements(), 0.125F, found.elements());
      b.check_same_bits(values);
      b.check_same_bits(found);
      CHECK(load_number(found.host, DType::float32, 0) == (finite ? 0.0F : 1.0F));
    }
  });
}

void check_casts(const std::vector<std::int64_t>& sizes) {
  for_each_shape(sizes, [&](Bench& b, std::int64_t numel, DType from_dtype) {
    for (const DType to_dtype : dtypes) {
      const std::int64_t pitch = numel + 3;
      const std::int64_t count = std::min<std::int64_t>(3, 1'100'000 / numel + 1);
      Twin from = b.numbers(pitch * count, from_dtype);
      Twin to = b.numbers((numel + 1) * count, to_dtype);
      const BlockCast cast{
          to.device.at, from.device.at, {from_dtype, to_dtype, numel, count, pitch, numel + 1}};
      b.check_ran(b.kernels().cast_blocks({&cast, 1}, b.stream()));
      const auto part = [](Twin& t, std::int64_t first, std::int64_t length) {
        return t.elements().part(static_cast<std::size_t>(first), static_cast<std::size_t>(length));
      };
      for (std::int64_t k = 0; k < count; ++k) {
        copy_numbers(part(from, k * pitch, numel).bytes, from_dtype,
                     part(to, k * (numel + 1), numel).bytes, to_dtype);
      }
      b.check_same_bits(to);
      b.device().clear();
    }
  });
}

void check_quantisation(const std::vector<std::int64_t>& sizes) {
  for_each_shape(sizes, [&](Bench& b, std::int64_t numel, DType dtype) {
    for (const int bits : {8, 4}) {
      const std::int64_t row = (numel + 1) / 2 * 2;
      const BlockFormat format{bits, static_cast<std::size_t>(row), 64};
      const std::int64_t blocks = (row + 63) / 64;
      Twin from = b.numbers(row, dtype);
      Twin scales = b.numbers(blocks, DType::float32);
      Twin codes =
          b.twin(std::vector<float>(static_cast<std::size_t>(row * bits / 8)), DType::uint8);
      b.check_ran(
          b.kernels().quantize(format, from.array(), codes.device.at, scales.array(), b.stream()));
      const std::int64_t rows[] = {0};
      host_kernels().quantize(format, from.elements(), rows, codes.host, scales.elements());
      b.check_same_bits(codes);
      b.check_same_bits(scales);
      Twin back = b.numbers(row, dtype);
      b.check_ran(
          b.kernels().dequantize(format, codes.array(), scales.array(), back.array(), b.stream()));
      host_kernels().dequantize(format, codes.host, scales.elements(), back.elements());
      b.check_same_bits(back);
      b.device().clear();
    }
  });
}

void check_block_sums(const std::vector<std::int64_t>& sizes) {
  Device& device = Device::only();
  for (const std::size_t block : {std::size_t{4096}, std::size_t{1} << 20}) {
    for (const std::int64_t numel : sizes) {
      Bench b(static_cast<std::uint64_t>(numel));
      const Twin data = b.numbers(numel, DType::bfloat16);
      const std::size_t bytes = data.host.size();
      const std::size_t count = (bytes + block - 1) / block;
      PinnedMemory sums(test::device_module().cuda);
      REQUIRE(sums.allocate(Bytes{static_cast<std::int64_t>(8 * count)}).ok());
      auto* const found = reinterpret_cast<std::uint64_t*>(sums.base());
      // Odd addresses, too: nothing says where a view begins.
      for (const std::size_t skipped : {std::size_t{0}, std::size_t{2}}) {
        const std::span part = std::span(data.host).subspan(std::min(skipped, bytes - 1));
        b.check_ran(b.kernels().block_sums(data.device.at + (bytes - part.size()), part.size(),
                                           block, found, b.stream()));
        device.wait();
        for (std::size_t k = 0; k * block < part.size(); ++k) {
          const std::size_t size = std::min(block, part.size() - k * block);
          CHECK(found[k] == block_sum(part.subspan(k * block, size)));
        }
      }
    }
  }
}

TEST_CASE("a kernel that writes behind an array is found", "[device]") {
  Bench b(1);
  const DeviceArray array = b.device().allocate(100);
  CHECK(b.device().guards_hold());
  b.check_ran(b.kernels().divide({array.at, 26, DType::float32}, 3, b.stream()));
  CHECK_FALSE(b.device().guards_hold());
}

TEST_CASE("kernels compute what their twins on the CPU do", "[device][small]") {
  SECTION("element by element") { check_elementwise(small_sizes); }
  SECTION("AdamW") { check_adam(small_sizes); }
  SECTION("norms, and clipping by them") { check_norms(small_sizes); }
  SECTION("loss scales") { check_unscale(small_sizes); }
  SECTION("casts of blocks") { check_casts(small_sizes); }
  SECTION("quantisation") { check_quantisation(small_sizes); }
  SECTION("checksums") { check_block_sums(small_sizes); }
  SECTION("sums repeat") { check_sums_repeat(10'007); }
}

TEST_CASE("and for many numbers", "[device][large]") {
  SECTION("element by element") { check_elementwise(large_sizes); }
  SECTION("AdamW") { check_adam(large_sizes); }
  SECTION("norms, and clipping by them") { check_norms(large_sizes); }
  SECTION("loss scales") { check_unscale(large_sizes); }
  SECTION("casts of blocks") { check_casts(large_sizes); }
  SECTION("quantisation") { check_quantisation(large_sizes); }
  SECTION("checksums") { check_block_sums(large_sizes); }
  SECTION("sums repeat") { check_sums_repeat(1'000'003); }
}

}  // namespace
}  // namespace tessera
