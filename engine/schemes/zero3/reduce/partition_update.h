// SPDX-License-Identifier: Apache-2.0
// New values: from the float32 partitions that the optimizer stepped to those that are gathered.
#pragma once

#include <vector>

#include "engine/schemes/zero3/gather/partitions.h"
#include "engine/schemes/zero3/offload/optimizer_swapper.h"

namespace tessera {

class PartitionUpdate {
 public:
  /// All must outlive it.
  PartitionUpdate(Operations& operations, const Zero3Facts& facts, OnDemandParameters& parameters,
                  const Partitions& partitions, ParameterSwapper& swapper, OptimizerSwapper& states)
      : operations_(operations),
        facts_(facts),
        parameters_(parameters),
        partitions_(partitions),
        swapper_(swapper),
        states_(states) {}

  /// Before partitions are written: the CPU's stream follows the gathers that read them.
  Status enter();
  /// Those of `changed` whose gathered partition is a buffer of its own get new values there.
  Status cast(const std::vector<ParamShard*>& changed);
  /// Somebody else wrote partitions, or will: all are cast before the next pass.
  void expect_writes() { stale_ = true; }
  /// Casts all, if that is so. Masters are in memory when it is called.
  bool stale() const { return stale_; }
  Status refresh(const std::vector<ParamShard*>& all);

 private:
  struct Staged {
    BufferId buffer;
    View view;
  };
  Result<Staged> stage(const OnDemandParameter& p, Memory memory, StreamId stream,
                       const Cause& why);
  Status send(const OnDemandParameter& p, const Cause& why);
  Cause order() const { return operations_.cause("root", Reason::order); }

  Operations& operations_;
  const Zero3Facts& facts_;
  OnDemandParameters& parameters_;
  const Partitions& partitions_;
  ParameterSwapper& swapper_;
  OptimizerSwapper& states_;
  bool stale_ = true;
};

}  // namespace tessera
