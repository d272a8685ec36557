// SPDX-License-Identifier: Apache-2.0
// The trace of all ranks of a real run, written by rank 0; or of each rank, written by itself.
//
// The idea: every rank notes when its operations begin and end. At the end of a step these two
// columns are sent to rank 0, without waiting, while later steps run. All other columns follow from
// them: operations are the same on all ranks, so rank 0 knows them, and the sink's thread computes
// the rest (AlignedReplay). Where kernels of collectives are timed as well, a third column, that of
// the step before, is sent with them. Where every rank has a sink of its own nothing is sent.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "engine/backends/host/aligned_replay.h"
#include "engine/backends/host/kernel_times.h"
#include "engine/backends/host/trace_link.h"
#include "engine/tracing/submitted_trace.h"
#include "tessera/assert.h"

namespace tessera {

class HostTrace {
 public:
  using Complete = std::function<Status(TraceLink::Request)>;
  using TakePeaks = std::function<std::vector<PeakMemory>(std::int32_t step)>;
  /// The request of rank 0, which the other ranks follow.
  struct Wanted {
    TraceSink* sink = nullptr;
    bool kernels = false;  // times of the kernels of collectives
    bool own = false;      // every rank's sink gets the times of that rank alone
  };

  /// Starts the trace on all ranks together; the result is null if rank 0 has no sink, or with
  /// `own` this rank. `complete`
  /// waits for a request. `link` must outlive the trace.
  static Result<std::unique_ptr<HostTrace>> start(TraceLink& link, const Wanted& wanted,
                                                  std::function<Time()> clock,
                                                  const Complete& complete);
  ~HostTrace();

  // Calls that every rank makes in the same order, and of which only rank 0 keeps a record.
  void add_stream(StreamId id, std::string_view name, StreamRole role) {
    if (submitted_) submitted_->add_stream(id, name, role);
  }
  void add_communicator(CommunicatorId id, std::string_view name, const RankGroups& groups);
  void allocate(BufferId id, const Allocation& request) {
    if (submitted_) submitted_->allocate(id, request);
  }
  void place(BufferId id, const Allocation& request, const RankSet& ranks, Bytes end) {
    if (submitted_) submitted_->place(id, request, ranks, end);
  }
  void release(BufferId id, MemoryClass memory_class, Bytes bytes, EventId after,
               const RankSet& ranks) {
    if (submitted_) submitted_->release(id, memory_class, bytes, after, ranks);
  }
  void host_wait(EventId event) {
    if (submitted_) submitted_->host_wait(event);
  }
  /// Called for every operation on every rank; `here`: whether it holds for this one. Returns the
  /// place of its times, which `begin` and `end` take, or -1 if it has none.
  std::int64_t submit(const Op& op, EventId event, EventId first_live, bool here,
                      std::string_view algorithm = {});
  void begin(std::int64_t place) { began(place, clock_()); }
  void end(std::int64_t place) { ended(place, clock_()); }
  /// As `begin` and `end`, with a time of this rank's clock that the caller has measured.
  void began(std::int64_t place, Time time);
  void ended(std::int64_t place, Time time);
  /// The time that the kernels of a submitted collective took, as the communication library says.
  void kernel(EventId op, Time time) { kernels_.record(op.value, time); }
  /// Called before any operation of `step` changes memory. `take_peaks` returns the memory peaks of
  /// the step before.
  void enter_step(std::int32_t step, const TakePeaks& take_peaks) {
    while (step_ < step) close_step(take_peaks);
  }
  /// Ends a step: its times are sent to rank 0 once all operations submitted so far are done.
  void close_step(const TakePeaks& take_peaks);
  /// Ends the last step: no operation will be submitted any more.
  void close_last_step(const TakePeaks& take_peaks) {
    close_step(take_peaks);
    closed_ = true;
  }

  /// Sends and receives without waiting. `together`: all ranks call it at the same place in their
  /// order of operations, until it is idle. Fails: as the link does.
  Status advance(bool together = false);
  /// Whether so many steps are unsent that ranks should come together for `advance`. It becomes
  /// true at the same step on all ranks.
  bool full() const;
  /// Whether every closed step has been sent.
  bool idle() const { return !sending_ && steps_.empty() && !kernels_are_left(); }
  void finish();
  /// Ends the trace after an error: it keeps the times of this rank, and the reason.
  void fail(const Status& why);

 private:
  struct Times {
    Time begin = 0;
    Time end = 0;
    std::int32_t op = 0;
    bool begun = false;
    bool done = false;
    std::shared_ptr<const std::vector<Rank>> exchange;  // on rank 0: AlignedReplay::Exchange
  };
  struct Sending {
    bool is_step = false;                   // false: only kernels, behind the last step
    std::size_t count = 0;                  // operations
    std::vector<KernelTimes::Row> kernels;  // this rank's, of the step before
    std::vector<Time> own;                  // begin and end of each operation, then the kernels
    std::vector<Time> all;                  // on rank 0: `own` of every rank
    TraceLink::Request request = 0;

    const Time* of(Rank rank) const {
      return all.data() + static_cast<std::size_t>(rank) * own.size();
    }
  };

  HostTrace(TraceLink& link, std::function<Time()> clock, bool with_kernels, bool own);
  void keep_record(TraceSink& sink, ClockAlignment clocks);
  Result<ClockAlignment> align(const Complete& complete);
  Times& times(std::int64_t place) {
    TESSERA_ASSERT(place >= first_ && place - first_ < std::ssize(times_),
                   "what is done is not sent");
    return times_[static_cast<std::size_t>(place - first_)];
  }
  bool front_is_done();
  bool kernels_are_left() const { return closed_ && !kernels_.empty(); }
  Status send();
  void forget(std::size_t count);
  void take(Sending& sent);
  void write_kernels(const Sending& sent);
  void write_kernel(Rank rank, const KernelTimes::Row& kernel);

  TraceLink& link_;
  const std::function<Time()> clock_;
  const Rank rank_;
  const std::size_t ranks_;
  const bool with_kernels_;
  const bool own_;
  Time start_ = 0;
  std::int32_t step_ = 0;
  std::deque<Times> times_;  // times_[k] has place first_ + k
  std::int64_t first_ = 0;
  std::int64_t done_ = 0;           // places before this one are done
  std::deque<std::int64_t> steps_;  // ends of closed steps
  KernelTimes kernels_;
  bool closed_ = false;  // the last step is
  std::unique_ptr<Sending> sending_;
  std::optional<SubmittedTrace> submitted_;  // where there is a sink, as the next three
  std::deque<TraceItems> items_;             // of closed steps
  std::shared_ptr<AlignedReplay> replay_;    // only deferred work uses it, so it needs no lock
  std::map<CommunicatorId, std::shared_ptr<const std::vector<Rank>>> with_0_;  // rank 0's groups
  bool over_ = false;
};

}  // namespace tessera
