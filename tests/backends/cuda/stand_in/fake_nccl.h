// SPDX-License-Identifier: Apache-2.0
// NCCL between fake devices: collectives run when all members' streams have come to them. What the
// real one answers with a hang or with wrong numbers is reported here.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "engine/backends/cuda/nccl_api.h"
#include "tests/backends/cuda/stand_in/fake_streams.h"
#include "tests/backends/cuda/stand_in/fake_windows.h"

namespace tessera::test {

enum class CollectiveKind { all_gather, reduce_scatter, all_reduce, reduce, broadcast, exchange };
const char* name_of(CollectiveKind kind);

/// The call of one rank.
struct CollectiveCall {
  CollectiveKind kind = CollectiveKind::all_gather;
  const std::byte* in = nullptr;
  std::byte* out = nullptr;
  std::size_t count = 0;
  NcclType type = NcclType::float32;
  NcclOp op = NcclOp::sum;
  float factor = 1;  // of the operator
  int root = 0;
  FakeStream* stream = nullptr;
  std::string places;  // in windows
  struct Message {
    std::byte* at = nullptr;
    std::size_t bytes = 0;
  };
  std::map<int, Message> sends, receives;  // exchange: by peer
};

class FakeCollective;

struct FakeGroup {
  int size = 0;  // 0: not known yet
  int arrived = 0;
  int closed = 0;  // finalized
  int error = 0;
  std::string name;
  std::set<int> devices;  // of a world's ranks
  FakeRegistrations registrations;
  std::vector<std::shared_ptr<FakeCollective>> collectives;
  std::map<std::pair<int, int>, std::shared_ptr<FakeGroup>> split;  // by number and color
  std::map<int, int> split_by;                                      // by number: how many have come
  bool complete() const { return size != 0 && arrived == size; }
};

struct FakeComm {
  std::shared_ptr<FakeGroup> group;
  int index = 0;
  int device = 0;
  std::size_t started = 0;  // collectives
  int splits = 0;
  int closing = 0;  // finalized
  int busy = 0;     // looks until the last split or registration is over
  /// A collective that NCCL's thread still enqueues, and for how many calls of this rank.
  struct Launching {
    std::function<int()> enqueue;
    int calls = 0;
  };
  std::optional<Launching> launching;
  // Handles that NCCL's thread fills in when that call is over.
  std::vector<std::pair<NcclComm*, FakeComm*>> splitting;
  std::vector<std::pair<NcclWindow*, int>> registering;
  int error = 0;  // of this rank alone
  std::map<int, float> operators;
  FakeWindows windows;
};

/// Collectives of one group, met by all its members.
class FakeCollective final : public Meeting {
 public:
  /// `group` has it, and lives as long as the NCCL that runs it.
  FakeCollective(const FakeGroup& group, std::vector<std::deque<const Meeting*>>& order)
      : group_(group), order_(order), calls_(static_cast<std::size_t>(group.size)) {}

  /// "" or how it differs from what the others asked for.
  std::string join(int index, const CollectiveCall& call);
  /// A member takes no part any more.
  void leave() { dead_ = true; }
  bool may_run() const override;
  void run() override;
  const std::vector<FakeStream*>& streams() const override { return streams_; }

 private:
  const FakeGroup& group_;
  std::vector<std::deque<const Meeting*>>& order_;  // by device: NCCL's kernels in their order
  std::vector<CollectiveCall> calls_;               // by index
  std::vector<FakeStream*> streams_;                // of those that have come
  bool dead_ = false;
};

class FakeNccl {
 public:
  FakeNccl(int devices, std::uint64_t seed)
      : random_(seed), order_(static_cast<std::size_t>(devices)) {}

  std::string unique_id() { return "world " + std::to_string(++ids_); }
  /// Null: another rank has this device, which NCCL refuses.
  FakeComm* init(const std::string& id, int ranks, int rank, int device);
  /// Fills in `handle` when a later look at `parent` finds it ready.
  void split(FakeComm& parent, int color, int key, int device, NcclComm* handle);
  bool knows(const FakeComm* comm) const;
  /// NCCL's state of it: success, in progress or an error. Each look brings its calls on.
  int state(FakeComm& comm);
  /// Whether another call may be made of it (ncclCommEnsureReady).
  bool ready(const FakeComm& comm) const;
  /// Takes a collective whose `enqueue` NCCL's thread calls after so many calls of its rank.
  void launch(FakeComm& comm, int calls, std::function<int()> enqueue);
  /// NCCL's threads of a device go on, whether anybody looks at their communicators or not.
  void work(int device);
  bool is_launching(int device) const;
  void finalize(FakeComm& comm);
  void destroy(FakeComm* comm, FakeStreams& streams);
  NcclOp create_operator(FakeComm& comm, float factor);
  bool destroy_operator(FakeComm& comm, NcclOp op);

  /// The meeting that `call` belongs to. `problem`: what is wrong with it.
  std::shared_ptr<Meeting> submit(FakeComm& comm, const CollectiveCall& call, std::string& problem);
  std::size_t live() const { return comms_.size(); }
  /// Memory of a device that a communicator there knows.
  bool in_window(const void* at, std::size_t bytes, int device) const;

  // Sends and receives between group_start and group_end, by rank.
  struct Batch {
    int depth = 0;
    int failed = 0;  // of a call inside
    std::map<FakeComm*, CollectiveCall> calls;
  };
  Batch& batch(int rank) { return batches_[rank]; }
  /// For how many calls of its rank NCCL's thread enqueues the next collective.
  int delay() { return random_.chance(25) ? static_cast<int>(1 + random_.below(8)) : 0; }

 private:
  FakeComm* enter(const std::shared_ptr<FakeGroup>& group, int index, int device);

  Random random_;
  int ids_ = 0;
  std::map<std::string, std::shared_ptr<FakeGroup>> worlds_;  // by unique id
  std::vector<std::unique_ptr<FakeComm>> comms_;
  std::vector<std::deque<const Meeting*>> order_;
  std::map<int, Batch> batches_;
};

}  // namespace tessera::test
