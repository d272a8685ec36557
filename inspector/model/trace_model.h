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

#include "inspector/model/coarse_spans.h"
#include "inspector/model/rank_data.h"
#include "inspector/model/rank_memories.h"
#include "inspector/model/rank_metrics.h"
#include "inspector/model/view_window.h"
#include "tessera/analysis/critical_path.h"
#include "tessera/analysis/findings.h"
#include "tessera/analysis/run.h"

namespace tessera::inspector {

/// Something wrong with the run or its file, for everybody to see.
struct Problem {
  std::string text;          // one sentence
  std::optional<Time> time;  // the moment, if it has one
  Rank rank = -1;            // whom it concerns, -1: all
};

/// When a span is on its rank, ns.
struct SpanTimes {
  Time begin = 0, ready = 0, end = 0;
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
  /// What is in view from now on: of a long run, spans and samples of about that time are in
  /// memory. References to others end here.
  void look_at(Time from, Time to);
  /// The run is long: `rank` and `memory` have a range of time.
  bool is_long() const { return !spans_window_.whole(); }
  /// More spans are in view than can be told apart: `coarse` has their sums, `rank` others.
  bool crowded() const { return spans_window_.crowded(); }
  /// Sums over the spans of a rank of a long run; nullptr: not yet.
  const CoarseRank* coarse(Rank rank) { return coarse_.of(rank); }
  /// The rank whose spans a thread is reading; -1: none.
  Rank reading() const { return coarse_.at_work(); }
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
  bool at_work() const { return metrics_.at_work() || finding_.valid() || coarse_.at_work() >= 0; }
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
  /// Loads the rank's spans on first use; none if it was not recorded or cannot be read. Of a long
  /// run those around what is in view, or was before that got crowded.
  const RankData& rank(Rank rank);
  /// Spans of `step` and its neighbours at least: all that one of them has to do with.
  const RankData& around(Rank rank, std::int32_t step);
  /// All buffers, by ascending id; read on first use, none if they cannot be read.
  const std::vector<storage::BufferRow>& buffers();
  /// Loads the rank's memory on first use; as `rank`, and where very many samples are in view their
  /// highest of each step.
  const RankMemory& memory(Rank rank) { return memories_.of(rank); }
  /// Memory of `step` and its neighbours at least, with who holds it.
  const RankMemory& memory_around(Rank rank, std::int32_t step) {
    return memories_.around(rank, step);
  }
  /// Why the rank's spans cannot be read, if somebody has looked at them.
  Status problem_of(Rank rank) const;
  /// Errors that the run reported, in the order of the trace, and then what could not be read so
  /// far.
  const std::vector<Problem>& problems() const { return problems_; }
  /// Streams worth a lane, compute first: those with spans on `rank`.
  const std::vector<std::int32_t>& lanes_of(Rank wanted) {
    return is_long() ? streams_ : rank(wanted).order;
  }
  /// How many these are, at least 1. Loads nothing: of a rank that nobody has looked at, `guess`.
  std::size_t lane_count(Rank rank, std::size_t guess) const;
  /// The span of op `id` on `rank`.
  std::optional<SpanRef> find(Rank rank, std::int32_t op);
  /// The same of what is in memory, without reading more.
  std::optional<SpanTimes> loaded_times(Rank rank, std::int32_t stream, std::int32_t op) const;
  /// Zeros if it cannot be read.
  SpanTimes times(const SpanRef& span);
  /// REQUIRES: a span of this trace.
  analysis::SpanFacts facts(const SpanRef& span);
  /// What a span waited for, and the first spans that waited for it, on its rank; kept for the
  /// latest one. REQUIRES: a span of this trace.
  struct Flow {
    std::vector<SpanRef> causes, uses;
  };
  const Flow& flow(const SpanRef& span);

 private:
  TraceModel(Trace trace, const std::string& path, ViewWindow spans, ViewWindow samples);
  void name_classes();
  void find_streams();

  std::string path_;
  std::unique_ptr<TraceModel> against_;
  analysis::RunFigures figures_;
  RankMetrics metrics_{*this};
  bool patient_ = false;
  std::map<std::pair<std::int32_t, Rank>, Time> step_begins_;
  std::int64_t frame_ = 0;
  std::map<Rank, RankData> ranks_;
  // Of long runs:
  OpClasses classes_;  // by `reader`
  ViewWindow spans_window_;
  std::vector<std::int32_t> streams_;  // that anything runs on, compute first
  CoarseSpans coarse_;
  RankMemories memories_;
  std::map<std::pair<Rank, std::int32_t>, RankData> around_;  // by step, the last few
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

}  // namespace tessera::inspector
