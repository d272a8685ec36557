// SPDX-License-Identifier: Apache-2.0
#include "storage/sample_order.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <tuple>
#include <utility>

#include "tessera/assert.h"

namespace tessera::storage {
namespace {

constexpr std::uint32_t nobody = std::numeric_limits<std::uint32_t>::max();
// How far from where it is expected a sample is looked for.
constexpr std::size_t window = 512;

bool goes_away(const MemorySample& sample) { return sample.delta < Bytes{0}; }

/// Sorts what is nearly sorted.
template <class Before>
void settle(std::vector<std::uint32_t>& order, Before before) {
  std::size_t left = 32 * order.size();  // then another way is quicker
  for (std::size_t i = 1; i < order.size(); ++i) {
    const std::uint32_t moving = order[i];
    std::size_t to = i;
    for (; to > 0 && before(moving, order[to - 1]); --to) order[to] = order[to - 1];
    order[to] = moving;
    if (i - to >= left) return std::sort(order.begin(), order.end(), before);
    left -= i - to;
  }
}

}  // namespace

SampleOrder order_by(std::span<const Edge> edges) {
  SampleOrder order(edges.size());
  std::iota(order.begin(), order.end(), 0U);
  settle(order, [&](std::uint32_t a, std::uint32_t b) {
    return std::tie(edges[a], a) < std::tie(edges[b], b);
  });
  return order;
}

bool restores(std::span<const MemorySample> samples, const SampleOrder& order) {
  TESSERA_ASSERT(order.size() == samples.size(), "a place for every sample");
  std::vector<std::uint32_t> place(order.size());
  for (std::uint32_t k = 0; k < order.size(); ++k) place[order[k]] = k;
  const auto key = [&](std::size_t i) {
    return std::tuple(samples[i].time, !goes_away(samples[i]), place[i]);
  };
  for (std::size_t i = 1; i < samples.size(); ++i) {
    if (key(i) < key(i - 1)) return false;
  }
  return true;
}

bool same_change(const MemorySample& a, const MemorySample& b) {
  return a.buffer == b.buffer && a.memory_class == b.memory_class && a.delta == b.delta;
}

std::optional<SampleOrder> order_like(std::span<const MemorySample> model,
                                      const SampleOrder& model_order, std::span<const Time> times,
                                      std::span<const MemorySample> samples) {
  const std::size_t n = samples.size();
  TESSERA_ASSERT(model.size() == n && model_order.size() == n && times.size() == n,
                 "a model has as many samples");
  // Where the model's are by time here, beginning with where they are there.
  std::vector<std::uint32_t> expected(n);
  for (std::uint32_t k = 0; k < n; ++k) expected[model_order[k]] = k;
  settle(expected, [&](std::uint32_t a, std::uint32_t b) {
    const bool a_comes = !goes_away(model[a]), b_comes = !goes_away(model[b]);
    return std::tie(times[a], a_comes, a) < std::tie(times[b], b_comes, b);
  });
  SampleOrder order(n, nobody);
  std::size_t next = 0;
  for (std::uint32_t i = 0; i < n; ++i) {
    while (order[expected[next]] != nobody) ++next;
    std::size_t at = next;
    const std::size_t end = std::min(n, next + window);
    while (at < end &&
           (order[expected[at]] != nobody || !same_change(model[expected[at]], samples[i]))) {
      ++at;
    }
    if (at == end) return {};
    order[expected[at]] = i;
  }
  return order;
}

std::vector<std::uint32_t> order_of_times(std::span<const Time> times,
                                          const std::vector<bool>& goes) {
  std::vector<std::uint32_t> order(times.size());
  std::iota(order.begin(), order.end(), 0U);
  settle(order, [&](std::uint32_t a, std::uint32_t b) {
    return std::tuple(times[a], !goes[a], a) < std::tuple(times[b], !goes[b], b);
  });
  return order;
}

}  // namespace tessera::storage
