// SPDX-License-Identifier: Apache-2.0
#include "engine/kernels/widened.h"

#include "engine/kernels/wide.h"

namespace tessera::kernels {
namespace {

constexpr std::int64_t alignment = 64;

void widen(const StoredRows& rows, const void* from, float* to) {
  const auto* const source = static_cast<const Float16*>(from);
  wide([=]() TESSERA_INLINE {
    for (std::int64_t r = 0; r < rows.count; ++r) {
      for (std::int64_t i = 0; i < rows.width; ++i) {
        to[r * rows.width + i] = load(source[r * rows.stride + i]);
      }
    }
  });
}

void narrow(const StoredRows& rows, const float* from, void* to) {
  auto* const target = static_cast<Float16*>(to);
  wide([=]() TESSERA_INLINE {
    for (std::int64_t r = 0; r < rows.count; ++r) {
      for (std::int64_t i = 0; i < rows.width; ++i) {
        store(target[r * rows.stride + i], from[r * rows.width + i]);
      }
    }
  });
}

}  // namespace

std::int64_t StoredRows::bytes() const {
  const std::int64_t needed = count * width * size_of(DType::float32).value;
  return (needed + alignment - 1) / alignment * alignment;
}

StoredRows WidenedProduct::a_rows() const {
  const MatmulShape& s = shape_;
  const std::int64_t width = s.a_transposed ? s.m : s.k;
  return {s.a_transposed ? s.k : s.m, width, s.a_stride == 0 ? width : s.a_stride};
}

StoredRows WidenedProduct::b_rows() const {
  const MatmulShape& s = shape_;
  const std::int64_t width = s.b_transposed ? s.k : s.n;
  return {s.b_transposed ? s.n : s.k, width, s.b_stride == 0 ? width : s.b_stride};
}

StoredRows WidenedProduct::c_rows() const {
  return {shape_.m, shape_.n, shape_.c_stride == 0 ? shape_.n : shape_.c_stride};
}

MatmulShape WidenedProduct::product() const {
  MatmulShape out = shape_;
  out.input = out.output = DType::float32;
  out.a_stride = out.b_stride = 0;
  if (widens_c()) out.c_stride = 0;
  return out;
}

Bytes WidenedProduct::scratch() const {
  return Bytes{a_rows().bytes() + b_rows().bytes() + (widens_c() ? c_rows().bytes() : 0)};
}

Widened WidenedProduct::before(const void* a, const void* b, void* c, void* scratch) const {
  auto* at = static_cast<std::byte*>(scratch);
  const auto take = [&at](const StoredRows& rows) {
    auto* const taken = reinterpret_cast<float*>(at);
    at += rows.bytes();
    return taken;
  };
  const auto widened = [&](const StoredRows& rows, const void* from) {
    float* const to = take(rows);
    widen(rows, from, to);
    return to;
  };
  Widened out{widened(a_rows(), a), widened(b_rows(), b), static_cast<float*>(c), nullptr};
  if (widens_c()) {
    const StoredRows rows = c_rows();
    out.c = take(rows);
    if (shape_.add) widen(rows, c, out.c);
  }
  out.rest = at;
  return out;
}

void WidenedProduct::after(const Widened& widened, void* c) const {
  const StoredRows rows = c_rows();
  if (widens_c()) narrow(rows, widened.c, c);
}

}  // namespace tessera::kernels
