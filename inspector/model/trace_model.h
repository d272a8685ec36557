// SPDX-License-Identifier: Apache-2.0
// A trace as the panels need it: small tables at once, ranks when somebody looks at them.
#pragma once

#include <array>
#include <future>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "inspector/model/memory_pyramid.h"
#include "inspector/model/rank_metrics.h"
#include "inspector/model/span_pyramid.h"
#include "tessera/analysis/critical_path.h"
#include "tessera/analysis/findings.h"
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
  std::vector<std::int32_t> order;            // their streams, compute first
  std::vector<const storage::Lane*> compute;  // those of `lanes` that compute
  Status problem;                             // why there are no lanes, if they cannot be read
  std::size_t spans = 0;                      // of all lanes
  std::int64_t used = 0;                      // the frame in which somebody looked last

  const LaneData* lane(std::int32_t stream) const;
};

/// What a rank holds elsewhere than on its device, of one class; `allocated` is its sum.
struct HostMemory {
  MemoryClass memory_class = MemoryClass::pinned_host;
  storage::MemorySeries samples;
  std::unique_ptr<MemoryPyramid> pyramid;
};

/// The memory of one recorded rank.
struct RankMemory {
  storage::MemorySeries samples;
  std::unique_ptr<MemoryPyramid> pyramid;  // nullptr without samples
  std::vector<HostMemory> host;            // where there is any
  Status problem;                          // why, if they cannot be read
  std::int64_t used = 0;                   // the frame in which somebody looked last
};

/// Something wrong with the run or its file, for everybody to see.
struct Problem {
  std::string text;          // one sentence
  std::optional<Time> time;  // the moment, if it has one
  Rank rank = -1;            // whom it concerns, -1: all
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
  /// Compares the content hash in a thread of its own while the first pictures are drawn.
  /// Fails: what Trace::open fails with.
  static Result<std::unique_ptr<TraceModel>> open(const std::string& path);
  const std::string& path() const { return path_; }
  /// Begins a frame: of very many spans and samples those are forgotten that no frame has shown for
  /// a while. References to them end here.
  void begin_frame();
  /// Adds what threads have found to the problems, once each.
  void take_check();
  /// Waits until it is. Fails: as TraceReader::verify_tables.
  Status await_check();

  /// The run that this one is compared with; nullptr: none.
  TraceModel* against() { return against_.get(); }
  void set_against(std::unique_ptr<TraceModel> other) { against_ = std::move(other); }
  std::unique_ptr<TraceModel> release_against() { return std::move(against_); }
  /// Ranks whose spans somebody has looked at, ascending; of many the first.
  std::vector<Rank> loaded_ranks() const;
  /// The recording goes on, so that it is no problem that it is unfinished.
  void forgive_unfinished();

  /// What the run did, as `tessera report` says it.
  const analysis::RunFigures& figures() const { return figures_; }
  /// Metrics of all ranks and steps.
  RankMetrics& metrics() { return metrics_; }
  /// Whether answers wait for what they need, rather than come beside the frames.
  void set_patient(bool patient);
  /// Something is still found out beside the frames.
  bool at_work() const { return metrics_.at_work() || finding_.valid(); }
  /// When `step` begins on `rank`, or, of one that the run does not have, on the first.
  Time step_begin(std::int32_t step, Rank rank);

  /// The name of a colour in this trace: several kinds share one, and only those that occur are
  /// named ("broadcast" where nothing is all-reduced).
  const std::string& class_name(OpClass op_class) const {
    return class_names_[static_cast<std::size_t>(op_class)];
  }
  /// The faults of the run; found out on first use. nullptr: not yet.
  const Result<std::vector<analysis::Finding>>* findings();
  /// The critical path of `step`; found out on first use.
  const Result<analysis::CriticalPath>& critical_path(std::int32_t step);
  /// Loads the rank's spans on first use; none if it was not recorded or cannot be read.
  const RankData& rank(Rank rank);
  /// All buffers, by ascending id; read on first use, none if they cannot be read.
  const std::vector<storage::BufferRow>& buffers();
  /// Loads the rank's memory on first use.
  const RankMemory& memory(Rank rank);
  /// Errors that the run reported, in the order of the trace, and then what could not be read so
  /// far.
  const std::vector<Problem>& problems() const { return problems_; }
  /// Streams worth a lane, compute first: those with spans on `rank`.
  const std::vector<std::int32_t>& lanes_of(Rank wanted) { return rank(wanted).order; }
  /// How many these are, at least 1. Loads nothing: of a rank that nobody has looked at, `guess`.
  std::size_t lane_count(Rank rank, std::size_t guess) const;
  /// The span of op `id` on `rank`.
  std::optional<SpanRef> find(Rank rank, std::int32_t op);
  /// REQUIRES: a span of this trace.
  analysis::SpanFacts facts(const SpanRef& span);
  /// What a span waited for, and the first spans that waited for it, on its rank; kept for the
  /// latest one. REQUIRES: a span of this trace.
  struct Flow {
    std::vector<SpanRef> causes, uses;
  };
  const Flow& flow(const SpanRef& span);

 private:
  explicit TraceModel(Trace trace);
  void name_classes();

  std::string path_;
  std::unique_ptr<TraceModel> against_;
  analysis::RunFigures figures_;
  RankMetrics metrics_{*this};
  bool patient_ = false;
  std::map<std::pair<std::int32_t, Rank>, Time> step_begins_;
  std::int64_t frame_ = 0;
  std::map<Rank, RankData> ranks_;
  std::map<Rank, RankMemory> memories_;
  std::optional<std::vector<storage::BufferRow>> buffers_;
  std::array<std::string, op_class_count> class_names_;
  std::vector<Problem> problems_;
  std::optional<SpanRef> flow_of_;
  Flow flow_;
  std::future<Status> check_;  // not valid: its result was taken
  Status checked_;
  std::optional<Result<std::vector<analysis::Finding>>> findings_;
  std::future<Result<std::vector<analysis::Finding>>> finding_;   // valid: under way
  std::map<std::int32_t, Result<analysis::CriticalPath>> paths_;  // by step, the last few
};

/// The colour class of an op.
OpClass class_of(const storage::OpRow& op);

}  // namespace tessera::inspector
