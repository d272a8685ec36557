// SPDX-License-Identifier: Apache-2.0
// The order of samples that ranks have in common.
//
// The idea: two streams of a rank interleave as their times say, so ranks that do the same have
// their samples in other orders. By the edges of operations they are in one order; that of times
// follows from the times, where at one moment what goes makes room for what comes.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "storage/recent_edges.h"
#include "tessera/trace.h"

namespace tessera::storage {

/// Numbers of samples by time, in the order of edges: sample `order[k]` is the k-th there.
using SampleOrder = std::vector<std::uint32_t>;

/// By the edges, one for each sample.
SampleOrder order_by(std::span<const Edge> edges);

/// Whether the samples follow from their order by edges and their times.
bool restores(std::span<const MemorySample> samples, const SampleOrder& order);

/// What a sample says of itself wherever it is.
bool same_change(const MemorySample& a, const MemorySample& b);

/// The order of `samples` in which they are those of `model`, which are in the order of edges.
/// `times`: when each of the model's is expected on this rank; `model_order`: of the model.
/// Nothing: they are others, or far from where they are expected.
std::optional<SampleOrder> order_like(std::span<const MemorySample> model,
                                      const SampleOrder& model_order, std::span<const Time> times,
                                      std::span<const MemorySample> samples);

/// Of samples in the order of edges the order of times; `goes`: whether one is a release.
std::vector<std::uint32_t> order_of_times(std::span<const Time> times,
                                          const std::vector<bool>& goes);

}  // namespace tessera::storage
