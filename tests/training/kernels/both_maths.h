// SPDX-License-Identifier: Apache-2.0
// The arithmetic of GPUs, carried out by the emulator, beside that of the CPU.
#pragma once

#include <algorithm>
#include <cstring>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include "engine/backends/cuda/module/kernel_math.h"
#include "engine/backends/cuda/module/language_kernels.h"
#include "engine/math/device_plan.h"
#include "engine/math/e4m3.h"
#include "tests/backends/cuda/stand_in/product_rules.h"
#include "tests/training/kernels/numbers.h"
#include "training/kernels/host_math.h"
#include "training/kernels/rows.h"

namespace tessera::test {

// A number of an operand in fp8.
inline float decoded(const kernels::Fp8Operand& operand, const void* codes, const float* scales,
                     std::int64_t row, std::int64_t k) {
  const auto* const own = static_cast<const std::uint8_t*>(codes) + row * operand.row_codes();
  const std::int64_t group = k / kernels::MatmulShape::scaled_together;
  return kernels::from_e4m3(own[k]) * scales[operand.scale_at(row, group)];
}

// Column by column, as by_columns says; of what the library asks, everything.
class NaiveProducts final : public device::Products {
 public:
  bool with_biases = true;  // of halves
  bool with_narrow = true;  // of less than 16 bytes a row

  int run(const kernels::MatmulShape& shape, const device::ProductOperands& o,
          CudaStream) override {
    CHECK(broken_rule(shape, o).empty());
    if (shape.bias && shape.output != DType::float32 && !with_biases) return device::not_supported;
    if (std::min({shape.m, shape.n, shape.k}) < 8 && !with_narrow) return device::not_supported;
    const device::ColumnProduct by = device::by_columns(shape);
    const bool in_fp8 = shape.fp8 != kernels::Fp8::none;
    const kernels::Fp8Operands codes(shape);
    const auto at = [](const device::ColumnMatrix& m, std::int64_t row, std::int64_t column) {
      return m.transposed ? row * m.leading + column : column * m.leading + row;
    };
    const auto typed = [](DType dtype, const void* from, std::int64_t i) {
      float value = 0;
      kernels::with_type(dtype, [&](auto* type) {
        value = kernels::load(static_cast<const std::remove_pointer_t<decltype(type)>*>(from)[i]);
      });
      return value;
    };
    for (std::int64_t column = 0; column < by.result.columns; ++column) {
      for (std::int64_t row = 0; row < by.result.rows; ++row) {
        const std::int64_t to = at(by.result, row, column);
        float sum = shape.bias ? typed(shape.output, o.bias.data, row) : 0.0F;
        for (std::int64_t k = 0; k < (in_fp8 ? by.first.rows : shape.k); ++k) {
          if (in_fp8) {
            sum += decoded(codes.b, o.b, o.b_scales, row, k) *
                   decoded(codes.a, o.a, o.a_scales, column, k);
            continue;
          }
          sum += typed(shape.input, o.b, at(by.first, row, k)) *
                 typed(shape.input, o.a, at(by.second, k, column));
        }
        kernels::with_type(shape.output, [&](auto* type) {
          auto& c = static_cast<std::remove_pointer_t<decltype(type)>*>(o.c)[to];
          kernels::store(c, shape.add ? kernels::load(c) + sum : sum);
        });
      }
    }
    return 0;
  }
};

struct Both {
  bool hopper = false;
  struct alignas(256) Piece {
    std::byte bytes[256];
  };
  std::vector<Piece> scratch = std::vector<Piece>(
      static_cast<std::size_t>(kernels::device_scratch_bytes.value) / sizeof(Piece));
  kernels::HostMath host{1, kernels::HostMath::Memory::own};
  NaiveProducts* products = new NaiveProducts;  // of `device`
  std::unique_ptr<DeviceMath> device =
      device::make_kernel_math(std::unique_ptr<device::Products>(products), hopper);

  void room_for(const kernels::MatmulShape& in_fp8) {
    const Bytes all = kernels::device_scratch_bytes + kernels::Fp8Operands(in_fp8).bytes();
    scratch.resize(static_cast<std::size_t>(all.value) / sizeof(Piece));
    std::memset(scratch.data(), 0xFF, static_cast<std::size_t>(all.value));  // codes of NaN
  }

  // Computes with each, from copies of the same arrays, and compares what came out of it.
  template <class F>
  void compare(std::vector<Numbers> arrays, double tolerance, const F& f) {
    std::vector<Numbers> on_device = arrays;
    f(static_cast<kernels::Math&>(host), arrays);
    f(static_cast<kernels::Math&>(*device), on_device);
    CHECK(device->failure().code == 0);
    for (std::size_t k = 0; k < arrays.size(); ++k) {
      INFO("array " << k);
      check_near(on_device[k], arrays[k].doubles(), tolerance);
    }
  }
};

inline float* floats(Numbers& numbers) { return numbers.array().as<float>(); }

}  // namespace tessera::test
