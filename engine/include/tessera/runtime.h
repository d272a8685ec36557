// SPDX-License-Identifier: Apache-2.0
// The interface between deciding and doing: the engine calls it; GPUs, CPU processes or a simulator
// of every rank carry it out.
//
// The idea: `where` says for which ranks a call holds. On a GPU one rank is local, so `where` is a
// yes or no; in a simulator all are, so `where` is a mask. Handles mean the same on every
// rank: ids advance even where `where` excludes one. Every call returns at once, except `wait` and
// `read`.
//
//   TESSERA_ASSIGN(StreamId compute, runtime.create_stream("default", StreamRole::compute));
//   TESSERA_ASSIGN(BufferId out, runtime.allocate({.bytes = Bytes{160}, .stream = compute, ...}));
//   TESSERA_ASSIGN(EventId done, runtime.submit(op));
//   TESSERA_TRY(runtime.release(out, done, everyone));
//
// What every runtime checks, in one place (tessera/checked_runtime.h, a base for your own, too):
// collectives over whole groups with agreeing dtype and numel, events recorded before they are
// waited for, no use after release, and a happens-before check of every buffer access. A violation
// is `hazard` or `divergent`, names op, unit and rank, and leaves the runtime fit only for being
// destroyed.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/op.h"
#include "tessera/per_rank.h"
#include "tessera/rank_set.h"
#include "tessera/status.h"
#include "tessera/types.h"

namespace tessera {

struct Model;

/// A request for memory. `stream` is the one that uses the buffer first: the block may have been
/// used before by others as long as that stream is known to run after them.
struct Allocation {
  Bytes bytes{};
  Memory memory = Memory::device;
  MemoryClass memory_class = MemoryClass::temporary;
  StreamId stream = {};
  RankSet where = {};
  Cause cause = {};
  std::string_view name = {};       // "model.layers.3.ag_out"; copied
  std::string_view directory = {};  // Memory::nvme: the folder of its file, where numbers are real
};

class Runtime {
 public:
  virtual ~Runtime() = default;

  /// All ranks of the run. An operation holds for some of them.
  virtual const RankSet& world() const = 0;

  /// The ranks whose work happens here: one on a GPU, all of them in a simulator.
  virtual const RankSet& local_ranks() const = 0;

  /// The processor of bodies, which decides how much memory they need.
  virtual Processor processor() const { return Processor::cpu; }

  /// A runtime has at most 16 streams. One that an engine gave back (hold) is handed out again to
  /// who asks for its name and role; beyond 16, streams with the same name and role are shared,
  /// which is only more order than was asked for. Fails: invalid_argument, if none is like it.
  virtual Result<StreamId> create_stream(std::string_view name, StreamRole role) = 0;

  /// One id for all groups of a mesh axis. Collectives of one communicator run one after another.
  virtual Result<CommunicatorId> create_communicator(const RankGroups& groups,
                                                     std::string_view name) = 0;

  /// Its content is undefined. Fails: out_of_memory, naming the first rank without room, the
  /// request and what holds the memory.
  virtual Result<BufferId> allocate(const Allocation& request) = 0;

  /// Gives the buffer back once `after` has happened (none: nothing uses it any more). The block is
  /// handed to another stream only when that stream is known, from recorded waits, to run later.
  /// Fails: hazard, if an access is not ordered before `after`.
  virtual Status release(BufferId buffer, EventId after, const RankSet& where) = 0;

  /// Queues `op` on its stream. The event happens when the op is done.
  virtual Result<EventId> submit(const Op& op) = 0;

  /// Stops the host until `event` has happened on all local ranks.
  virtual Status wait(EventId event) = 0;

  /// The value of a one-element view on every rank of the world, the same answer everywhere, after
  /// everything submitted so far.
  /// Stops the host. The engine may branch only on the result's `uniform()`.
  /// Fails: not_supported, where a runtime keeps no numbers.
  virtual Result<PerRank<float>> read(const View& scalar) = 0;

  /// The host's time on every local rank.
  virtual PerRank<Time> now() const = 0;

  /// A copy of `name` that lives as long as the runtime, one for all equal names: for causes, when
  /// what they name is made anew while training runs (buckets, an owner's shard).
  std::string_view keep_name(std::string name);

  /// While what it returns lives, the model is driven: engines hold it, so that a second one on the
  /// same model can be refused.
  std::shared_ptr<const void> drive(const Model& model);
  bool is_driven(const Model& model) const;

  /// While what it returns lives, the stream is in use by its holder. Engines hold their streams,
  /// so that those of one that has ended are used again. A stream that was never held is in use for
  /// ever.
  std::shared_ptr<const void> hold(StreamId stream);
  /// The event after all that was submitted, if the program has waited for it and the run goes on:
  /// an engine that ends now gives its memory back. None otherwise.
  virtual EventId quiet() const { return {}; }
  /// Expires with the runtime.
  std::weak_ptr<const void> lifetime() const { return life_; }

 protected:
  /// Those who hold `stream` now; none: it was never held.
  std::optional<std::size_t> holders_of(StreamId stream) const;

 private:
  std::set<std::string> names_;
  std::multimap<const Model*, std::weak_ptr<const void>> drivers_;
  std::map<StreamId, std::vector<std::weak_ptr<const void>>> holders_;
  const std::shared_ptr<const void> life_ = std::make_shared<char>();
};

}  // namespace tessera
