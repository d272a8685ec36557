// SPDX-License-Identifier: Apache-2.0
// What cuBLASLt asks of a product, which a product on a CPU does not need: by its documentation of
// cublasLtMatmul and of the layouts, and what others met (ml-explore/mlx#2466: workspaces).
#pragma once

#include <cstdint>
#include <string>

#include "engine/backends/cuda/module/products.h"

namespace tessera::test {

/// What of it cuBLASLt refuses, or computes wrongly without a word; "": nothing.
inline std::string broken_rule(const kernels::MatmulShape& s, const device::ProductOperands& o) {
  constexpr std::uintptr_t workspace_alignment = 256;
  constexpr std::uintptr_t bias_alignment = 16;  // of halves: some algorithms load so many bytes
  struct Matrix {
    const char* name;
    const void* at;
    kernels::StoredRows rows;
    DType dtype;

    std::uintptr_t begin() const { return reinterpret_cast<std::uintptr_t>(at); }
    std::uintptr_t unit() const { return static_cast<std::uintptr_t>(size_of(dtype).value); }
    std::uintptr_t end() const {
      return begin() + static_cast<std::uintptr_t>(rows.extent()) * unit();
    }
  };
  const Matrix a{"A", o.a, s.a_rows(), s.input};
  const Matrix b{"B", o.b, s.b_rows(), s.input};
  const Matrix c{"C", o.c, s.c_rows(), s.output};
  if (s.m < 1 || s.n < 1 || s.k < 1) return "a size is 0";
  for (const Matrix& m : {a, b, c}) {
    const std::string name = m.name;
    if (m.at == nullptr) return name + " is null";
    if (m.begin() % m.unit() != 0) return name + " is not aligned to its numbers";
    if (m.rows.stride < m.rows.width) return "the rows of " + name + " overlap";
  }
  for (const Matrix& m : {a, b}) {
    if (m.begin() < c.end() && c.begin() < m.end()) return std::string(m.name) + " overlaps C";
  }
  if (reinterpret_cast<std::uintptr_t>(o.scratch) % workspace_alignment != 0) {
    return "the workspace is not aligned";
  }
  if (!s.bias) return {};
  if (o.bias.data == nullptr) return "the bias is null";
  if (o.bias.dtype != s.output) return "the bias has another type than C";
  const auto bias = reinterpret_cast<std::uintptr_t>(o.bias.data);
  const bool halves = s.output != DType::float32;
  return halves && bias % bias_alignment != 0 ? "the bias is not aligned" : std::string();
}

}  // namespace tessera::test
