// SPDX-License-Identifier: Apache-2.0
// The base of every runtime, and of one of your own: it checks, places and counts; you carry out.
//
// The idea: the functions that an engine calls are final here. They check a call, place buffers and
// keep the accounts of memory, and only then call the hooks below, which are all that a backend has
// to write. So no backend can forget a check, and all of them agree on what is legal and on where
// buffers lie. Checks are done for the whole world, also where one rank is local: every process
// finds the same ids, offsets and faults without asking the others.
//
//   class MyRuntime final : public CheckedRuntime {
//    public:
//     explicit MyRuntime(Rank n) : CheckedRuntime(RankSet::all(n), RankSet::all(n)) {}
//     Result<PerRank<float>> read(const View& scalar) override;
//     PerRank<Time> now() const override { return PerRank<Time>(0); }
//
//    private:
//     Status buffer_placed(BufferId id, const Allocation& request, const RankSet& ranks,
//                          const Placement& placement) override;   // remember where it lies
//     Status execute(const Op& op, EventId event) override;        // std::visit(..., op.what)
//   };
//
// examples/own_runtime/ is such a runtime, complete, in one file. What carries out copies, bodies
// and reductions in memory that the host can reach is in tessera/reachable_memory.h and
// tessera/number_arrays.h; tessera/runtime_trace.h records what happened.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tessera/memory_class.h"
#include "tessera/runtime.h"
#include "tessera/trace.h"

namespace tessera {

class CallListener;

class CheckedRuntime : public Runtime {
 public:
  struct Stream {
    std::string name;
    StreamRole role = StreamRole::compute;
  };
  struct Communicator {
    std::string name;
    RankGroups groups;
  };
  struct Buffer {
    std::string name;
    Bytes bytes{};
    Memory memory = Memory::device;
    MemoryClass memory_class = MemoryClass::temporary;
  };
  /// The holders of a rank's device memory.
  struct MemoryUse {
    Bytes allocated{};
    Bytes reserved{};  // up to the highest address so far
    std::array<Bytes, memory_class_count> by_class{};
  };
  /// A buffer's place on some ranks: at `offset` of the range of its kind of memory. Buffers
  /// that lie at the same bytes are never in use at the same time; what is in new ones is
  /// undefined.
  struct Placement {
    Bytes offset{};
    const MemoryUse& device;  // of these ranks, with this buffer
  };

  /// A piece of a rank's device memory up to `reserved`.
  struct MemoryPiece {
    Bytes offset{}, bytes{};
    BufferId buffer;      // not valid: it is free
    bool usable = false;  // by the stream that was asked for, if it is free
  };

  ~CheckedRuntime() override;
  CheckedRuntime(const CheckedRuntime&) = delete;
  CheckedRuntime& operator=(const CheckedRuntime&) = delete;

  const RankSet& world() const final;
  const RankSet& local_ranks() const final;
  Result<StreamId> create_stream(std::string_view name, StreamRole role) final;
  Result<CommunicatorId> create_communicator(const RankGroups& groups, std::string_view name) final;
  Result<BufferId> allocate(const Allocation& request) final;
  Status release(BufferId buffer, EventId after, const RankSet& where) final;
  Result<EventId> submit(const Op& op) final;
  Status wait(EventId event) final;
  EventId quiet() const final;

  /// Stops the host until everything that was submitted so far is done, bodies included: what they
  /// wrote in the program's own variables is there. Other calls return at once, so a loop that
  /// looks at its loss calls this, or `mean`, before; and an engine that ends between it and the
  /// next call gives its memory back to the runtime.
  ///
  ///   TESSERA_TRY(run_training_step(*engine, model, options));
  ///   TESSERA_TRY(runtime->wait());
  ///   std::cout << "step " << step << " loss " << loss << '\n';
  Status wait();

  /// The mean of one value per rank of the world, the same on all of them: waits as `wait` does,
  /// then asks for the value of each local rank. All ranks call it, at the same place.
  ///
  ///   TESSERA_ASSIGN(const double loss, runtime->mean([&](Rank) { return own_loss; }));
  ///
  /// Fails: not_supported, where a runtime keeps no numbers.
  Result<double> mean(const std::function<float(Rank)>& value);

  /// Lets work make progress, for bodies that compute for milliseconds. The base does nothing.
  virtual Status poll() { return {}; }

  /// Ends the run; call it once. The base ends the last step and checks that nothing is left over:
  /// a backend that waits for its work first calls the base's afterwards.
  /// Fails: hazard, if the result of a collective was never used, naming the first.
  virtual Status finish();

  /// The most bytes of device memory, as placed, that any local rank has needed so far.
  Bytes peak_reserved() const;

 protected:
  CheckedRuntime(RankSet world, RankSet local_ranks);

