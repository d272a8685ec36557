// SPDX-License-Identifier: Apache-2.0
#include "engine/tracing/clock_kernels.h"

#include <algorithm>
#include <limits>

// One binary for all x86-64 machines, the widest vectors of each. Sanitizers cannot run the
// resolvers, other machines have no such clones.
#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define TESSERA_SANITIZED
#endif
#endif
#if defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) && \
    !defined(TESSERA_SANITIZED)
#define TESSERA_VECTOR_CLONES __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define TESSERA_VECTOR_CLONES
#endif

namespace tessera {

TESSERA_VECTOR_CLONES
void clock_max(Time* __restrict out, const Time* __restrict a, const Time* __restrict b,
               std::int64_t n) {
  for (std::int64_t r = 0; r < n; ++r) out[r] = a[r] > b[r] ? a[r] : b[r];
}

TESSERA_VECTOR_CLONES
void clock_clamp(Time* __restrict out, const Time* __restrict a, const Time* __restrict low,
                 const Time* __restrict high, std::int64_t n) {
  for (std::int64_t r = 0; r < n; ++r) {
    const Time above = a[r] > low[r] ? a[r] : low[r];
    out[r] = above < high[r] ? above : high[r];
  }
}

TESSERA_VECTOR_CLONES
void clock_add(Time* __restrict out, const Time* __restrict a, Time duration, std::int64_t n) {
  for (std::int64_t r = 0; r < n; ++r) out[r] = a[r] + duration;
}

namespace {

// Of all of which a clone has its own instructions.
#define TESSERA_IN_CLONES inline __attribute__((always_inline))

TESSERA_IN_CLONES void add_step(Time* __restrict a, const ClockStep& step,
                                const std::uint32_t* __restrict rank_key, std::int64_t n) {
  const Time base = step.jitter.base;
  const std::uint32_t width = step.jitter.width, op_key = step.jitter.op_key;
  const int shift = step.jitter.shift;
  if (width == 0) {
    for (std::int64_t r = 0; r < n; ++r) a[r] += base;
  } else if (width <= 0xFFFF && shift == 0) {
    // The upper half of the product in 32 bits, which processors multiply twice as many of at once
    // as of 64.
    for (std::int64_t r = 0; r < n; ++r) {
      const std::uint32_t u = hash32(rank_key[r] ^ op_key);
      const std::uint32_t share = (width * (u >> 16) + (width * (u & 0xFFFF) >> 16)) >> 16;
      a[r] += base + Time{share};
    }
  } else {
    for (std::int64_t r = 0; r < n; ++r) {
      const std::uint64_t u = hash32(rank_key[r] ^ op_key);
      a[r] += base + static_cast<Time>((width * u >> 32) << shift);
    }
  }
}

}  // namespace

TESSERA_VECTOR_CLONES
void clock_add_steps(Time* a, std::span<const ClockStep> steps, std::int64_t n) {
  for (const ClockStep& step : steps) add_step(a, step, step.rank_key, n);
}

TESSERA_VECTOR_CLONES
Time clock_highest(const Time* __restrict a, std::int64_t n) {
  Time highest = a[0];
  for (std::int64_t r = 1; r < n; ++r) highest = a[r] > highest ? a[r] : highest;
  return highest;
}

TESSERA_VECTOR_CLONES
void clock_add_until(Time* __restrict sum, const Time* __restrict begin, Time end, std::int64_t n) {
  for (std::int64_t r = 0; r < n; ++r) sum[r] += end - begin[r];
}

TESSERA_VECTOR_CLONES
void clock_add_each(Time* __restrict sum, const Time* __restrict a, std::int64_t n) {
  for (std::int64_t r = 0; r < n; ++r) sum[r] += a[r];
}

TESSERA_VECTOR_CLONES
void clock_add_span(Time* __restrict sum, const Time* __restrict begin, const Time* __restrict end,
                    std::int64_t n) {
  for (std::int64_t r = 0; r < n; ++r) sum[r] += end[r] - begin[r];
}

TESSERA_VECTOR_CLONES
void clock_add_overlap(Time* __restrict sum, const Time* __restrict begin_a,
                       const Time* __restrict end_a, const Time* __restrict begin_b,
                       const Time* __restrict end_b, std::int64_t n) {
  for (std::int64_t r = 0; r < n; ++r) {
    const Time begin = begin_a[r] > begin_b[r] ? begin_a[r] : begin_b[r];
    const Time end = end_a[r] < end_b[r] ? end_a[r] : end_b[r];
    const Time length = end - begin;
    sum[r] += length > 0 ? length : 0;
  }
}

TESSERA_VECTOR_CLONES
ClockBounds clock_bounds(const Time* __restrict a, std::int64_t n) {
  Time lowest = a[0];
  Time highest = a[0];
  for (std::int64_t r = 0; r < n; ++r) {
    lowest = a[r] < lowest ? a[r] : lowest;
    highest = a[r] > highest ? a[r] : highest;
  }
  return {lowest, highest};
}

TESSERA_VECTOR_CLONES
void clock_stretch(Time* __restrict end, const Time* __restrict begin,
                   const std::int32_t* __restrict slowness, std::int64_t n) {
  constexpr Time small = Time{1} << 40;  // up to here the product fits
  constexpr Time one = Time{1} << slowness_bits;
  for (std::int64_t r = 0; r < n; ++r) {
    const Time d = end[r] - begin[r];
    end[r] += d < small ? d * slowness[r] / one : d / one * slowness[r];
  }
}

TESSERA_VECTOR_CLONES
bool clock_slow_down(Time* __restrict now, Time* __restrict left, const Time* __restrict until,
                     Time length, Time kept, std::int64_t n) {
  const Time longer = kept_whole * kept_whole / kept;
  Time any = 0;
  for (std::int64_t r = 0; r < n; ++r) {
    const Time ahead = until[r] - length - now[r];
    const Time some = ahead > 0 ? ahead : 0;
    const Time before = some < left[r] ? some : left[r];
    const Time begin = now[r] + before;
    const Time rest = left[r] - before;
    const Time beside = until[r] > begin ? until[r] - begin : 0;
    const Time able = beside * kept / kept_whole;
    const Time done = rest < able ? rest : able;
    const Time taken = done * longer / kept_whole;
    now[r] = begin + (beside < taken ? beside : taken);
    left[r] = rest - done;
    any |= left[r];
  }
  return any != 0;
}

TESSERA_VECTOR_CLONES
Time clock_first_left(const Time* now, const Time* left, std::int64_t n) {
  Time first = std::numeric_limits<Time>::max();
  for (std::int64_t r = 0; r < n; ++r) {
    const Time some = left[r] > 0 ? now[r] : std::numeric_limits<Time>::max();
    first = some < first ? some : first;
  }
  return first;
}

}  // namespace tessera
