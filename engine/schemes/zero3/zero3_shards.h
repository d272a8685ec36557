// SPDX-License-Identifier: Apache-2.0
// ZeRO-3 between passes: what ranks hold, how the optimizer steps it, and what happens before
// somebody else reads or writes it (deepspeed stage3.py: step).
#pragma once

#include <string>
#include <vector>

#include "engine/base/engine_base.h"
#include "engine/base/process_groups.h"
#include "engine/schemes/zero3/zero3_parts.h"

namespace tessera {

class Zero3Shards : public EngineBase {
 public:
  Status step(const AdamOptions& options) override;

 protected:
  Zero3Shards(Runtime& runtime, const Model& model, const Zero3Options& options,
              const RankGroups& groups);
  Status setup();

  /// The set of trained parameters may change between a step and the next forward pass. Optimizer
  /// states stay with their parameters, also of frozen ones.
  Status refresh_trainable();
  /// Partitions have what somebody else wrote, and the gathers see it.
  Status refresh_partitions();
  /// Why nothing can be trained any more: a drive failed.
  const Status& failure() const { return failure_; }
  Status remember(Status status);

  OnDemandParameter& at(ParameterId id) { return parts_.parameters[id]; }
  /// A mark of the root.
  Status note(Mark mark, Reason reason = Reason::none);

 private:
  std::vector<ParamShard*> shards() override;
  Index shard_index(Rank rank) const override {
    const Zero3Facts& facts = parts_.facts;
    const bool mics = facts.ranks < facts.everyone;
    return mics ? static_cast<Index>(rank) % facts.ranks : facts.groups.index_of(rank);
  }
  RankSet first_ranks() const override { return first_members(parts_.facts.groups); }
  ShardGroups shard_groups() const override {
    return {parts_.facts.ranks, parts_.facts.shard_group(), parts_.facts.replicas};
  }
  std::vector<StreamId> side_streams() const override;
  Status load_shards(bool moments) override { return parts_.states.load_shards(moments); }
  Status before_write() override;
  Status finish_gathers() override;

  Status complete_gradients() override { return parts_.gradients.add_replicas(); }
  Status before_step() override;
  std::vector<std::vector<ParamShard*>> step_groups() override;
  Status before_group(std::size_t group) override;
  Status after_group(std::size_t group) override;
  Status after_step() override;
  Status free_gradients(EventId stepped) override;
  Status on_param_groups() override;

  void forget_old_values();

  Operations operations_;  // what parts see of this engine

 protected:
  Zero3Parts parts_;

 private:
  Status failure_;
};

}  // namespace tessera