  /// `listener` hears of all calls. Call this before the first one; the listener must live on.
  void set_listener(CallListener& listener);
  /// Buffers get no places: offsets are 0, `reserved` is what is allocated, and nobody checks what
  /// lay at the same bytes before. For a backend with an allocator of its own. Call this before
  /// the first buffer.
  void leave_out_places();

  // The hooks, in the order in which a program reaches them. A failure is returned by the call that
  // led here; after it the runtime is fit only for being destroyed.

  /// `id` counts from 0.
  virtual Status stream_created(StreamId id, const Stream& stream);
  /// `id` counts from 0.
  virtual Status communicator_created(CommunicatorId id, const Communicator& communicator);
  /// Once for each buffer, before it lies anywhere. `id` counts from 0.
  virtual Status buffer_requested(BufferId id, const Allocation& request);
  /// Once for each set of ranks that have behaved alike so far: these may give a buffer different
  /// places. Fails: out_of_memory.
  virtual Status buffer_placed(BufferId id, const Allocation& request, const RankSet& ranks,
                               const Placement& placement);
  /// Nothing that is submitted from now on uses the buffer on `ranks`; what was submitted before
  /// may still run until `after` (none: it does not).
  virtual void buffer_released(BufferId id, EventId after, const RankSet& ranks);
  /// Carries out `op` on the local ranks of `op.where`, or queues it behind what its stream and
  /// `op.after` wait for; `event` happens when it is done. Called for every operation of the world,
  /// so a rank that is not in `where` sees the same ids. `op.after` is valid during the call.
  virtual Status execute(const Op& op, EventId event) = 0;
  /// Stops the host until `event` has happened. The base does nothing, which is right where
  /// everything is done when `execute` returns.
  virtual Status await_event(EventId event);

  /// What `read` may read: the first element of a view. Fails: invalid_argument, if no such buffer
  /// is there, or the view is empty or not inside of it.
  Status check_scalar(const View& scalar) const;
  const Stream& stream(StreamId id) const;
  const Communicator& communicator(CommunicatorId id) const;
  /// REQUIRES: some rank has it, or has released it a moment ago.
  const Buffer& buffer(BufferId id) const;
  /// Its place on `rank`. REQUIRES: the rank has it.
  Bytes offset_of(BufferId id, Rank rank) const;
  /// All pieces of its device memory, by offset; `stream` has a buffer there. None without places.
  std::vector<MemoryPiece> device_memory(Rank rank, StreamId stream) const;
  /// The index of `rank` in its group, which the steps of views are multiplied by; 0 without a
  /// communicator.
  Index index_in(CommunicatorId id, Rank rank) const;
  /// The device memory that all ranks have used since the last call; only without a
  /// listener, which gets it.
  std::vector<PeakMemory> take_peaks(std::int32_t step);
  /// Events with smaller ids are over for every stream of every rank: they may be forgotten.
  EventId first_live_event() const;
  /// What `first_live_event` becomes when all that may be forgotten is, which is done now and then;
  /// none: some of it is too old to be known.
  EventId over_before() const;
  /// Whether that is done when `event` is recorded.
  static constexpr bool forgets_after(EventId event) { return event.value % 64 == 63; }
  /// Whether the next operation of `stream` on `rank` is known, from recorded waits, to run after
  /// `event`.
  bool runs_after(StreamId stream, EventId event, Rank rank) const;

 private:
  struct State;

  void enter_step(std::int32_t step);
  Status place(BufferId id, const Allocation& request);
  Result<EventId> after_everything(StreamId stream, const RankSet& where);

  const std::unique_ptr<State> state_;
};

/// Hears of every call that a CheckedRuntime has found legal, before it is carried out.
class CallListener {
 public:
  virtual ~CallListener() = default;

  virtual void stream_created(StreamId id, const CheckedRuntime::Stream& stream) = 0;
  virtual void communicator_created(CommunicatorId id,
                                    const CheckedRuntime::Communicator& communicator) = 0;
  virtual void buffer_requested(BufferId id, const Allocation& request) = 0;
  virtual void buffer_placed(BufferId id, const Allocation& request, const RankSet& ranks,
                             Bytes offset) = 0;
  virtual void buffer_released(BufferId id, const CheckedRuntime::Buffer& buffer, EventId after,
                               const RankSet& ranks) = 0;
  /// Events before `first_live` are over for every stream of every rank.
  virtual void op_submitted(const Op& op, EventId event, EventId first_live) = 0;
  virtual void event_awaited(EventId event) = 0;
  /// All calls of `step` were heard; `peaks` is the device memory that they used.
  virtual void step_ended(std::int32_t step, std::vector<PeakMemory> peaks) = 0;
  virtual void run_ended() = 0;
};

}  // namespace tessera
