// SPDX-License-Identifier: Apache-2.0
#include "engine/offload/block_quantizer.h"

#include <cmath>

#include "engine/runtime/number.h"

namespace tessera {
namespace {

double bytes(const View& view) {
  return static_cast<double>(bytes_of(view.numel, view.dtype).value);
}

float largest_code(int bits) { return bits == 8 ? 127.0F : 7.0F; }

// Two codes of 4 bits share a byte, the even element the low half.
void store_code(std::span<std::byte> codes, int bits, std::size_t i, int code) {
  if (bits == 8) {
    codes[i] = static_cast<std::byte>(static_cast<std::int8_t>(code));
    return;
  }
  const auto half = static_cast<unsigned>(code + 8);
  const auto old = static_cast<unsigned>(codes[i / 2]);
  codes[i / 2] =
      static_cast<std::byte>(i % 2 == 0 ? (old & 0xF0U) | half : (old & 0x0FU) | (half << 4U));
}

float load_code(std::span<const std::byte> codes, int bits, std::size_t i) {
  if (bits == 8) return static_cast<float>(static_cast<std::int8_t>(codes[i]));
  const auto both = static_cast<unsigned>(codes[i / 2]);
  return static_cast<float>(static_cast<int>(i % 2 == 0 ? both & 0x0FU : both >> 4U) - 8);
}

// One row between numbers and codes.
struct Row {
  int bits;
  std::size_t size;

  std::size_t block() const { return static_cast<std::size_t>(BlockQuantizer::block_max); }
  std::size_t code_bytes() const { return size * static_cast<std::size_t>(bits) / 8; }
  std::size_t blocks() const { return (size + block() - 1) / block(); }

  void encode(std::span<const std::byte> from, DType dtype, std::size_t from_row,
              std::span<std::byte> codes, std::span<std::byte> scales, std::size_t to_row) const {
    const auto out = codes.subspan(to_row * code_bytes(), code_bytes());
    for (std::size_t b = 0; b < blocks(); ++b) {
      const std::size_t end = std::min(size, (b + 1) * block());
      float most = 0;
      for (std::size_t i = b * block(); i < end; ++i) {
        most = std::max(most, std::fabs(load_number(from, dtype, from_row * size + i)));
      }
      const float scale = most / largest_code(bits);
      store_number(scales, DType::float32, to_row * blocks() + b, scale);
      for (std::size_t i = b * block(); i < end; ++i) {
        const float x = load_number(from, dtype, from_row * size + i);
        store_code(out, bits, i, scale > 0 ? static_cast<int>(std::nearbyint(x / scale)) : 0);
      }
    }
  }
  float decode(std::span<const std::byte> codes, std::span<const std::byte> scales, std::size_t row,
               std::size_t i) const {
    const float scale = load_number(scales, DType::float32, row * blocks() + i / block());
    return scale * load_code(codes.subspan(row * code_bytes(), code_bytes()), bits, i);
  }
};

}  // namespace

Compute BlockQuantizer::quantize(const View& from, const View& codes_out, const View& scales_out,
                                 const std::vector<std::int64_t>& places) const {
  Compute work;
  work.reads = {from};
  work.writes = {codes_out, scales_out};
  work.cost.elementwise_bytes = 2 * bytes(from) + bytes(codes_out) + bytes(scales_out);
  const Row format{bits, static_cast<std::size_t>(row.value)};
  work.body = [format, places, dtype = from.dtype](const BodyContext& context) {
    for (std::size_t r = 0; r < places.size(); ++r) {
      format.encode(context.read(0), dtype, r, context.write(0), context.write(1),
                    static_cast<std::size_t>(places[r]));
    }
  };
  return work;
}

Compute BlockQuantizer::dequantize(const View& codes_in, const View& scales_in,
                                   const View& to) const {
  Compute work;
  work.reads = {codes_in, scales_in};
  work.writes = {to};
  work.cost.elementwise_bytes = bytes(codes_in) + bytes(scales_in) + bytes(to);
  const Row format{bits, static_cast<std::size_t>(row.value)};
  const auto rows = static_cast<std::size_t>(to.numel.value / row.value);
  work.body = [format, rows, dtype = to.dtype](const BodyContext& context) {
    for (std::size_t r = 0; r < rows; ++r) {
      for (std::size_t i = 0; i < format.size; ++i) {
        store_number(context.write(0), dtype, r * format.size + i,
                     format.decode(context.read(0), context.read(1), r, i));
      }
    }
  };
  return work;
}

Compute BlockQuantizer::dequantize_sum(const View& codes_in, const View& scales_in,
                                       const View& to) const {
  Compute work = dequantize(codes_in, scales_in, to);
  const Row format{bits, static_cast<std::size_t>(row.value)};
  const auto rows = static_cast<std::size_t>(to.numel.value / row.value);
  const auto all = static_cast<std::size_t>(codes_in.numel.value / codes().value);
  work.body = [format, rows, all, dtype = to.dtype](const BodyContext& context) {
    for (std::size_t r = 0; r < rows; ++r) {
      for (std::size_t i = 0; i < format.size; ++i) {
        float sum = 0;
        for (std::size_t k = r; k < all; k += rows) {
          sum += format.decode(context.read(0), context.read(1), k, i);
        }
        store_number(context.write(0), dtype, r * format.size + i, sum);
      }
    }
  };
  return work;
}

}  // namespace tessera
