// SPDX-License-Identifier: Apache-2.0
#include "engine/backends/host/host_trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

namespace tessera {
namespace {

constexpr int exchanges = 16;          // the best of so many bounds the clocks at the start
constexpr std::size_t steps_max = 16;  // steps that may wait until ranks come together

template <class T>
std::span<std::byte> bytes(std::vector<T>& values) {
  return std::as_writable_bytes(std::span(values));
}

// Collectives in which each member needs data of all others, so that none can end before all have
// begun. In a broadcast or reduce some members may be gone before others come.
bool needs_all(OpKind kind) {
  return kind == OpKind::all_gather || kind == OpKind::reduce_scatter ||
         kind == OpKind::all_reduce || kind == OpKind::all_to_all;
}

Status no_clock(TraceLink& link) {
  const Status status(Code::invalid_argument,
                      fmt::format("rank {} has no clock, but a trace needs times of all ranks: set "
                                  "HostOptions::clock",
                                  link.rank()));
  link.abort(status);
  return status;
}

}  // namespace

HostTrace::HostTrace(TraceLink& link, std::function<Time()> clock, bool with_kernels, bool own)
    : link_(link),
      clock_(std::move(clock)),
      rank_(link.rank()),
      ranks_(static_cast<std::size_t>(link.ranks())),
      with_kernels_(with_kernels),
      own_(own) {}

HostTrace::~HostTrace() { fail(Status(Code::cancelled, "the run was given up before its end")); }

Result<std::unique_ptr<HostTrace>> HostTrace::start(TraceLink& link, const Wanted& wanted,
                                                    std::function<Time()> clock,
                                                    const Complete& complete) {
  // The clock is asked for before and after the broadcast: rank 0 must not promise a trace that it
  // cannot write, and the others learn only by it that they need one.
  // Every rank has to know whether rank 0 has a sink, because the trace's own messages are
  // collective.
  const bool timeless = !clock;
  if (wanted.sink != nullptr && timeless) return no_clock(link);
  std::vector<std::byte> word{std::byte{wanted.sink != nullptr}, std::byte{wanted.kernels},
                              std::byte{wanted.own}};
  TESSERA_ASSIGN(const auto asked, link.broadcast(word));
  TESSERA_TRY(complete(asked));
  if (word[0] == std::byte{0}) return std::unique_ptr<HostTrace>();
  const bool own = word[2] != std::byte{0};
  if (own && wanted.sink == nullptr) return std::unique_ptr<HostTrace>();
  if (timeless) return no_clock(link);
  const bool with_kernels = word[1] != std::byte{0};
  std::unique_ptr<HostTrace> trace(new HostTrace(link, std::move(clock), with_kernels, own));
  ClockAlignment clocks(link.ranks());
  if (!own) {
    TESSERA_ASSIGN(clocks, trace->align(complete));
  }
  trace->start_ = trace->clock_();
  if (own || trace->rank_ == 0) trace->keep_record(*wanted.sink, std::move(clocks));
  return trace;
}

void HostTrace::keep_record(TraceSink& sink, ClockAlignment clocks) {
  submitted_.emplace(sink);
  const auto only = own_ ? std::optional(rank_) : std::nullopt;
  replay_ = std::make_shared<AlignedReplay>(link_.ranks(), std::move(clocks), start_, only);
}

Result<ClockAlignment> HostTrace::align(const Complete& complete) {
  ClockAlignment clocks(link_.ranks());
  for (int k = 0; k < exchanges; ++k) {
    const Time sent = clock_();
    std::vector<std::byte> ping(1);
    TESSERA_ASSIGN(const auto there, link_.broadcast(ping));
    TESSERA_TRY(complete(there));
    std::vector<Time> own{clock_()};
    std::vector<Time> seen(rank_ == 0 ? ranks_ : 0);
    TESSERA_ASSIGN(const auto back, link_.gather(bytes(own), bytes(seen)));
    TESSERA_TRY(complete(back));
    const Time now = clock_();
    for (std::size_t r = 1; r < seen.size(); ++r) {
      clocks.exchange(static_cast<Rank>(r), sent, seen[r], now);
    }
  }
  return clocks;
}

void HostTrace::add_communicator(CommunicatorId id, std::string_view name,
                                 const RankGroups& groups) {
  if (!submitted_) return;
  submitted_->add_communicator(id, name, groups);
  const Index own = groups.group_of(0);
  std::vector<Rank> members;
  for (Index i = 0; own >= 0 && i < groups.group_size(own); ++i) {
    members.push_back(groups.member(own, i));
  }
  with_0_[id] = std::make_shared<const std::vector<Rank>>(std::move(members));
}

std::int64_t HostTrace::submit(const Op& op, EventId event, EventId first_live, bool here,
                               std::string_view algorithm) {
  if (submitted_) submitted_->submit(op, event, first_live, algorithm);
  if (std::holds_alternative<Wait>(op.what) || std::holds_alternative<Mark>(op.what)) return -1;
  if (with_kernels_ && is_collective(kind_of(op))) kernels_.expect(event.value);
  times_.push_back({.op = event.value, .done = !here, .exchange = nullptr});
  if (submitted_ && !own_ && needs_all(kind_of(op)) && op.where.contains(0)) {
    times_.back().exchange = with_0_.at(communicator_of(op));
  }
  return first_ + static_cast<std::int64_t>(times_.size()) - 1;
}

void HostTrace::began(std::int64_t place, Time time) {
  if (place < 0) return;
  times(place).begin = time;
  times(place).begun = true;
}

void HostTrace::ended(std::int64_t place, Time time) {
  if (place < 0) return;
  times(place).end = time;
  times(place).done = true;
}

void HostTrace::close_step(const TakePeaks& take_peaks) {
  auto peaks = take_peaks(step_);
  if (submitted_) {
    submitted_->close_step(step_, std::move(peaks));
    items_.push_back(submitted_->take());
  }
  steps_.push_back(first_ + static_cast<std::int64_t>(times_.size()));
  kernels_.close_step();
  ++step_;
}

// Whether all operations of the oldest closed step are done. `done_` only grows, so the operations
// of a long step are not gone through again with every call.
bool HostTrace::front_is_done() {
  TESSERA_ASSERT(!steps_.empty() && done_ <= steps_.front(), "a step is closed and not sent");
  while (done_ < steps_.front() && times(done_).done) ++done_;
  return done_ == steps_.front();
}

bool HostTrace::full() const { return !own_ && !link_.at_any_time() && steps_.size() >= steps_max; }

Status HostTrace::advance(bool together) {
  if (over_ || !(together || own_ || link_.at_any_time())) return {};
  if (sending_) {
    TESSERA_ASSIGN(const bool arrived, link_.test(sending_->request));
    if (!arrived) return {};
    const auto sent = std::exchange(sending_, nullptr);
    if (rank_ == 0) take(*sent);
  }
  const bool ready = steps_.empty() ? kernels_are_left() : front_is_done();
  return ready ? send() : Status{};
}

// Sends or keeps the next step, or, behind the last one, the kernel times that are left. All ranks
// send the same number of times, because operations are the same everywhere: a rank that an
// operation does not hold for sends zeros in its place.
Status HostTrace::send() {
  TESSERA_ASSERT(sending_ == nullptr, "one step is sent at a time");
  const auto count = steps_.empty() ? 0 : static_cast<std::size_t>(steps_.front() - first_);
  auto sending = std::make_unique<Sending>();
  sending->is_step = !steps_.empty();
  TESSERA_ASSERT(count <= times_.size(), "a step's operations have times");
  sending->count = count;
  sending->kernels = kernels_.take();
  sending->own.reserve(2 * count + sending->kernels.size());
  for (std::size_t k = 0; k < count; ++k) {
    sending->own.push_back(times_[k].begin);
    sending->own.push_back(times_[k].end);
  }
  for (const KernelTimes::Row& kernel : sending->kernels) sending->own.push_back(kernel.time);
  if (own_) {
    if (sending->is_step) steps_.pop_front();
    sending->all = sending->own;
    take(*sending);
    return {};
  }
  if (rank_ == 0) sending->all.resize(sending->own.size() * ranks_);
  TESSERA_ASSIGN(sending->request, link_.gather(bytes(sending->own), bytes(sending->all)));
  sending_ = std::move(sending);
  // Rank 0 keeps its times until the others' have arrived: they say which operations are exchanges.
  if (rank_ != 0) forget(count);
  if (sending_->is_step) steps_.pop_front();
  return {};
}

void HostTrace::forget(std::size_t count) {
  times_.erase(times_.begin(), times_.begin() + static_cast<std::ptrdiff_t>(count));
  first_ += static_cast<std::int64_t>(count);
}

// The times of a step have arrived where there is a sink. They and the operations, buffers and
// peaks of the step move into a value that the sink's thread replays; this thread keeps nothing
// that it uses.
void HostTrace::take(Sending& sent) {
  TESSERA_ASSERT(own_ || rank_ == 0, "only rank 0 receives times");
  write_kernels(sent);
  if (!sent.is_step) return;
  TESSERA_ASSERT(submitted_.has_value() && !items_.empty(), "a step that arrives was closed here");
  auto step = std::make_shared<AlignedReplay::Step>();
  step->pitch = sent.own.size();
  step->count = sent.count;
  step->all = std::move(sent.all);
  step->items = std::move(items_.front());
  items_.pop_front();
  for (std::size_t k = 0; k < sent.count; ++k) {
    if (times_[k].exchange) step->exchanges.push_back({k, std::move(times_[k].exchange)});
  }
  forget(sent.count);
  submitted_->sink().defer(
      step->size(), [step, replay = replay_](TraceSink& sink) { replay->play(*step, sink); });
}

void HostTrace::write_kernels(const Sending& sent) {
  for (std::size_t k = 0; k < sent.kernels.size(); ++k) {
    const auto row = [&](Rank rank) {
      return KernelTimes::Row{sent.kernels[k].op, sent.of(rank)[2 * sent.count + k]};
    };
    if (own_) write_kernel(rank_, row(0));
    for (Rank rank = 0; !own_ && rank < static_cast<Rank>(ranks_); ++rank) {
      write_kernel(rank, row(rank));
    }
  }
}

void HostTrace::write_kernel(Rank rank, const KernelTimes::Row& kernel) {
  if (kernel.time >= 0) submitted_->sink().kernel({rank, kernel.op, kernel.time});
}

void HostTrace::finish() {
  over_ = true;
  if (!submitted_) return;
  submitted_->sink().defer({}, [replay = replay_](TraceSink& sink) { replay->finish(sink); });
}

// After an error no step can be completed, as other ranks do not send any more. The trace gets what
// this rank knows: its own times of the operations that have begun, cut at now, and the reason.
void HostTrace::fail(const Status& why) {
  if (std::exchange(over_, true) || !submitted_) return;
  const Time now = clock_() - start_;
  const Rank self = rank_;
  for (const Times& t : times_) {
    if (!t.begun) continue;
    const Time begin = t.begin - start_;
    const Time end = t.done ? t.end - start_ : now;
    submitted_->sink().spans({t.op, {&self, 1}, {&begin, 1}, {&begin, 1}, {&end, 1}});
  }
  if (sending_) {
    for (const KernelTimes::Row& kernel : sending_->kernels) write_kernel(self, kernel);
  }
  for (const KernelTimes::Row& kernel : kernels_.rows()) write_kernel(self, kernel);
  submitted_->sink().diagnostic({.severity = TraceDiagnostic::Severity::error,
                                 .code = name_of(why.code()),
                                 .rank = own_ ? rank_ : -1,
                                 .time = now,
                                 .message = why.message()});
}

}  // namespace tessera
