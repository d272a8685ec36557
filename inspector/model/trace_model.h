// SPDX-License-Identifier: Apache-2.0
// A trace as the panels need it: small tables at once, ranks when somebody looks at them.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "inspector/model/memory_pyramid.h"
#include "inspector/model/span_pyramid.h"
#include "tessera/analysis/metrics.h"
#include "tessera/analysis/run.h"
#include "tessera/analysis/spans.h"

namespace tessera::inspector {

/// One stream of one rank.
struct LaneData {
  storage::Lane spans;
  std::unique_ptr<SpanPyramid> pyramid;
};

/// What is known about one recorded rank.
struct RankData {
  std::vector<LaneData> lanes;                // ascending stream id
  std::vector<const storage::Lane*> compute;  // those of `lanes` that compute
  storage::MemorySeries memory_samples;
  std::unique_ptr<MemoryPyramid> memory;

  const LaneData* lane(std::int32_t stream) const;
};

/// One span: an op on a rank.
struct SpanRef {
  Rank rank = 0;
  std::int32_t stream = 0;
  std::size_t index = 0;
  bool operator==(const SpanRef&) const = default;
};

class TraceModel : public analysis::Trace {
 public:
  /// Fails: what Trace::open fails with.
  static Result<std::unique_ptr<TraceModel>> open(const std::string& path);

  /// What the run did, as `tessera report` says it.
  const analysis::RunFigures& figures() const { return figures_; }
  /// One metric of all ranks and steps; found out on first use.
  const analysis::MetricFigures& metric(analysis::Metric metric);

  /// Loads the rank on first use; without spans if it was not recorded or cannot be read.
  const RankData& rank(Rank rank);
  /// Streams worth a lane, compute first: those with spans on `rank`.
  std::vector<std::int32_t> lanes_of(Rank rank);
  /// The span of op `id` on `rank`.
  std::optional<SpanRef> find(Rank rank, std::int32_t op);
  /// REQUIRES: a span of this trace.
  analysis::SpanFacts facts(const SpanRef& span);

 private:
  explicit TraceModel(Trace trace);

  analysis::RunFigures figures_;
  std::map<analysis::Metric, analysis::MetricFigures> metrics_;
  std::map<Rank, RankData> ranks_;
};

/// The colour class of an op.
OpClass class_of(const storage::OpRow& op);

}  // namespace tessera::inspector
