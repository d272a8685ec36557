// SPDX-License-Identifier: Apache-2.0
// Packed runs of memory samples that share columns with those of other ranks.
//
// The idea: ranks do the same with their memory, at other times. A time is kept as an edge of an
// operation and what it differs from it, mostly nothing, and samples in the order of edges;
// columns that another rank's chunk of the same number has, too, are in that one alone.
#pragma once

#include <array>
#include <deque>
#include <functional>

#include "storage/recent_edges.h"
#include "storage/sample_order.h"

namespace tessera::storage {

/// A step of a large model has many.
inline constexpr std::size_t sample_count_max = 16384;

/// edge, offset, buffer, class, delta, allocated, reserved.
inline constexpr std::size_t sample_columns = 7;
using SampleColumns = std::array<std::vector<std::int64_t>, sample_columns>;

class SampleEncoder {
 public:
  explicit SampleEncoder(const RecentEdges& edges) : edges_(edges) {}

  /// Replaces `data`; fills count, t0 and t1 of `header`. `complete`: others may share columns with
  /// it from now on, and it with others. REQUIRES: 1 to sample_count_max samples.
  void encode(std::span<const MemorySample> samples, bool complete, ChunkHeader& header,
              std::vector<std::uint8_t>& data);

 private:
  struct Model {
    Rank rank;
    std::int64_t seq;
    bool ordered;  // by edges
    SampleColumns columns;
    // In the order of the columns.
    std::vector<Edge> edges;
    SampleOrder order;  // numbers of samples by time
    std::vector<MemorySample> samples;
  };
  /// The edges of the rank that the samples lie at.
  std::vector<Edge> edges_of(std::span<const MemorySample> samples, Rank rank) const;
  /// Samples in the order of edges of an earlier chunk, if they are its samples. `like`: that one.
  std::optional<Model> like_earlier(std::span<const MemorySample> samples,
                                    const ChunkHeader& header) const;
  Model alone(std::span<const MemorySample> samples, const ChunkHeader& header) const;
  /// Fills edge and offset by the edges; how many are not where the rank's edges are, or nothing if
  /// the rank has no such edges.
  std::optional<std::size_t> find_times(Model& chunk) const;
  /// The earlier chunk that has the most columns of `chunk`; 0: none.
  const Model* model_for(const Model& chunk, std::int64_t& shared) const;

  const RecentEdges& edges_;
  std::deque<Model> models_;  // the latest
};

/// When an edge is on the rank, and the data of another rank's chunk of the same number and count.
struct SampleContext {
  std::function<std::optional<Time>(Edge)> time_of;
  std::function<Result<std::vector<std::uint8_t>>(Rank, const ChunkHeader&)> data_of;
};

/// Appends all samples. Fails: corrupt, naming the chunk, not_supported (a memory class of a later
/// version), what `data_of` fails with.
Status decode_shared_samples(const ChunkHeader& header, std::span<const std::uint8_t> data,
                             const SampleContext& context, MemorySeries& series);

}  // namespace tessera::storage
