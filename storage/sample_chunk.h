// SPDX-License-Identifier: Apache-2.0
// Packed runs of memory samples that share columns with those of other ranks.
//
// The idea: ranks do the same with their memory, at other times. A time is kept as an edge of an
// operation and what it differs from it, mostly nothing, and samples in the order of edges;
// columns that another rank's chunk of the same number has, too, are in that one alone.
#pragma once

#include <array>
#include <deque>
#include <memory>

#include "storage/recent_edges.h"
#include "storage/sample_order.h"

namespace tessera::storage {

/// A step of a large model has many.
inline constexpr std::size_t sample_count_max = 16384;

enum SampleColumn : std::size_t { edge, offset, buffer, memory_class, delta, allocated, reserved };
inline constexpr std::size_t sample_columns = 7;
/// Behind the bits of columns: samples are in the order of edges.
inline constexpr std::int64_t ordered_bit = std::int64_t{1} << sample_columns;
using SampleColumns = std::array<std::vector<std::int64_t>, sample_columns>;

class SampleEncoder {
 public:
  explicit SampleEncoder(const RecentEdges& edges) : edges_(edges) {}

  /// Replaces `data`; fills count, t0 and t1 of `header`. `complete`: others may share columns with
  /// it from now on, and it with others. REQUIRES: 1 to sample_count_max samples.
  void encode(std::span<const MemorySample> samples, bool complete, ChunkHeader& header,
              std::vector<std::uint8_t>& data);

 private:
  struct Chunk {
    Rank rank = 0;
    std::int64_t seq = 0;
    bool ordered = false;  // by edges
    SampleColumns columns = {};
    std::uint32_t as_model = 0;  // a bit for each column that is the model's and not here
    // Of chunks in the order of edges what their columns count from, which others have not.
    Edge first_edge = no_edge;
    std::int64_t first_allocated = 0, first_reserved = 0;
    // In the order of the columns.
    std::vector<Edge> edges = {};
    SampleOrder order = {};  // numbers of samples by time
    std::vector<MemorySample> samples = {};
  };
  using Model = std::shared_ptr<const Chunk>;
  /// What chunks of a number build on, and how much later their edges are than its.
  struct Step {
    std::int64_t seq;
    Model model;
    Edge shift;
  };
  /// The edges of the rank that the samples lie at.
  std::vector<Edge> edges_of(std::span<const MemorySample> samples, Rank rank) const;
  /// Samples in the order of edges of the step's model, if they are its samples.
  std::optional<Chunk> like(const Step& step, std::span<const MemorySample> samples,
                            const ChunkHeader& header) const;
  static void count_from_first(Chunk& chunk);
  Chunk alone(std::span<const MemorySample> samples, const ChunkHeader& header) const;
  /// By time alone, which takes the most bytes and the least work.
  static Chunk plain(std::span<const MemorySample> samples, const ChunkHeader& header);
  /// Fills offset by the edges, `samples` being in the order of the chunk; how many are not where
  /// the rank's edges are, or nothing if the rank has no such edges.
  std::optional<std::size_t> find_times(Chunk& chunk, std::span<const Time> times) const;
  /// The earlier chunk that has the most columns of `chunk`; null: none has any.
  Model model_for(const Chunk& chunk) const;
  /// The chunk in the way that takes the fewest bytes, and what it builds on.
  Chunk arrange(std::span<const MemorySample> samples, const ChunkHeader& header, Model& model);
  void remember(Chunk chunk, const Model& model);

  const RecentEdges& edges_;
  std::deque<Model> models_;  // chunks that have all columns, the latest
  std::deque<Step> steps_;    // the latest
};

}  // namespace tessera::storage
