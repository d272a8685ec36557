// SPDX-License-Identifier: Apache-2.0
// Streams of fake devices: queues whose operations run when a seed, or somebody who looks, says so.
#pragma once

#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tessera/types.h"
#include "tests/backends/cuda/stand_in/race_check.h"
#include "tests/random.h"

namespace tessera::test {

struct FakeStream;

struct FakeEvent {
  int device = 0;
  std::uint64_t recorded = 0;  // how often
  std::uint64_t reached = 0;   // the last recording that the device has come to
  Clock clock{};               // what is over then
  bool timed = false;
  Time time = 0;  // of `reached`, by the device's clock
};

/// Work of several streams that starts when it is at the head of all of them.
class Meeting {
 public:
  virtual ~Meeting() = default;
  /// All have come, and on each device it is its turn.
  virtual bool may_run() const = 0;
  virtual void run() = 0;
  virtual const std::vector<FakeStream*>& streams() const = 0;
};

struct FakeOp {
  std::function<void()> run;         // work
  std::shared_ptr<FakeEvent> event;  // recorded, or waited for
  std::uint64_t generation = 0;
  bool waits = false;
  std::shared_ptr<Meeting> meeting;
  const std::uint32_t* word = nullptr;  // that is to become `value`
  std::uint32_t value = 0;
};

/// The work that a stream was given while it was recorded.
struct FakeGraph {
  struct Node {
    std::vector<MemoryAccess> accesses;
    std::string name;
    std::function<void()> run;
  };
  std::vector<Node> nodes;
};

struct FakeStream {
  int device = 0;
  std::size_t index = 0;  // on the device
  bool destroyed = false;
  Clock clock{};  // what is over before the next operation
  std::deque<FakeOp> queue;
  std::shared_ptr<FakeGraph> recording;
};

class FakeStreams {
 public:
  FakeStreams(int devices, std::uint64_t seed)
      : random_(seed), seen_(static_cast<std::size_t>(devices)) {}

  FakeStream* create(int device);
  bool destroy(FakeStream* stream);
  bool knows(const FakeStream* stream) const;
  std::shared_ptr<FakeEvent> create_event(int device);
  bool destroy_event(const FakeEvent* event);
  std::shared_ptr<FakeEvent> event(const FakeEvent* event) const;  // null: there is none

  /// The clock of the next operation of `stream`, which now counts it.
  const Clock& advance(FakeStream& stream);
  void record(FakeStream& stream, const std::shared_ptr<FakeEvent>& event);
  void wait(FakeStream& stream, const std::shared_ptr<FakeEvent>& event);
  void wait(FakeStream& stream, const std::uint32_t* word, std::uint32_t value);
  /// Whoever reads the word then knows what is over.
  void write(FakeStream& stream, std::uint32_t* word, std::uint32_t value);
  /// Null: there is none. A graph is known from `keep` to `destroy_graph`.
  std::shared_ptr<FakeGraph> graph(const FakeGraph* graph) const;
  FakeGraph* keep(std::shared_ptr<FakeGraph> graph);
  bool destroy_graph(const FakeGraph* graph);
  /// The host of the event's device has seen it.
  void see(const FakeEvent& event);
  const Clock& seen(int device) const { return seen_[static_cast<std::size_t>(device)]; }

  /// ns, the same for host and devices; it goes on when somebody looks, and while work runs.
  Time now() const { return now_; }
  void pass(Time elapsed) { now_ += elapsed; }
  /// The time of the clock of `device`, which is ahead of the host's and faster.
  Time device_time(int device) const;

  /// Runs some operation that may run, of any stream. False: there is none.
  bool step();
  /// Whether nothing is queued on any stream of `device`.
  bool idle(int device) const;
  std::size_t live() const;                                 // streams and events
  void drop(const Meeting* meeting, const FakeStream* of);  // it will never run there

 private:
  bool may_run(const FakeStream& stream) const;
  void work();  // takes time

  Random random_;
  std::atomic<Time> now_ = 0;  // other threads look at it
  int worked_ = 0;
  std::vector<std::unique_ptr<FakeStream>> streams_;
  std::vector<std::shared_ptr<FakeEvent>> events_;
  std::vector<std::shared_ptr<FakeGraph>> graphs_;
  std::vector<Clock> seen_;  // by device
};

}  // namespace tessera::test
