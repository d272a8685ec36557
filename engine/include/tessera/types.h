// SPDX-License-Identifier: Apache-2.0
// The quantities of sharded training, each with its own type.
//
// The idea: a count of elements, a number of bytes and a handle are different things. Passing one
// where another is meant (`ncclAllReduce(..., sizeof(float), ncclFloat)`) must not compile.
//
//   Numel shard{24};
//   Bytes bytes = bytes_of(shard, DType::bfloat16);   // 48 bytes
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace tessera {

/// A global rank number, 0-based. An *index* is a place inside a process group.
using Rank = std::int32_t;
using Index = std::int32_t;

/// A point or a span of time in nanoseconds. Injected by the runtime, never read from a wall clock
/// by the engine or the simulator.
using Time = std::int64_t;

/// A signed 64-bit quantity that only mixes with its own kind.
template <class Tag>
struct Quantity {
  std::int64_t value = 0;

  constexpr Quantity() = default;
  constexpr explicit Quantity(std::int64_t v) : value(v) {}

  constexpr auto operator<=>(const Quantity&) const = default;
  constexpr Quantity& operator+=(Quantity o) { return value += o.value, *this; }
  constexpr Quantity& operator-=(Quantity o) { return value -= o.value, *this; }
  friend constexpr Quantity operator+(Quantity a, Quantity b) {
    return Quantity{a.value + b.value};
  }
  friend constexpr Quantity operator-(Quantity a, Quantity b) {
    return Quantity{a.value - b.value};
  }
  friend constexpr Quantity operator-(Quantity a) { return Quantity{-a.value}; }
  friend constexpr Quantity operator*(Quantity a, std::int64_t n) { return Quantity{a.value * n}; }
  friend constexpr Quantity operator*(std::int64_t n, Quantity a) { return Quantity{a.value * n}; }
};

/// A number of bytes.
using Bytes = Quantity<struct BytesTag>;
/// A number of elements, of whatever dtype.
using Numel = Quantity<struct NumelTag>;

constexpr Bytes operator""_bytes(unsigned long long v) {
  return Bytes{static_cast<std::int64_t>(v)};
}

/// A handle: an index that the issuer understands. Default is "none".
template <class Tag>
struct Id {
  std::int32_t value = -1;

  constexpr auto operator<=>(const Id&) const = default;
  constexpr bool valid() const { return value >= 0; }
  /// Its place in a table of all that were issued. REQUIRES: valid.
  constexpr std::size_t index() const { return static_cast<std::size_t>(value); }
};

using BufferId = Id<struct BufferTag>;
using StreamId = Id<struct StreamTag>;
using EventId = Id<struct EventTag>;
using CommunicatorId = Id<struct CommunicatorTag>;
using ParameterId = Id<struct ParameterTag>;
using ModuleId = Id<struct ModuleTag>;

/// Element types. Values are part of the trace format: append, never renumber.
enum class DType : std::uint8_t {
  float32 = 0,
  bfloat16 = 1,
  float16 = 2,
  float64 = 3,
  int32 = 4,
  int64 = 5,
  uint8 = 6,
};

/// The processor that computes on a rank's numbers. `hopper`: a GPU whose attention takes what only
/// Hopper has, and more memory.
enum class Processor : std::uint8_t { cpu, gpu, hopper };

/// Bytes of one element.
constexpr Bytes size_of(DType dtype) {
  switch (dtype) {
    case DType::float32:
    case DType::int32: return Bytes{4};
    case DType::bfloat16:
    case DType::float16: return Bytes{2};
    case DType::float64:
    case DType::int64: return Bytes{8};
    case DType::uint8: return Bytes{1};
  }
  return Bytes{0};
}

constexpr Bytes bytes_of(Numel numel, DType dtype) { return size_of(dtype) * numel.value; }

/// The name torch uses: "float32", "bfloat16", ...
std::string_view name_of(DType dtype);

}  // namespace tessera
