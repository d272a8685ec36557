// SPDX-License-Identifier: Apache-2.0
#include "training/reference/data.h"

namespace tessera::real {
namespace {

std::uint64_t mixed(std::uint64_t hash, std::uint64_t value) {  // splitmix64's finaliser
  std::uint64_t z = (hash ^ value) + 0x9E3779B97F4A7C15ULL;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
  return z ^ (z >> 31);
}

std::uint64_t hash(const DataPlace& place, DataKind kind, std::int64_t element) {
  std::uint64_t h = mixed(place.seed, static_cast<std::uint64_t>(kind));
  h = mixed(h, static_cast<std::uint64_t>(place.rank));
  h = mixed(h, static_cast<std::uint64_t>(place.step));
  h = mixed(h, static_cast<std::uint64_t>(place.micro_batch));
  return mixed(h, static_cast<std::uint64_t>(element));
}

}  // namespace

float uniform(const DataPlace& place, DataKind kind, std::int64_t element) {
  const auto bits = static_cast<std::int32_t>(hash(place, kind, element) >> 40);  // 24 bits
  return static_cast<float>(bits - (1 << 23)) / static_cast<float>(1 << 23);
}

Tensor floats(const DataPlace& place, DataKind kind, std::int64_t rows, std::int64_t width) {
  Tensor out(rows, width);
  for (std::size_t i = 0; i < out.values.size(); ++i) {
    out.values[i] = uniform(place, kind, static_cast<std::int64_t>(i));
  }
  return out;
}

Tensor tokens(const DataPlace& place, std::int64_t batch, std::int64_t length, std::int64_t shift,
              std::int64_t vocabulary) {
  Tensor out(batch * length, 1);
  for (std::int64_t row = 0; row < out.rows; ++row) {
    const std::int64_t element = row / length * (length + 1) + row % length + shift;
    const std::uint64_t id =
        hash(place, DataKind::input, element) % static_cast<std::uint64_t>(vocabulary);
    out.at(row, 0) = static_cast<float>(id);
  }
  return out;
}

Tensor positions(std::int64_t batch, std::int64_t length) {
  Tensor out(batch * length, 1);
  for (std::int64_t row = 0; row < out.rows; ++row) {
    out.at(row, 0) = static_cast<float>(row % length);
  }
  return out;
}

}  // namespace tessera::real
