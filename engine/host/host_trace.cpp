// SPDX-License-Identifier: Apache-2.0
#include "engine/host/host_trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

namespace tessera {
namespace {

constexpr int exchanges = 16;
constexpr std::size_t steps_max = 16;  // without coming together

template <class T>
std::span<std::byte> bytes(std::vector<T>& values) {
  return std::as_writable_bytes(std::span(values));
}

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

HostTrace::HostTrace(TraceLink& link, std::function<Time()> clock, bool with_kernels)
    : link_(link),
      clock_(std::move(clock)),
      rank_(link.rank()),
      ranks_(static_cast<std::size_t>(link.ranks())),
      with_kernels_(with_kernels),
      clocks_(link.ranks()) {}

HostTrace::~HostTrace() { fail(Status(Code::cancelled, "the run was given up before its end")); }

Result<std::unique_ptr<HostTrace>> HostTrace::start(TraceLink& link, const Wanted& wanted,
                                                    std::function<Time()> clock,
                                                    const Complete& complete) {
  const bool timeless = !clock;
  if (wanted.sink != nullptr && timeless) return no_clock(link);
  std::vector<std::byte> word{std::byte{wanted.sink != nullptr}, std::byte{wanted.kernels}};
  TESSERA_ASSIGN(const auto asked, link.broadcast(word));
  TESSERA_TRY(complete(asked));
  if (word[0] == std::byte{0}) return std::unique_ptr<HostTrace>();
  if (timeless) return no_clock(link);
  const bool with_kernels = word[1] != std::byte{0};
  std::unique_ptr<HostTrace> trace(new HostTrace(link, std::move(clock), with_kernels));
  TESSERA_TRY(trace->align(complete));
  if (trace->rank_ == 0) trace->replay_.emplace(*wanted.sink, link.ranks());
  trace->start_ = trace->clock_();
  return trace;
}

Status HostTrace::align(const Complete& complete) {
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
      clocks_.exchange(static_cast<Rank>(r), sent, seen[r], now);
    }
  }
  return {};
}

void HostTrace::add_communicator(CommunicatorId id, std::string_view name,
                                 const RankGroups& groups) {
  if (!replay_) return;
  replay_->add_communicator(id, name, groups);
  const Index own = groups.group_of(0);
  for (Index i = 0; own >= 0 && i < groups.group_size(own); ++i) {
    members_with_0_[id].push_back(groups.member(own, i));
  }
}

std::int64_t HostTrace::submit(const Op& op, EventId event, EventId first_live, bool here,
                               std::string_view algorithm) {
  if (replay_) replay_->submit(op, event, first_live, algorithm);
  if (std::holds_alternative<Wait>(op.what) || std::holds_alternative<Mark>(op.what)) return -1;
  if (with_kernels_ && is_collective(kind_of(op))) kernels_.expect(event.value);
  const bool exchange = needs_all(kind_of(op)) && op.where.contains(0);
  times_.push_back({.op = event.value,
                    .done = !here,
                    .exchange = exchange ? communicator_of(op) : CommunicatorId{}});
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
  if (replay_) replay_->close_step(step_, std::move(peaks));
  steps_.push_back(first_ + static_cast<std::int64_t>(times_.size()));
  kernels_.close_step();
  ++step_;
}

bool HostTrace::front_is_done() {
  while (done_ < steps_.front() && times(done_).done) ++done_;
  return done_ == steps_.front();
}

bool HostTrace::full() const { return !link_.at_any_time() && steps_.size() >= steps_max; }

Status HostTrace::advance(bool together) {
  if (over_ || !(together || link_.at_any_time())) return {};
  if (sending_) {
    TESSERA_ASSIGN(const bool arrived, link_.test(sending_->request));
    if (!arrived) return {};
    const auto sent = std::exchange(sending_, nullptr);
    if (rank_ == 0) take(*sent);
  }
  const bool ready = steps_.empty() ? kernels_are_left() : front_is_done();
  return ready ? send() : Status{};
}

