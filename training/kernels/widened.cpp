// SPDX-License-Identifier: Apache-2.0
#include "training/kernels/widened.h"

#include "engine/numbers/wide.h"
#include "training/kernels/fp8_rows.h"

namespace tessera::kernels {
namespace {

constexpr std::int64_t alignment = 64;

// As float32 without gaps, aligned.
std::int64_t widened_bytes(const StoredRows& rows) {
  const std::int64_t needed = rows.count * rows.width * size_of(DType::float32).value;
  return (needed + alignment - 1) / alignment * alignment;
}

template <class Half>
void widen_as(const StoredRows& rows, const void* from, float* to) {
  const auto* const source = static_cast<const Half*>(from);
  wide([=]() TESSERA_INLINE {
    for (std::int64_t r = 0; r < rows.count; ++r) {
      for (std::int64_t i = 0; i < rows.width; ++i) {
        to[r * rows.width + i] = load(source[r * rows.stride + i]);
      }
    }
  });
}

template <class Half>
void narrow_as(const StoredRows& rows, const float* from, void* to) {
  auto* const target = static_cast<Half*>(to);
  wide([=]() TESSERA_INLINE {
    for (std::int64_t r = 0; r < rows.count; ++r) {
      for (std::int64_t i = 0; i < rows.width; ++i) {
        store(target[r * rows.stride + i], from[r * rows.width + i]);
      }
    }
  });
}

void widen(DType half, const StoredRows& rows, const void* from, float* to) {
  half == DType::float16 ? widen_as<Float16>(rows, from, to) : widen_as<BFloat16>(rows, from, to);
}

void narrow(DType half, const StoredRows& rows, const float* from, void* to) {
  half == DType::float16 ? narrow_as<Float16>(rows, from, to) : narrow_as<BFloat16>(rows, from, to);
}

}  // namespace

MatmulShape WidenedProduct::product() const {
  MatmulShape out = shape_;
  out.input = out.output = DType::float32;
  out.fp8 = Fp8::none;
  out.a_stride = out.b_stride = 0;
  if (widens_c()) out.c_stride = 0;
  return out;
}

Bytes WidenedProduct::scratch() const {
  return Bytes{widened_bytes(shape_.a_rows()) + widened_bytes(shape_.b_rows()) +
               (widens_c() ? widened_bytes(shape_.c_rows()) : 0)};
}

Widened WidenedProduct::before(const void* a, const void* b, void* c, void* scratch) const {
  auto* at = static_cast<std::byte*>(scratch);
  const auto take = [&at](const StoredRows& rows) {
    auto* const taken = reinterpret_cast<float*>(at);
    at += widened_bytes(rows);
    return taken;
  };
  const auto widened = [&](const StoredRows& rows, const ScaleTile& tile, const void* from) {
    float* const to = take(rows);
    if (shape_.fp8 == Fp8::none) {
      widen(shape_.input, rows, from, to);
    } else {
      round_to_fp8(rows, tile, {from, shape_.input}, to);
    }
    return to;
  };
  Widened out{widened(shape_.a_rows(), shape_.a_tile(), a),
              widened(shape_.b_rows(), shape_.b_tile(), b), static_cast<float*>(c), nullptr};
  if (widens_c()) {
    const StoredRows rows = shape_.c_rows();
    out.c = take(rows);
    if (shape_.add) widen(shape_.output, rows, c, out.c);
  }
  out.scratch = at;
  return out;
}

void WidenedProduct::after(const Widened& widened, void* c) const {
  const StoredRows rows = shape_.c_rows();
  if (widens_c()) narrow(shape_.output, rows, widened.c, c);
}

}  // namespace tessera::kernels
