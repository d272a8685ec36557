// SPDX-License-Identifier: Apache-2.0
// Several GPUs and NCCL between them, in one process without either: what the backend is tested on.
//
// The idea: a call only queues; what was queued runs later, in an order that follows from a seed,
// when somebody looks. So whatever the backend did not order happens in the wrong order sooner or
// later, and a race check finds it even if it did not. Any call can be made to fail.
//
//   StandIn stand_in({.ranks = 2, .seed = 7});
//   CudaModule module = stand_in.module();
//   const auto statuses = stand_in.run([&](std::unique_ptr<CudaPeers> peers) { ... });
//   CHECK(stand_in.reports().empty());
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "engine/backends/cuda/cuda_module.h"
#include "engine/backends/cuda/peers.h"
#include "engine/backends/host/thread_transport.h"
#include "tests/backends/cuda/stand_in/calls.h"
#include "tests/backends/cuda/stand_in/fake_cufile.h"
#include "tests/backends/cuda/stand_in/fake_memory.h"
#include "tests/backends/cuda/stand_in/fake_nccl.h"
#include "tests/backends/cuda/stand_in/fake_streams.h"
#include "tests/backends/cuda/stand_in/turns.h"

namespace tessera::test {

struct StandInOptions {
  int ranks = 1;  // one device each
  std::size_t device_bytes = std::size_t{64} << 20;
  std::size_t taken_bytes = 0;  // of the last device, by somebody else
  std::uint64_t seed = 0;       // 0: everything runs at once
  std::optional<PlantedFault> fault;
  std::function<void(int rank, int use, CollectiveCall&)> tamper;  // with a collective
  bool deaf = false;                                               // nobody hears who gives up
  bool only_nccl = false;                                          // connects them, as torchrun's
  int driver_version = 13000;
  int devices_code = 0;  // of cudaGetDeviceCount
  int nccl_version = 22809;
  int capability = 90;  // of all devices: H200
  std::size_t cublas_version = 130100;
  int nccl_calls = 0;      // of its rank while NCCL's thread enqueues a collective; 0: by the seed
  bool cufile = true;      // is there
  std::string profiled;    // what NCCL's profiler says of every collective
  Time profiler_late = 0;  // ns, after which it tells of kernels
  int profiler_silent = none;  // on this rank it never does
  Time look = 1'000'000;       // ns that pass when somebody asks for the time
  // The first launch of each kernel waits until its device has nothing to do, and real time passes.
  bool loads_lazily = false;

  static constexpr int none = -1;
};

/// How long all kernels of a collective run on a rank, as the profiler says.
inline Time kernel_time(int rank) { return 700 - 10 * rank; }

class StandIn {
 public:
  explicit StandIn(StandInOptions options);
  ~StandIn();
  StandIn(const StandIn&) = delete;
  StandIn& operator=(const StandIn&) = delete;

  static CudaModule module();

  /// Runs `program` on every rank, one at a time; gives its status by rank.
  std::vector<Status> run(const std::function<Status(std::unique_ptr<CudaPeers>)>& program);
  /// ns; it goes on whenever somebody looks.
  Time now() { return streams_.pass(options_.look), streams_.now(); }

  /// Nobody looks, and nothing runs, for a while.
  void pass(Time elapsed) { streams_.pass(elapsed); }

  /// The faults of the calls so far: races, mismatches, memory that does not exist.
  const std::vector<std::string>& reports() const { return reports_; }
  /// The objects that were created and not destroyed.
  std::string leaks() const;
  /// How often a rank has called a function.
  int uses(Call call, int rank) const;

  /// How often a rank has recorded an event to wait for, not to time.
  int marks(int rank) const { return marks_[static_cast<std::size_t>(rank)]; }

  // For the tables.
  static StandIn& current();
  static thread_local int device;
  static thread_local KernelLoads before_loads;
  struct Verdict {
    int code = 0;  // of the call; 0: carry it out
    bool dropped = false;
  };
  Verdict enter(Call call);
  /// The code with which the communicator of this call is to fail later; or 0.
  int take_late_failure() { return std::exchange(late_failure_, 0); }
  int rank() const { return turns_.current(); }
  void report(std::string what);
  /// `stream` of this rank is being recorded; null: none is any more.
  void recording(FakeStream* stream) { recording_[static_cast<std::size_t>(rank())] = stream; }
  FakeStream* recording() const { return recording_[static_cast<std::size_t>(rank())]; }
  void count_record(bool timed) { marks_[static_cast<std::size_t>(rank())] += timed ? 0 : 1; }
  /// A collective that the profiler knows: its number.
  std::int64_t profile();
  bool next_kernel(NcclKernel& kernel);
  FakeMemory& memory() { return memory_; }
  FakeStreams& streams() { return streams_; }
  FakeNccl& nccl() { return nccl_; }
  FakeCufile& cufile() { return cufile_; }
  Turns& turns() { return turns_; }
  const StandInOptions& options() const { return options_; }
  /// Whether `stream` takes an entry of this thread. A queue holds a thousand; the call then blocks
  /// until the device has done one, and meanwhile this rank looks at nothing.
  int admit(FakeStream* stream);
  /// Checks accesses and queues `run`.
  int enqueue(FakeStream* stream, const std::vector<MemoryAccess>& accesses,
              const std::string& name, std::function<void()> run);
  int queue_meeting(FakeStream* stream, const std::vector<MemoryAccess>& accesses,
                    const std::string& name, std::shared_ptr<Meeting> meeting);
  void forget(const void* at, std::size_t bytes, int of_device);
  /// What CUDA does only when the device has nothing to do, and until then this rank looks at
  /// nothing: implicit synchronisation (CUDA C++ Programming Guide).
  int stand_still(const std::string& what);
  /// Runs some of what is queued; all of it with seed 0.
  void progress(int steps);

 private:
  friend class FakePeers;
  bool has_room(FakeStream& stream);
  bool load(const std::string& name);
  bool is_struck(const PlantedFault& fault, Call call, int use) const;
  void dawdle(Time elapsed);
  int check(FakeStream* stream, const std::vector<MemoryAccess>& accesses, const std::string& name);

  const StandInOptions options_;
  Turns turns_;
  Random random_;
  FakeMemory memory_;
  FakeStreams streams_;
  FakeNccl nccl_;
  FakeCufile cufile_;
  std::vector<RaceCheck> races_;  // by device
  std::map<std::size_t, std::pair<FakeStream*, std::uint64_t>> last_meeting_;
  std::vector<std::string> reports_;
  std::vector<std::map<Call, int>> uses_;  // by rank
  std::vector<int> marks_;                 // by rank
  struct ToldLater {
    Time when = 0;
    NcclKernel kernel;
  };
  std::vector<std::deque<ToldLater>> kernels_;  // by rank: what the profiler will say
  std::int64_t profiled_ = 0;
  std::set<std::pair<int, std::string>> loaded_;  // kernels, by device
  std::vector<FakeStream*> recording_;            // by rank
  ThreadWorld letters_;                           // between ranks, beside NCCL
  std::optional<std::vector<std::byte>> shared_;
  Status ended_;
  int late_failure_ = 0;
  std::map<int, int> broken_;  // devices, of which every call fails, and how
};

}  // namespace tessera::test
