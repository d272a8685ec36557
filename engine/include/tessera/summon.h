// SPDX-License-Identifier: Apache-2.0
// Full parameters between two steps, to read them, to change them, to save them.
//
// The idea: the gathered parameters are a copy, and only `commit` changes a shard. So code that
// fails half-way leaves the model as it was. One unit at a time takes the memory of one unit.
//
//   TESSERA_ASSIGN(auto full, summon_full_params(*engine, {.rank0_only = true}));
//   TESSERA_TRY(full->modify(weight, [](Rank, std::span<float> w) { w[0] = 0; }));
//   TESSERA_TRY(full->commit());  // rank 0's values become everybody's
//   TESSERA_TRY(full->close());
//
//   for_each_unit(*engine, {.writeback = false}, [&](const std::string& unit, FullParams& full) {
//     ... read, perhaps commit; closing is done here ...
//   });
//
// It works with every Engine of this library; where nothing is sharded nothing is communicated.
// Values have the dtype of the shards, not that of forward. Everything runs on the compute stream,
// after all that was submitted before, with Reason::summon. A unit that a scheme left unsharded
// needs no all_gather, and stays unsharded. Gathered memory is that of the padded shards of a whole
// group, and nothing of it is left after `close`. Ignored parameters belong to no unit: they
// are whole on every rank and are not summoned.
//
// Behaviour: torch.distributed.fsdp FullyShardedDataParallel.summon_full_params, without its gaps:
// rank0_only may write back, and gradients and offloading go with everything.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tessera/engine.h"

namespace tessera {

struct SummonOptions {
  std::string root = {};        // path of a module: the units at it and below. "": the whole model
  bool recurse = true;          // false: only the unit of `root`, which must be one
  bool writeback = true;        // false: a read-only guard, `modify` and `commit` are refused
  bool rank0_only = false;      // other ranks take part in gathering and keep nothing
  bool offload_to_cpu = false;  // in host memory, off the device as soon as a unit is gathered
  bool with_grads = false;      // the reduced gradients too, until the optimizer has used them
};

/// Summoned parameters. While they are open the engine refuses to train, to step and to summon one
/// of their units again; other units may be summoned. The destructor closes them. The engine must
/// outlive them.
class FullParams {
 public:
  using Read = std::function<void(Rank, std::span<const float>)>;
  using Modify = std::function<void(Rank, std::span<float>)>;

  virtual ~FullParams() = default;

  /// The parameters that were summoned, in the order of units.
  virtual const std::vector<ParameterId>& parameters() const = 0;
  /// One sentence for each option that is legal but costs more than it needs to.
  virtual const std::vector<std::string>& warnings() const = 0;

  /// Calls `body` with all elements of `parameter` on every rank that holds it; it has run when
  /// this returns. Where a runtime keeps no numbers it is not called. Fails: invalid_argument (a
  /// parameter that was not summoned; after `close`; modify without writeback; a gradient without
  /// with_grads, or that does not exist now), naming it.
  virtual Status read(ParameterId parameter, const Read& body) = 0;
  virtual Status modify(ParameterId parameter, const Modify& body) = 0;
  virtual Status read_gradient(ParameterId parameter, const Read& body) = 0;
  virtual Status modify_gradient(ParameterId parameter, const Modify& body) = 0;

  /// Every rank's shards become their part of the rank's own full values, with gradients too if
  /// summoned. With rank0_only it is their part of rank 0's, broadcast unit by unit through a
  /// buffer of one unit. Units that are left unsharded are gathered anew.
  /// Fails: invalid_argument (no writeback; after `close`); out_of_memory: the units before the one
  /// that failed are written, and commit may be tried again.
  virtual Status commit() = 0;

  /// Frees what was gathered, last unit first. What was not committed is gone.
  /// Fails: invalid_argument, if it is closed already.
  virtual Status close() = 0;
};

/// Waits for the device, then gathers the units in pre-order, all at once.
/// Fails: invalid_argument (in forward or backward, a unit that is summoned, no such module, a
/// module without a unit), naming unit and state; not_supported (an Engine from elsewhere);
/// out_of_memory. Nothing is left summoned then.
Result<std::unique_ptr<FullParams>> summon_full_params(Engine& engine,
                                                       const SummonOptions& options = {});

/// Summons one unit after another: `visit` gets each unit's name and its parameters. Stops at the
/// first failure and returns it; what earlier visits committed stays committed.
Status for_each_unit(Engine& engine, const SummonOptions& options,
                     const std::function<Status(const std::string& unit, FullParams&)>& visit);

}  // namespace tessera
