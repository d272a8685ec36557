// SPDX-License-Identifier: Apache-2.0
// Carries every rank of a cluster at once, in virtual time.
//
// The idea: all ranks run one program, so a clock is an array over ranks and an operation is a
// loop: compute adds a duration, a wait takes the elementwise maximum, a collective takes the
// maximum over each group and adds its cost. Exact for rings over equal links, at memory speed.
//
//   LockstepOptions options{.world_size = 64, .ranks_per_node = 8, .cost = cost.get()};
//   auto runtime = LockstepRuntime::create(options);
//   auto engine = fully_shard(*runtime, model, {...});
//   ...
//   Status status = runtime->finish();
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "tessera/checked_runtime.h"
#include "tessera/offload.h"
#include "tessera/sim/cost_model.h"
#include "tessera/sim/stack_profile.h"

namespace tessera {
class BlockIo;  // engine/swap/block_io.h: a test may give one that fails
}

namespace tessera::sim {

/// A rank whose kernels take `factor` times as long.
struct SlowRank {
  Rank rank = 0;
  double factor = 1;
};

/// A node whose links are slow: collectives of groups with ranks on it take `factor` times as long.
struct SlowLink {
  Index node = 0;
  double factor = 1;
};

/// What issuing takes the host; all 0: it is infinitely fast, and never blocked.
struct HostCosts {
  Time kernel_ns = 0;       // per kernel
  Time module_ns = 0;       // per computation, beside its kernels
  Time collective_ns = 0;   // per collective
  Time micro_batch_ns = 0;  // above 0: it waits for all streams before a forward phase, and then
                            // takes so long
  Time step_ns = 0;         // the same before the optimizer's phase
  Time pass_ns = 0;         // per forward phase, without a wait
  std::int64_t queue_launches = 0;  // of a stream that has not finished them, before the host is
                                    // blocked; 0: any number
};

struct LockstepOptions {
  Rank world_size = 1;
  Index ranks_per_node = 8;
  const CostModel* cost = nullptr;  // required; must outlive the runtime
  std::uint64_t seed = 0;
  double jitter = 0;  // kernels take 1 - jitter ... 1 + jitter of their time, uniformly
  std::vector<SlowRank> slow_ranks = {};
  std::vector<SlowLink> slow_links = {};
  Spread spread = {};       // drawn from the seed
  HostCosts host = {};      // of issuing operations
  double contention = 0;    // share of their speed that kernels lose beside communication, below 1
  bool one_thread = false;  // operations of a rank run one by one, in the order of submission
  Time between_ns = 0;      // one_thread: from the end of one to the next
  std::vector<PartTime> parts = {};      // of computations and copies, instead of what they cost
  Processor processor = Processor::cpu;  // that ranks are said to have
  std::optional<float> reads = {};       // what read() returns without numerics; none: it fails
  bool numerics = false;                 // keep real bytes per rank, run bodies, reduce for real
  Aio aio = {};                          // numerics: how files on NVMe are read and written
  std::function<std::unique_ptr<BlockIo>()> swap_io = {};  // of each; none: the system's
  Bytes memory_per_rank{};      // 0: unlimited. More is recorded as out_of_memory, once
  bool ends_when_full = false;  // more than that fails with out_of_memory
  StackProfile::Allocator allocator = StackProfile::Allocator::events;  // that reserves memory
  TraceSink* sink = nullptr;              // gets everything but `begin` and `unit`
  std::vector<Rank> recorded_ranks = {};  // ranks with spans and memory samples, ascending
  bool only_collectives = false;          // of operations, the sink hears of these alone
};

class LockstepRuntime : public CheckedRuntime {
 public:
  /// Fails: invalid_argument (sizes, a slow or recorded rank or a slow node that does not exist),
  /// naming it.
  static Result<std::unique_ptr<LockstepRuntime>> create(const LockstepOptions& options);
  /// Ends the last step and sends what is still buffered. Does not finish the sink.
  /// Fails: hazard, if the result of a collective was never used.
  Status finish() override = 0;
  /// What broke first when memory_per_rank was exceeded, or "".
  virtual const std::string& out_of_memory() const = 0;
  /// How often a caching allocator had to give back what it had cached.
  virtual std::int64_t cache_returns() const = 0;
  /// The most that a device had to give, by LockstepOptions::allocator; peak_reserved() is what the
  /// engine's own would take.
  virtual Bytes peak_device_memory() const = 0;
  /// Operations times ranks carried out so far.
  virtual std::int64_t op_ranks() const = 0;

  /// The program has made all calls of a step: whether they were those of the step before, one
  /// step later. Then `repeat_step` may take the program's place for good; its trace is the same,
  /// byte for byte. Never with numerics. Calls are kept from the first call of this function on.
  ///
  ///   for (int k = 0; k < steps; ++k) {
  ///     TESSERA_TRY(repeats ? runtime->repeat_step() : program.step());
  ///     repeats = repeats || runtime->step_repeats();
  ///   }
  ///
  /// REQUIRES: the program's next steps make the calls of its last ones.
  virtual bool step_repeats() = 0;
  /// Carries out the calls of the last step as those of the next one, without checks, which would
  /// say what they have said. From then on only this and `finish` may be called.
  /// REQUIRES: step_repeats() was true. Fails: out_of_memory, with ends_when_full.
  virtual Status repeat_step() = 0;

 protected:
  using CheckedRuntime::CheckedRuntime;
};

}  // namespace tessera::sim
