// SPDX-License-Identifier: Apache-2.0
// What cuBLASLt asks of a product, which a product on a CPU does not need: by its documentation of
// cublasLtMatmul, of the layouts and of scales of blocks, and what others met (ml-explore/mlx#2466:
// workspaces).
#pragma once

#include <cstdint>
#include <string>

#include "engine/backends/cuda/module/products.h"

namespace tessera::test {

struct RuledMatrix {
  const char* name;
  const void* at;
  kernels::StoredRows rows;
  DType dtype;

  std::uintptr_t begin() const { return reinterpret_cast<std::uintptr_t>(at); }
  std::uintptr_t unit() const { return static_cast<std::uintptr_t>(size_of(dtype).value); }
  std::uintptr_t row_bytes() const { return static_cast<std::uintptr_t>(rows.stride) * unit(); }
  std::uintptr_t end() const {
    return begin() + static_cast<std::uintptr_t>(rows.extent()) * unit();
  }
};

/// What of scales and operands in 8 bits is not as "Block Scaling For FP8 Data Types" says.
inline std::string broken_fp8_rule(const kernels::MatmulShape& s, const device::ProductOperands& o,
                                   const RuledMatrix& c) {
  constexpr std::uintptr_t unit = 16;
  const auto is_off = [](const void* at) {
    return reinterpret_cast<std::uintptr_t>(at) % unit != 0;
  };
  if (s.m % 16 != 0 || s.n % 16 != 0) return "a size is no multiple of 16";
  if (is_off(o.a) || is_off(o.b)) return "codes are not aligned";
  if (is_off(o.c) || c.row_bytes() % unit != 0) return "the rows of C are not aligned";
  if (o.a_scales == nullptr || o.b_scales == nullptr) return "scales are null";
  if (is_off(o.a_scales) || is_off(o.b_scales)) return "scales are not aligned";
  return s.bias && s.output == DType::float32 ? "the bias of halves is float32" : "";
}

/// What of it cuBLASLt refuses, or computes wrongly without a word; "": nothing.
inline std::string broken_rule(const kernels::MatmulShape& s, const device::ProductOperands& o) {
  constexpr std::uintptr_t workspace_alignment = 256;
  constexpr std::uintptr_t bias_alignment = 16;  // of halves: some algorithms load so many bytes
  const bool in_fp8 = s.fp8 != kernels::Fp8::none;
  const kernels::Fp8Operands codes(s);
  const std::int64_t k = codes.a.row_codes();
  const RuledMatrix a{"A", o.a, in_fp8 ? kernels::StoredRows{s.m, k, k} : s.a_rows(),
                      in_fp8 ? DType::uint8 : s.input};
  const RuledMatrix b{"B", o.b, in_fp8 ? kernels::StoredRows{s.n, k, k} : s.b_rows(),
                      in_fp8 ? DType::uint8 : s.input};
  const RuledMatrix c{"C", o.c, s.c_rows(), s.output};
  if (s.m < 1 || s.n < 1 || s.k < 1) return "a size is 0";
  for (const RuledMatrix& m : {a, b, c}) {
    const std::string name = m.name;
    if (m.at == nullptr) return name + " is null";
    if (m.begin() % m.unit() != 0) return name + " is not aligned to its numbers";
    if (m.rows.stride < m.rows.width) return "the rows of " + name + " overlap";
  }
  for (const RuledMatrix& m : {a, b}) {
    if (m.begin() < c.end() && c.begin() < m.end()) return std::string(m.name) + " overlaps C";
  }
  if (reinterpret_cast<std::uintptr_t>(o.scratch) % workspace_alignment != 0) {
    return "the workspace is not aligned";
  }
  if (in_fp8) {
    if (std::string broken = broken_fp8_rule(s, o, c); !broken.empty()) return broken;
  }
  if (!s.bias) return {};
  if (o.bias.data == nullptr) return "the bias is null";
  if (o.bias.dtype != s.output) return "the bias has another type than C";
  const auto bias = reinterpret_cast<std::uintptr_t>(o.bias.data);
  const bool halves = s.output != DType::float32;
  return halves && bias % bias_alignment != 0 ? "the bias is not aligned" : std::string();
}

}  // namespace tessera::test
