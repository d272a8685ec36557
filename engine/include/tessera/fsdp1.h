// SPDX-License-Identifier: Apache-2.0
// FSDP1: one flat parameter per unit, gathered without copies, with the strategies of
// FullyShardedDataParallel and the order in which PyTorch issues its operations.
//
// The idea: a compatibility schedule, to reproduce, study and compare. It frees what another stream
// still uses under record_stream and holds the host back (limit_all_gathers); fully_shard needs
// neither. One wait is ours, for a bound on memory that PyTorch leaves to luck (torch_order).
//
//   Fsdp1Options options{.strategy = ShardingStrategy::shard_grad_op};
//   TESSERA_ASSIGN(auto engine, fsdp1(runtime, model, options));
//
// Behaviour: torch.distributed.fsdp._runtime_utils, _flat_param, and their forerunner in 1.13.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tessera/engine.h"
#include "tessera/wrap.h"

namespace tessera {

struct Recording;

/// The kinds of state that are sharded, and the ranks that share them.
enum class ShardingStrategy : std::uint8_t {
  full_shard,          // parameters, gradients, optimizer state; gathered again in backward
  shard_grad_op,       // the same, but parameters stay gathered from forward to backward
  no_shard,            // nothing: gradients are all-reduced
  hybrid_shard,        // full_shard inside groups of ranks, replicas between them
  hybrid_shard_zero2,  // shard_grad_op inside groups
};

enum class BackwardPrefetch : std::uint8_t {
  none,
  pre,   // gathers the next unit before this unit's backward: most overlap, most memory
  post,  // after it
};

struct Fsdp1Options {
  /// Paths of the modules that become units; the root always is one. Empty: the model's blocks.
  std::vector<std::string> units = {};
  /// Instead of `units`: a wrap plan, with overrides per unit and ignored parameters, which stay
  /// whole on every rank and are not reduced.
  std::optional<WrapPlan> plan = {};
  ShardingStrategy strategy = ShardingStrategy::full_shard;
  /// Hybrid strategies: consecutive ranks that shard together; must divide the world.
  Index shard_group = 0;
  BackwardPrefetch backward_prefetch = BackwardPrefetch::pre;
  bool forward_prefetch = false;  // from the second step on, in the order of the first
  bool limit_all_gathers = true;  // the host waits for the second last free before it gathers
  bool use_orig_params = false;   // aligns parameters to 16 bytes, frozen ones may be mixed in
  DType original_dtype = DType::float32;   // of shards, optimizer state
  std::optional<DType> param_dtype = {};   // forward and backward
  std::optional<DType> reduce_dtype = {};  // default: param_dtype
  bool keep_low_precision_grads = false;
  bool offload_params = false;  // shards, their gradients and the optimizer state in host memory
  /// As in PyTorch 1.13: forward prefetch from the root only.
  bool torch_1_13 = false;
  /// PyTorch's order, in which backward never waits for a reduction before its end: how many
  /// unsharded gradients are held then is left to when they happen to be reduced. Otherwise a unit
  /// is reduced only once compute waits for the reduction before it, as in fully_shard.
  bool torch_order = false;
};

/// torch._get_gradient_predivide_factor: before and after the reduction over `world_size` ranks.
/// predivide * postdivide == world_size; both near its root, so that neither over- nor underflows.
struct DivideFactors {
  float predivide = 1;
  float postdivide = 1;
};
DivideFactors divide_factors(Index world_size);

/// Shards `model` over all ranks of `runtime` and allocates the shards. Both must outlive the
/// engine. Fails: invalid_argument (units as in fully_shard; a hybrid strategy without a group that
/// divides the world; parameters of several dtypes or, without use_orig_params, frozen and trained
/// ones in one unit), naming unit and parameter; out_of_memory.
Result<std::unique_ptr<Engine>> fsdp1(Runtime& runtime, const Model& model,
                                      const Fsdp1Options& options);

/// A recording in the notation of runs recorded with PyTorch 1.13. `units` of the engine.
std::vector<std::string> to_fsdp1_notation(const Recording& recording,
                                           std::span<const UnitInfo> units);

}  // namespace tessera
