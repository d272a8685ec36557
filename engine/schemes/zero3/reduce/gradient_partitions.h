// SPDX-License-Identifier: Apache-2.0
// A rank's share of gradients until the optimizer steps: its slice of each, added up over
// micro-batches, on the device or in host memory.
//
// The idea: slices lie in one buffer per kind of memory, as in DeepSpeed, so that replicas can add
// all of them up in one collective.
#pragma once

#include <array>
#include <vector>

#include "engine/schemes/zero3/parameters/on_demand_parameter.h"
#include "engine/schemes/zero3/parameters/operations.h"
#include "engine/schemes/zero3/parameters/zero3_facts.h"

namespace tessera {

class GradientPartitions {
 public:
  /// All must outlive it.
  GradientPartitions(Operations& operations, const Zero3Facts& facts,
                     const OnDemandParameters& parameters)
      : operations_(operations), facts_(facts), parameters_(parameters) {}

  /// For all that are trained now.
  Status allocate();
  /// Nothing is kept. What was there was read before `after`.
  Status release(EventId after);

  bool has(ParameterId id) const { return slice(id).filled; }
  bool any() const;
  View view(const OnDemandParameter& p) const;
  /// Takes slices of `bucket`, which lie one behind another in `reduced`.
  Status keep(const std::vector<OnDemandParameter*>& bucket, const View& reduced);
  /// MiCS (arXiv 2205.00119, section 4.4; deepspeed mics.py): groups that hold the same partitions
  /// add their gradients up once a step, not once a micro-batch. Does nothing the second time.
  Status add_replicas();
  /// Fails: invalid_argument, after add_replicas: what another backward pass would add is not added
  /// up over groups, what is there is.
  Status expect_not_added() const;
  /// The optimizer has read them.
  void forget();

 private:
  struct Slice {
    Numel place{};  // in the buffer of its memory
    bool filled = false;
  };

  const Slice& slice(ParameterId id) const { return slices_[id.index()]; }
  Slice& slice(ParameterId id) { return slices_[id.index()]; }
  BufferId buffer(Memory memory) const { return buffers_[static_cast<std::size_t>(memory)]; }
  Status add_on_host(const OnDemandParameter& p, const View& fresh);

  Operations& operations_;
  const Zero3Facts& facts_;
  const OnDemandParameters& parameters_;
  std::vector<Slice> slices_;                   // by ParameterId
  std::array<BufferId, memory_count> buffers_;  // by Memory
  bool added_ = false;
};

}  // namespace tessera
