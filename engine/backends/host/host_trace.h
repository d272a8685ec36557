// SPDX-License-Identifier: Apache-2.0
// The trace of all ranks of a real run, written by rank 0.
//
// The idea: every rank notes when its operations begin and end. At the end of a step these two
// columns go to rank 0, without waiting, behind the work of later steps. What was submitted is the
// same on all ranks, so rank 0 knows the rest already. What follows from the times is for the
// sink's thread to find out (AlignedReplay). Where kernels of collectives are timed, too, a third
// column, of the step before, goes with them.
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

namespace tessera {

class HostTrace {
 public:
  using Complete = std::function<Status(TraceLink::Request)>;
  using TakePeaks = std::function<std::vector<PeakMemory>(std::int32_t step)>;
  /// What is recorded, as rank 0 wants it.
  struct Wanted {
    TraceSink* sink = nullptr;
    bool kernels = false;  // times of the kernels of collectives
  };

  /// Collective over all ranks. `complete` waits for a request.
  /// Null: rank 0 has no sink. `link` must outlive the trace.
  static Result<std::unique_ptr<HostTrace>> start(TraceLink& link, const Wanted& wanted,
                                                  std::function<Time()> clock,
                                                  const Complete& complete);
  ~HostTrace();

  // What all ranks do in the same order, told by every rank and written by rank 0.
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
  /// Every operation, on every rank; `here`: it holds for this one. Returns the place of its times
  /// for the next two, or -1.
  std::int64_t submit(const Op& op, EventId event, EventId first_live, bool here,
                      std::string_view algorithm = {});
  void begin(std::int64_t place) { began(place, clock_()); }
  void end(std::int64_t place) { ended(place, clock_()); }
  /// The same, of somebody who has measured it, by this rank's clock.
  void began(std::int64_t place, Time time);
  void ended(std::int64_t place, Time time);
  /// What this rank's communication library says of a collective that was submitted.
  void kernel(EventId op, Time time) { kernels_.record(op.value, time); }
  /// Before anything of a step changes memory. `take_peaks` says what the step before has used.
  void enter_step(std::int32_t step, const TakePeaks& take_peaks) {
    while (step_ < step) close_step(take_peaks);
  }
  /// What was submitted so far may go to rank 0 once it is done.
  void close_step(const TakePeaks& take_peaks);
  /// Nothing will be submitted any more.
  void close_last_step(const TakePeaks& take_peaks) {
    close_step(take_peaks);
    closed_ = true;
  }

  /// Does what can be done now. `together`: all ranks are here, at the same place in their order of
  /// operations, and stay until it is idle. Fails: as the link does.
  Status advance(bool together = false);
  /// Ranks should come together, or what is not written becomes too much: at the same step on all.
  bool full() const;
  /// Everything is written, up to the last step that was closed.
  bool idle() const { return !sending_ && steps_.empty() && !kernels_are_left(); }
  void finish();
  /// The run ends here: the trace keeps what this rank knows, and the reason.
  void fail(const Status& why);

 private:
  struct Times {
    Time begin = 0;
    Time end = 0;
    std::int32_t op = 0;
    bool begun = false;
    bool done = false;
    std::shared_ptr<const std::vector<Rank>> exchange;  // of rank 0, see AlignedReplay::Exchange
  };
  struct Sending {
    bool is_step = false;                   // and not only kernels
    std::size_t count = 0;                  // operations
    std::vector<KernelTimes::Row> kernels;  // of this rank, of the step before
    std::vector<Time> own;                  // begin and end of each operation, then the kernels
    std::vector<Time> all;                  // of rank 0
    TraceLink::Request request = 0;

    const Time* of(Rank rank) const {
      return all.data() + static_cast<std::size_t>(rank) * own.size();
    }
  };

  HostTrace(TraceLink& link, std::function<Time()> clock, bool with_kernels);
  Result<ClockAlignment> align(const Complete& complete);
  Times& times(std::int64_t place) { return times_[static_cast<std::size_t>(place - first_)]; }
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
  Time start_ = 0;
  std::int32_t step_ = 0;
  std::deque<Times> times_;  // times_[k] has place first_ + k
  std::int64_t first_ = 0;
  std::int64_t done_ = 0;           // places before this one are done
  std::deque<std::int64_t> steps_;  // ends of closed steps
  KernelTimes kernels_;
  bool closed_ = false;  // the last step is
  std::unique_ptr<Sending> sending_;
  std::optional<SubmittedTrace> submitted_;  // rank 0's, as the next two
  std::deque<TraceItems> items_;             // of closed steps
  std::shared_ptr<AlignedReplay> replay_;    // the sink's, once a step was handed over
  std::map<CommunicatorId, std::shared_ptr<const std::vector<Rank>>> with_0_;  // its groups
  bool over_ = false;
};

}  // namespace tessera
