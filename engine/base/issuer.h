// SPDX-License-Identifier: Apache-2.0
// Issues the operations of an engine, each with its cause and for the ranks that it concerns.
//
// The idea: a scheme, its units and its buckets decide what happens; what all operations have in
// common (runtime, ranks, step and phase, the youngest computation) is known here once. An engine
// owns the issuer, and whatever acts for the engine borrows it.
//
//   TESSERA_TRY(issuer.wait_stream(all_gather, issuer.compute_stream(), why));
//   TESSERA_ASSIGN(const EventId done, issuer.submit(all_gather, why, AllGather{group, own,
//   full})); return issuer.release(own.buffer, done);
#pragma once

#include <functional>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/param_shard.h"
#include "engine/values/id_table.h"
#include "tessera/model.h"
#include "tessera/runtime.h"

namespace tessera {

class Issuer {
 public:
  /// Issues for `ranks` alone. While it lives, `model` counts as driven on `runtime`.
  Issuer(Runtime& runtime, const Model& model, const RankSet& ranks);
  Issuer(const Issuer&) = delete;
  Issuer& operator=(const Issuer&) = delete;
  /// Gives streams back, and memory, if the runtime is quiet.
  ~Issuer();

  /// Two engines on one model would both believe that the parameters are theirs.
  /// Fails: invalid_argument, if one drives `model` on `runtime`.
  static Status expect_not_driven(const Runtime& runtime, const Model& model);

  Runtime& runtime() const { return runtime_; }
  const Model& model() const { return model_; }
  const RankSet& everyone() const { return everyone_; }
  /// Those that have inputs.
  const RankSet& active() const { return active_; }
  StreamId compute_stream() const { return compute_; }
  /// Where the CPU steps what lives in host memory; none: in the order of the compute stream.
  StreamId host_stream() const { return host_; }
  /// The compute stream's youngest event that all active ranks have.
  EventId last_compute() const { return last_compute_; }

  /// As Runtime::create_stream; the engine's for as long as it lives.
  Result<StreamId> create_stream(std::string_view name, StreamRole role);

  Cause cause(std::string_view unit, Reason reason) const;
  /// Why an operation exists that one parameter or module of a unit asks for.
  Cause cause(std::string_view unit, std::string_view module, Reason reason) const;
  /// From here on causes name `phase`, whose beginning is marked on the compute stream.
  Status begin_phase(Phase phase);
  /// The optimizer has stepped, or has skipped a step.
  void end_step();

  /// Copies and computations hold for the active ranks, the rest for everyone.
  Result<EventId> submit(StreamId stream, const Cause& cause, decltype(Op::what) what,
                         std::span<const EventId> after = {});
  Result<EventId> submit_on(const RankSet& ranks, StreamId stream, const Cause& cause,
                            decltype(Op::what) what, std::span<const EventId> after = {});
  Result<EventId> mark(const Cause& cause, Mark::Kind kind, StreamId stream);
  Status wait_stream(StreamId waiting, StreamId other, const Cause& cause);
  Status wait_event(StreamId waiting, EventId event, const Cause& cause);

  /// Activations and unsharded gradients are for the active ranks, the rest for everyone.
  Result<BufferId> allocate(const std::string& name, Bytes bytes, MemoryClass memory_class,
                            StreamId stream, const Cause& cause, Memory memory = Memory::device);
  Result<BufferId> allocate_on(const RankSet& ranks, const std::string& name, Bytes bytes,
                               MemoryClass memory_class, const Cause& cause,
                               Memory memory = Memory::device);
  /// What was allocated for `where` is the engine's, until it is released.
  Result<BufferId> allocated(Result<BufferId> buffer, const RankSet& where);
  /// Gives the buffer back on the ranks that have it, and clears `buffer`.
  Status release(BufferId& buffer, EventId after);
  Status release_on(const RankSet& ranks, BufferId& buffer, EventId after);

  /// One float32 that the host may read, which needs it on all ranks of the world: 0 where the
  /// engine is not.
  Result<BufferId> allocate_answer(const std::string& name, const Cause& cause);

  /// Bodies add to gradients, so the first one to write finds zeros: whether that is this one.
  bool first_write(const View& gradient);

  using ShardWork = std::function<Compute(const std::vector<ParamShard*>&)>;
  /// One op for all ranks that step the same, which is one for everyone unless ParamShard::where
  /// says otherwise; none if it touches nothing. The CPU does it if all of it lives in host memory.
  /// `ranks` are everyone here. Returns the event after all.
  Result<EventId> submit_by_shard(const RankSet& ranks, const Cause& cause,
                                  const std::vector<ParamShard*>& shards, const ShardWork& work);
  /// The same without the waits: between enter_host and leave_host, so that what the CPU does and
  /// what the device does may overlap.
  Result<EventId> issue_by_shard(const RankSet& ranks, const Cause& cause,
                                 const std::vector<ParamShard*>& shards, const ShardWork& work);
  /// The CPU's stream follows the compute stream, and the other way round. Nothing without one.
  Status enter_host(const Cause& cause);
  Status leave_host(const Cause& cause);

 protected:
  Runtime& runtime_;
  const Model& model_;
  const RankSet everyone_;
  RankSet active_;
  StreamId compute_;
  StreamId host_;
  std::int32_t step_ = 0;
  std::int32_t micro_batch_ = 0;

 private:
  struct Own {
    RankSet some;  // that have it; empty: everyone
    void clear() { some = {}; }
  };

  void forget(BufferId buffer, const RankSet& ranks);
  void forget_writes(BufferId buffer);

  Phase phase_ = Phase::init;
  EventId last_compute_;
  const std::shared_ptr<const void> drives_;  // what the runtime knows the engine by
  const std::weak_ptr<const void> runtime_lives_;
  std::vector<std::shared_ptr<const void>> held_;  // what the runtime knows the streams by
  IdTable<BufferId, Own> buffers_;                 // that are not released
  std::set<std::pair<BufferId, Numel>> written_;   // where gradients begin that have been written
};

}  // namespace tessera
