// SPDX-License-Identifier: Apache-2.0
// ShardedDataParallel / owner rank: every rank keeps all parameters, but each parameter has one
// owner. Only the owner gets its averaged gradient, keeps its optimizer state and steps it; then it
// broadcasts the new values.
//
// The idea: ZeRO-2 without cutting parameters. Whole parameters are given away greedily, so nothing
// is padded; the price is that owners do not hold exactly the same amount.
//
//   ShardedDataParallelOptions options{.reduce_buffer_size = Numel{1 << 20}};
//   TESSERA_ASSIGN(auto engine, sharded_data_parallel(runtime, model, options));
//   engine->owner_of(parameter);                  // its place in the process group
//   { const NoSync local(*engine); ... }          // gradients of these backward passes add up
//
// Collectives have one order on all ranks, fixed before the first step: gradients are reduced in
// the order in which backward is expected to finish them, whatever a rank's own graph did. A
// parameter that got no gradient takes part with zeros.
//
// Owners. Parameters are given away once, when they join a param group: the owner stays when
// others join, are frozen or unfrozen, so optimizer state never moves and nobody loses any. What
// the groups of one optimizer (ParamGroup::optimizer) hold is given away evenly by itself;
// gradients and stepped values of different optimizers never share a collective, so
// `step_optimizer` steps one alone. A parameter that is in no group has no owner: its gradients are
// dropped.
//
// Process groups. The ranks of a group own all parameters together, and groups train on their own:
// the gradient is the mean over the group, an owner is a place in the group. For models whose parts
// lie on other ranks, `set_norm_group` says over which ranks a norm is one norm.
//
// To freeze or unfreeze, change `requires_grad` in the Model between a step and the next forward,
// which notices. Owners stay; the optimizer state of a frozen parameter stays with its owner.
//
// Behaviour: fairscale's ShardedDataParallel and OSS, without what is broken there: views of
// gradients survive zero_grad, no collective is empty, memory of gradients that others own is given
// back, and norms are those of the gradients that exist now.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "tessera/engine.h"

namespace tessera {

struct Recording;

struct ShardedDataParallelOptions {
  /// Elements of the largest bucket of an owner and dtype, exclusive; 0: every gradient alone.
  Numel reduce_buffer_size{std::int64_t{1} << 23};
  /// Gradients are cast to this for the reduction; their sums are added up in their own dtype.
  std::optional<DType> reduce_dtype = {};
  /// Stepped values are rounded to this for the broadcast, the owner's too, so that all ranks stay
  /// equal to the bit. They keep their dtype. Wider than theirs: no effect.
  std::optional<DType> broadcast_dtype = {};
  bool broadcast_buffers = true;       // rank 0's, at each forward whose gradients are reduced
  bool sync_models_at_startup = true;  // rank 0's parameters and buffers
  /// Consecutive ranks that own parameters together; 0: all.
  Index group_size = 0;
  /// Any other groups instead, equally large; ranks that are in none do nothing at all.
  std::optional<RankGroups> groups = {};
  /// The type of parameters, gradients and optimizer state; none: every parameter has its own.
  std::optional<DType> dtype = DType::float32;
};

class ShardedDataParallel : public virtual Engine {
 public:
  /// Its place in the process group; with one group of all ranks that is a rank. -1: nobody owns
  /// it, for it is in no param group.
  virtual Index owner_of(ParameterId parameter) const = 0;
  /// A number that grows whenever the above changes, for callers that remember it.
  virtual std::int32_t owners_version() const = 0;

  /// As `step`, of the groups of one optimizer. Gradients of the others stay and wait.
  /// Fails: invalid_argument, if no group has this optimizer.
  virtual Status step_optimizer(std::int32_t optimizer, const AdamOptions& options) = 0;
  /// The ranks over which `clip_grad_norm` adds up, instead of the process groups. What several
  /// ranks of a group own is counted for each. Fails: invalid_argument, unless every rank of the
  /// process groups is in one.
  virtual Status set_norm_group(const RankGroups& groups) = 0;
  /// `clip_grad_norm` counts the gradients of those for which `counts` is true, and scales all:
  /// where several ranks hold a copy of a parameter, one of them counts it. None: all.
  virtual void set_norm_filter(std::function<bool(ParameterId)> counts) = 0;

