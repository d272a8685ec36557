// SPDX-License-Identifier: Apache-2.0
// Masters and moments on NVMe: a sub-group's are in host memory only while it is stepped (deepspeed
// partitioned_optimizer_swapper.py, pipelined_optimizer_swapper.py).
//
// The idea: read, step, write are operations on streams of their own, so pipelining is a wait that
// is left out: reading ahead does not wait for the step before, stepping does not wait for the
// write before. Whoever else wants to see or change what ranks hold has all of it brought to host
// memory; the next pass or step puts it back.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "engine/schemes/zero3/parameters/on_demand_parameter.h"
#include "engine/schemes/zero3/parameters/operations.h"
#include "engine/schemes/zero3/parameters/zero3_facts.h"

namespace tessera {

class OptimizerSwapper {
 public:
  /// Both must outlive it.
  OptimizerSwapper(Operations& operations, const Zero3Facts& facts)
      : operations_(operations), facts_(facts), options_(facts.options) {}

  /// Decides how much pipelining the buffers allow. Fails: invalid_argument (compatible), if there
  /// are not enough for what was asked.
  Status check();
  std::vector<std::string> warnings() const { return warnings_; }
  /// These are to live on NVMe, and have buffers in host memory for now.
  Status setup(std::span<OnDemandParameter* const> parameters);
  bool exists() const { return read_.valid(); }
  std::vector<StreamId> streams() const;

  /// A step of so many groups begins.
  Status begin_step();
  /// Group `k` is stepped next; `next`: what is stepped after it, empty if nothing.
  Status before_group(std::span<OnDemandParameter* const> group,
                      std::span<OnDemandParameter* const> next);
  /// Buffers that are given back next are read until `event`.
  void follow(EventId event) {
    if (exists()) readers_.push_back(event);
  }
  /// Its values were stepped and cast.
  Status after_group(std::span<OnDemandParameter* const> group, bool last);

  /// Everything is in host memory until put_back.
  Status load_shards(bool moments);
  Status put_back();

 private:
  struct State {
    OnDemandParameter* p = nullptr;
    BufferId value, exp_avg, exp_avg_sq;  // on NVMe
    bool has_moments = false;
    bool here = false;
  };
  using States = std::vector<State*>;

  States states_of(std::span<OnDemandParameter* const> group);
  Result<BufferId> on_drive(const ParamShard& shard, const char* name);
  Result<BufferId> on_host(const ParamShard& shard, const char* name);
  Result<EventId> read(const States& states);
  Result<EventId> write(const States& states);
  Status give_back(const States& states, EventId after);
  Status make_moments(const States& states);
  Cause why() const { return operations_.cause("root", Reason::offload); }
  Cause order() const { return operations_.cause("root", Reason::order); }

  Operations& operations_;
  const Zero3Facts& facts_;
  const Zero3Options& options_;
  bool pipeline_read_ = false;
  bool pipeline_write_ = false;
  std::vector<std::string> warnings_;
  StreamId read_, write_;
  std::vector<State> states_;
  EventId was_read_;  // of the group that is stepped next, if it was read ahead
  std::vector<EventId> readers_;
  EventId written_;  // that no step has waited for yet
};

}  // namespace tessera
