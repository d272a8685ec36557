// SPDX-License-Identifier: Apache-2.0
// Loops over the clocks of many ranks: the simulator's inner core.
//
// The idea: a clock is an array of int64 ns, one per rank. Every kernel is a plain loop that the
// compiler vectorises; integers only, so every instruction set gives the same bits.
#pragma once

#include <cstdint>
#include <span>

#include "tessera/types.h"

namespace tessera {

/// A duration that differs from rank to rank: base + ((width * u) >> 32) << shift, u = hash32.
struct Jitter {
  Time base = 0;            // the shortest duration
  std::uint32_t width = 0;  // of the range, in units of 2^shift ns
  int shift = 0;
  std::uint32_t op_key = 0;
};

/// The longest duration, or a little more.
inline Time longest(const Jitter& jitter) {
  return jitter.base + (static_cast<Time>(jitter.width) << jitter.shift);
}

/// What every rank takes, each a time of its own.
struct ClockStep {
  Jitter jitter;
  const std::uint32_t* rank_key = nullptr;  // [r] identifies rank and seed
};

/// 32-bit mixing function with low bias (C. Wellons, "Prospecting for hash functions", lowbias32).
inline std::uint32_t hash32(std::uint32_t x) {
  x ^= x >> 16;
  x *= 0x7FEB352DU;
  x ^= x >> 15;
  x *= 0x846CA68BU;
  return x ^ (x >> 16);
}

/// out = max(a, b)
void clock_max(Time* out, const Time* a, const Time* b, std::int64_t n);
/// out = a, or the nearer of `low` and `high` where it is outside. REQUIRES: low <= high.
void clock_clamp(Time* out, const Time* a, const Time* low, const Time* high, std::int64_t n);
/// out = a + duration
void clock_add(Time* out, const Time* a, Time duration, std::int64_t n);
/// a += the durations of all steps, one after the other: of several, give ranks that stay in a
/// cache
void clock_add_steps(Time* a, std::span<const ClockStep> steps, std::int64_t n);
Time clock_highest(const Time* a, std::int64_t n);
/// sum += end - begin, one end for all
void clock_add_until(Time* sum, const Time* begin, Time end, std::int64_t n);
/// sum += a
void clock_add_each(Time* sum, const Time* a, std::int64_t n);
/// sum += end - begin
void clock_add_span(Time* sum, const Time* begin, const Time* end, std::int64_t n);
/// sum += length of [begin_a, end_a) intersected with [begin_b, end_b)
void clock_add_overlap(Time* sum, const Time* begin_a, const Time* end_a, const Time* begin_b,
                       const Time* end_b, std::int64_t n);

struct ClockBounds {
  Time lowest = 0;
  Time highest = 0;
};
/// REQUIRES: n > 0.
ClockBounds clock_bounds(const Time* a, std::int64_t n);

inline constexpr int slowness_bits = 20;
/// end += (end - begin) * slowness / 2^slowness_bits
void clock_stretch(Time* end, const Time* begin, const std::int32_t* slowness, std::int64_t n);

inline constexpr Time kept_whole = 1024;
/// Work of which `left` is to be done goes on at `now`: at full speed but for the last `length`
/// before `until`, where it keeps `kept` / kept_whole of it. Both are as they are at `until`, or
/// where the work ended before. Whether any is left then.
/// REQUIRES: left >= 0, 0 < kept <= kept_whole.
bool clock_slow_down(Time* now, Time* left, const Time* until, Time length, Time kept,
                     std::int64_t n);

/// The earliest `now` of those with work left; the latest time there is if none has.
Time clock_first_left(const Time* now, const Time* left, std::int64_t n);

}  // namespace tessera
