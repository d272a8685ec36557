// SPDX-License-Identifier: Apache-2.0
// ZeRO++: what forward gathered is kept once more inside of nodes, for backward, whose gathers then
// need no link between nodes (hpZ; deepspeed partition_parameters.py: ds_secondary_tensor).
#pragma once

#include <vector>

#include "engine/schemes/zero3/parameters/on_demand_parameter.h"
#include "engine/schemes/zero3/parameters/operations.h"
#include "engine/schemes/zero3/parameters/zero3_facts.h"

namespace tessera {

class SecondaryParts {
 public:
  /// All must outlive it.
  SecondaryParts(Operations& operations, const Zero3Facts& facts,
                 const OnDemandParameters& parameters)
      : operations_(operations), facts_(facts), parameters_(parameters) {}

  bool exist() const { return group() > 1; }
  /// The group of ranks that share one copy.
  Index group() const { return facts_.options.plus_plus.secondary_group; }
  /// Whether a gather that begins now can take all of these from here.
  bool serve(const std::vector<ParameterId>& parameters) const;
  View of(const OnDemandParameter& p) const;
  /// Whether a gather that ends now is to be kept.
  bool keep_now() const { return exist() && operations_.in_forward(); }
  /// Keeps parts of these, which are there after `gathered`. The event after the copy: whoever uses
  /// the parameters waits for it, too, because it reads what they may free.
  Result<EventId> keep(const std::vector<ParameterId>& parameters, EventId gathered);
  /// Values have changed.
  void forget();

 private:
  struct Part {
    BufferId buffer;
    bool current = false;  // of the values that are gathered now
  };

  Numel part_of(const OnDemandParameter& p) const {
    return Numel{p.partition.value * facts_.ranks / group()};
  }
  Part& part(ParameterId id) {
    parts_.resize(parameters_.size());
    return parts_[id.index()];
  }

  Operations& operations_;
  const Zero3Facts& facts_;
  const OnDemandParameters& parameters_;
  std::vector<Part> parts_;  // by ParameterId; none: nothing was kept yet
};

}  // namespace tessera
