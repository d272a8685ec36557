// SPDX-License-Identifier: Apache-2.0
// The calls of a step as values, so that a step like the last one needs no engine.
//
// The idea: an engine decides from what it was told and never from times, so that after a few steps
// each makes the calls of the one before with later ids. Two in a row that are alike, call by call,
// stand for all that follow: `advance` makes the next step's calls out of this one's.
//
//   StepCalls last, calls;
//   calls.add(OpCall{...});
//   if (calls.follow(last)) calls.advance();
#pragma once

#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "tessera/checked_runtime.h"

namespace tessera::sim {

/// What an operation takes by itself.
struct OpCosts {
  Time kernel = 0;           // of a computation or a copy
  std::vector<Time> groups;  // of a collective: by group, or one entry if all are alike
};

/// An operation, without what only checks and numbers look at.
struct OpCall {
  OpCall(const Op& from, std::vector<EventId> waits_for, EventId id, EventId over_before,
         OpCosts takes);

  Op op;  // without `after`, which is here
  std::vector<EventId> after;
  EventId event;
  EventId over;  // events before it were over for everybody
  OpCosts costs;
};

/// A buffer before it lies anywhere, and behind that its place on some ranks, more than once where
/// they differ.
struct RequestCall {
  RequestCall(BufferId of, const Allocation& from) : id(of), request(from), name(from.name) {
    request.name = request.directory = {};
  }

  BufferId id;
  Allocation request;  // without its name, which is here
  std::string name;
};
struct PlaceCall {
  RankSet ranks;
  Bytes offset{};
  CheckedRuntime::MemoryUse device;
};

struct ReleaseCall {
  BufferId id;
  CheckedRuntime::Buffer buffer;
  EventId after;  // none: it is long over
  RankSet ranks;
  /// Ranks that were asked for: whether the buffer's stream waits for `after` anyway.
  std::vector<std::pair<Rank, bool>> waits;
};

/// The host waits for an event, or looks at a number.
struct AwaitCall {
  EventId event;
};
struct ReadCall {};

using StepCall = std::variant<OpCall, RequestCall, PlaceCall, ReleaseCall, AwaitCall, ReadCall>;

class StepCalls {
 public:
  /// More calls than a step of a model should be kept for, some 100 MB, are dropped.
  static constexpr std::size_t most = 1 << 17;

  void add(StepCall call);
  /// Something happened that a step does once.
  void spoil() { whole_ = false; }
  void clear();

  /// The step that the first operation belongs to.
  std::int32_t step() const;
  /// Whether these are the calls of `before`, one step later.
  bool follow(const StepCalls& before);
  /// From now on these are the calls of the next step.
  void advance();

  const std::vector<StepCall>& calls() const { return calls_; }
  std::vector<StepCall>& calls() { return calls_; }

 private:
  std::vector<StepCall> calls_;
  std::int32_t events_ = 0;   // that they record
  std::int32_t buffers_ = 0;  // that they request
  bool whole_ = true;
  bool stuck_ = false;  // a stream that never waits, so that no event of a step is ever over
};

}  // namespace tessera::sim