// The next step, or, behind the last one, what is left of its kernels.
Status HostTrace::send() {
  const auto count = steps_.empty() ? 0 : static_cast<std::size_t>(steps_.front() - first_);
  auto sending = std::make_unique<Sending>();
  sending->count = count;
  sending->kernels = kernels_.take();
  sending->own.reserve(2 * count + sending->kernels.size());
  for (std::size_t k = 0; k < count; ++k) {
    sending->own.push_back(times_[k].begin);
    sending->own.push_back(times_[k].end);
  }
  for (const KernelTimes::Row& kernel : sending->kernels) sending->own.push_back(kernel.time);
  if (rank_ == 0) sending->all.resize(sending->own.size() * ranks_);
  TESSERA_ASSIGN(sending->request, link_.gather(bytes(sending->own), bytes(sending->all)));
  sending_ = std::move(sending);
  if (rank_ != 0) times_.erase(times_.begin(), times_.begin() + static_cast<std::ptrdiff_t>(count));
  if (rank_ != 0) first_ += static_cast<std::int64_t>(count);
  if (!steps_.empty()) steps_.pop_front();
  return {};
}

// Nobody leaves such a collective before everybody has entered it.
void HostTrace::tighten(const Sending& sent) {
  struct Bounds {
    Time lowest = std::numeric_limits<Time>::min();
    Time highest = std::numeric_limits<Time>::max();
    bool met = false;
  };
  std::vector<Bounds> bounds(ranks_);
  for (std::size_t k = 0; k < sent.count; ++k) {
    const CommunicatorId id = times_[k].exchange;
    if (!id.valid()) continue;
    const Time begin = sent.own[2 * k];
    const Time end = sent.own[2 * k + 1];
    for (Rank rank : members_with_0_.at(id)) {
      const auto r = static_cast<std::size_t>(rank);
      const Time* theirs = sent.of(rank) + 2 * k;
      bounds[r].lowest = std::max(bounds[r].lowest, theirs[0] - end);
      bounds[r].highest = std::min(bounds[r].highest, theirs[1] - begin);
      bounds[r].met = true;
    }
  }
  for (std::size_t r = 1; r < ranks_; ++r) {
    if (!bounds[r].met) continue;
    // No time beyond it is asked for before the next step is there.
    const auto rank = static_cast<Rank>(r);
    const Time until = *std::max_element(sent.of(rank), sent.of(rank) + 2 * sent.count);
    clocks_.bound(rank, bounds[r].lowest, bounds[r].highest, until);
  }
}

void HostTrace::take(const Sending& sent) {
  tighten(sent);
  write_kernels(sent);
  std::vector<Time> begin(ranks_), end(ranks_);
  for (std::size_t k = 0; k < sent.count; ++k) {
    for (std::size_t r = 0; r < ranks_; ++r) {
      const auto rank = static_cast<Rank>(r);
      const Time* theirs = sent.of(rank) + 2 * k;
      begin[r] = std::max<Time>(0, clocks_.aligned(rank, theirs[0]) - start_);
      end[r] = std::max(begin[r], clocks_.aligned(rank, theirs[1]) - start_);
    }
    replay_->op_took(begin, end);
  }
  replay_->settle();
  times_.erase(times_.begin(), times_.begin() + static_cast<std::ptrdiff_t>(sent.count));
  first_ += static_cast<std::int64_t>(sent.count);
}

void HostTrace::write_kernels(const Sending& sent) {
  for (std::size_t k = 0; k < sent.kernels.size(); ++k) {
    for (Rank rank = 0; rank < static_cast<Rank>(ranks_); ++rank) {
      write_kernel(rank, {sent.kernels[k].op, sent.of(rank)[2 * sent.count + k]});
    }
  }
}

void HostTrace::write_kernel(Rank rank, const KernelTimes::Row& kernel) {
  if (kernel.time >= 0) replay_->sink().kernel({rank, kernel.op, kernel.time});
}

void HostTrace::finish() {
  over_ = true;
  if (replay_) replay_->finish();
}

void HostTrace::fail(const Status& why) {
  if (std::exchange(over_, true) || !replay_) return;
  const Time now = clock_() - start_;
  const Rank self = 0;
  for (const Times& t : times_) {
    if (!t.begun) continue;
    const Time begin = t.begin - start_;
    const Time end = t.done ? t.end - start_ : now;
    replay_->sink().spans({t.op, {&self, 1}, {&begin, 1}, {&begin, 1}, {&end, 1}});
  }
  if (sending_) {
    for (const KernelTimes::Row& kernel : sending_->kernels) write_kernel(self, kernel);
  }
  for (const KernelTimes::Row& kernel : kernels_.rest()) write_kernel(self, kernel);
  replay_->sink().diagnostic({.severity = TraceDiagnostic::Severity::error,
                              .code = name_of(why.code()),
                              .time = now,
                              .message = why.message()});
}

}  // namespace tessera
