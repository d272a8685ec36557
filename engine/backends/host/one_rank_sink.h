// SPDX-License-Identifier: Apache-2.0
// Passes on what a replay of all ranks says of one of them.
//
// The idea: a rank that knows its own times only replays with them in place of the others', and
// what comes out for others is dropped. Their steps have no length, which readers take for unknown.
#pragma once

#include <vector>

#include "engine/tracing/passing_sink.h"

namespace tessera {

class OneRankSink final : public PassingSink {
 public:
  OneRankSink(TraceSink& to, Rank rank) : PassingSink(to), rank_(rank) {}

  void memory_shortage(const TraceMemoryShortage& s) override {
    if (s.rank == rank_) to().memory_shortage(s);
  }
  void spans(const SpanBatch& all) override {
    for (std::size_t k = 0; k < all.ranks.size(); ++k) {
      if (all.ranks[k] != rank_) continue;
      to().spans({all.op, all.ranks.subspan(k, 1), all.begin.subspan(k, 1), all.ready.subspan(k, 1),
                  all.end.subspan(k, 1)});
    }
  }
  void memory(std::span<const MemorySample> samples) override {
    own_.clear();
    for (const MemorySample& sample : samples) {
      if (sample.rank == rank_) own_.push_back(sample);
    }
    if (!own_.empty()) to().memory(own_);
  }
  void rank_steps(const RankStepBatch& all) override {
    const auto self = static_cast<std::size_t>(rank_);
    const auto alone = [&](const auto& column, auto others) {
      std::vector out(column.size(), others);
      out[self] = column[self];
      return out;
    };
    const Time begin = all.begin[self];
    to().rank_steps({all.step, alone(all.begin, begin), alone(all.end, begin),
                     alone(all.compute, Time{}), alone(all.communication, Time{}),
                     alone(all.exposed, Time{}), alone(all.blocking, Time{}),
                     alone(all.wait, Time{}), alone(all.peak_allocated, Bytes{}),
                     alone(all.peak_reserved, Bytes{})});
  }

 private:
  const Rank rank_;
  std::vector<MemorySample> own_;
};

}  // namespace tessera
