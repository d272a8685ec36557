// SPDX-License-Identifier: Apache-2.0
// FSDP2: per-parameter dim-0 sharding, one coalesced all_gather and one reduce_scatter per unit.
//
// The idea: no record_stream and no limiter that stops the host. A buffer is released after an
// event that its consumers are known to follow, so memory reuse is decided by order alone.
//
//   FullyShardOptions options{.param_dtype = DType::bfloat16, .reduce_dtype = DType::float32};
//   TESSERA_ASSIGN(auto engine, fully_shard(runtime, model, options));
//
// Behaviour: torch.distributed.fsdp.fully_shard (FSDPParamGroup, FSDPState).
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tessera/engine.h"
#include "tessera/wrap.h"

namespace tessera {

struct Recording;

enum class ReshardAfterForward : std::uint8_t {
  automatic,  // all units but the root (torch's None)
  always,     // torch's True
  never,      // torch's False
  to_group,   // torch's int: keeps shards of a smaller group, whose gathers are cheaper
};

struct FullyShardOptions {
  /// Paths of the modules that become units; so does the root, unless it is left plain. Empty: the
  /// model's blocks.
  std::vector<std::string> units = {};
  /// Instead of `units`: a wrap plan, with overrides per unit and ignored parameters, which stay
  /// whole on every rank and are not reduced.
  std::optional<WrapPlan> plan = {};
  /// The model's root is no unit, as where torch's fully_shard is called on parts of a model alone:
  /// each unit that lies in no other is a root, with streams and an order of its own, and
  /// parameters outside of units stay whole on every rank and are not reduced.
  bool plain_root = false;
  ReshardAfterForward reshard_after_forward = ReshardAfterForward::automatic;
  /// to_group: ranks of the smaller group, must divide the ranks that shard together.
  Index reshard_group = 0;
  /// Hybrid sharding: consecutive ranks that shard together, replicas between them; must divide
  /// the world. 0: all ranks shard together. (A 2-D mesh of world / shard_group x shard_group.)
  Index shard_group = 0;
  DType sharded_dtype = DType::float32;  // shards, their gradients and optimizer state
  DType param_dtype = DType::float32;    // gathered parameters and their gradients
  DType reduce_dtype = DType::float32;   // reduce_scatter
  /// Gradients are divided by this instead of the number of ranks (ncclRedOpCreatePreMulSum).
  std::optional<float> gradient_divide_factor = {};
  bool offload_params = false;  // shards, their gradients and the optimizer state in host memory
  /// Inputs of reduce_scatters that may be alive before the compute stream waits for the oldest.
  std::int32_t reduce_scatter_max_input_buffers = 1;
};

/// The controls of FSDPModule beyond those of every Engine. Modules must be units; unknown ones are
/// invalid_argument, by name.
class FullyShard : public virtual Engine {
 public:
  /// Gathers `targets` after `unit` has what it needs in forward / backward; an empty list means
  /// the default: nothing / the unit that ran before it.
  virtual Status set_modules_to_forward_prefetch(ModuleId unit,
                                                 const std::vector<ModuleId>& targets) = 0;
  virtual Status set_modules_to_backward_prefetch(ModuleId unit,
                                                  const std::vector<ModuleId>& targets) = 0;
  /// Issues the unit's all_gather early. Its pre_forward or pre_backward then waits for it.
  virtual Status unshard(ModuleId unit) = 0;
  /// Frees the gathered parameters of a unit that nothing uses until it is gathered again.
  virtual Status reshard(ModuleId unit) = 0;
  virtual Status set_reshard_after_forward(ModuleId unit, bool reshard) = 0;
  /// False keeps units gathered after backward, for the next micro-batch. `step` always reshards.
  virtual void set_reshard_after_backward(bool reshard) = 0;
  using TrainingPasses::set_requires_gradient_sync;
  /// Whether the following backward passes reduce the unit's gradients, and with `recurse` those of
  /// the units in it, if the engine's own flag allows it; false accumulates them unsharded. Taken
  /// once per backward pass, and `step` refuses what was not reduced.
  virtual Status set_requires_gradient_sync(ModuleId unit, bool sync, bool recurse = true) = 0;
  /// Hybrid sharding: false keeps reduce-scattered gradients to themselves until it is true again.
  virtual void set_requires_all_reduce(bool all_reduce) = 0;
  /// False: `end_backward` does not wait for reductions; another backward follows.
  virtual void set_is_last_backward(bool last) = 0;
};

/// Shards `model` over all ranks of `runtime` and allocates the shards. Both must outlive the
/// engine. Fails: invalid_argument (a unit that is no module, nested or repeated; a parameter
/// without dimensions; a group that does not divide), naming it; out_of_memory.
Result<std::unique_ptr<FullyShard>> fully_shard(Runtime& runtime, const Model& model,
                                                const FullyShardOptions& options);

/// A recording in the notation of PyTorch's FSDP2 stream operations: "[stream] OP ...", events
/// numbered by first appearance. For comparing line by line with recorded runs.
std::vector<std::string> to_fsdp_notation(const Recording& recording);

}  // namespace tessera