  /// Reduces what backward passes without synchronisation have added up.
  /// Fails: invalid_argument (in forward or backward; no gradient waits).
  virtual Status reduce() = 0;
  /// Drops all gradients, reduced or not; false keeps their memory and makes them zero. `step` does
  /// the former.
  virtual Status zero_grad(bool set_to_none) = 0;
  /// Sends the buffers of the first rank of each process group to all others, as begin_forward does
  /// where broadcast_buffers is on: for models whose buffers change otherwise. Nothing waits for it
  /// but what is computed afterwards. Fails: invalid_argument (in forward or backward).
  virtual Status sync_buffers() = 0;
  /// Lays values and buckets out anew if `requires_grad` of the model has changed; the next forward
  /// does so by itself. Fails: invalid_argument, if there are gradients now.
  virtual Status refresh_trainable() = 0;
  virtual bool requires_gradient_sync() const = 0;
  /// Calls `read` on the owner with the reduced gradient; not at all if there is none.
  virtual Status inspect_gradient(
      ParameterId parameter, const std::function<void(Rank, std::span<const float>)>& read) = 0;
};

/// While it lives, backward passes add gradients up locally. What was before comes back however the
/// scope is left. The engine must outlive it.
class NoSync {
 public:
  explicit NoSync(ShardedDataParallel& engine)
      : engine_(engine), before_(engine.requires_gradient_sync()) {
    engine_.set_requires_gradient_sync(false);
  }
  ~NoSync() { engine_.set_requires_gradient_sync(before_); }
  NoSync(const NoSync&) = delete;
  NoSync& operator=(const NoSync&) = delete;

 private:
  ShardedDataParallel& engine_;
  const bool before_;
};

struct OwnedTensor {
  Numel numel{};
  bool trained = true;
  DType dtype = DType::float32;
  Index owner = 0;  // what assign_owners decides
  std::int32_t optimizer = 0;
};

/// The owner of each tensor: in the given order, whoever has least so far, the lowest of equals. A
/// frozen tensor counts as one element. At most twice the load of the best partition.
/// REQUIRES: ranks >= 1.
std::vector<Index> assign_owners(const std::vector<OwnedTensor>& tensors, Index ranks);

/// Gives owners away as parameters join, and never takes one back. Optimizers are independent.
class OwnerMap {
 public:
  /// REQUIRES: ranks >= 1.
  explicit OwnerMap(Index ranks) : ranks_(ranks) {}

  /// An owner for the next tensor of its optimizer, by the rule of assign_owners.
  Index assign(const OwnedTensor& tensor);

 private:
  Index ranks_;
  std::map<std::int32_t, std::vector<Numel>> loads_;  // by optimizer, then rank
};

/// Which trained tensors are reduced together; indices, smallest tensor first.
struct ReducePlan {
  std::vector<std::vector<std::size_t>> buckets;  // of one owner and dtype; never empty
  std::vector<std::size_t> direct;                // those that found no room
};
/// One bucket per optimizer, owner and dtype, which takes a tensor if it then has fewer than
/// min(buffer_size, all elements) elements. 0: no buckets.
ReducePlan plan_reductions(const std::vector<OwnedTensor>& tensors, Numel buffer_size);

/// Fails: invalid_argument (no trained parameter, a negative size, a dtype that is no float, an
/// engine that drives `model` on `runtime` already, groups of different sizes or of ranks that do
/// not exist), naming it; out_of_memory. Both must outlive
/// the engine. A step with gradients that were never reduced fails.
Result<std::unique_ptr<ShardedDataParallel>> sharded_data_parallel(
    Runtime& runtime, const Model& model, const ShardedDataParallelOptions& options);

/// The collectives of a recording with elements and root, under "startup" and "step N".
std::vector<std::string> to_fairscale_notation(const Recording& recording);

}  // namespace tessera
