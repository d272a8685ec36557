// SPDX-License-Identifier: Apache-2.0
// One all_gather of several parameters, from its beginning until its result lies in the parameters'
// own memory (deepspeed partition_parameters.py: all_gather_coalesced, AllGatherHandle).
//
// The idea: one parameter is gathered straight into its copy. Several are gathered into one flat
// buffer, because one collective costs less latency than many, and are split when the first of them
// is waited for: until then nobody needs memory for their copies.
#pragma once

#include <vector>

#include "engine/schemes/zero3/gather/partitions.h"
#include "engine/schemes/zero3/parameters/gathered_memory.h"
#include "engine/schemes/zero3/zero_plus_plus/quantized_gather.h"
#include "engine/schemes/zero3/zero_plus_plus/secondary_parts.h"

namespace tessera {

/// The tools of gathers; all must outlive them.
struct GatherTools {
  Operations& operations;
  const Zero3Facts& facts;
  OnDemandParameters& parameters;
  Partitions& partitions;
  SecondaryParts& secondary;
  GatheredMemory& memory;
};

class Gather {
 public:
  /// `parameters` in ascending order.
  Gather(const GatherTools& tools, std::int32_t number, std::vector<ParameterId> parameters);

  std::int32_t number() const { return number_; }
  const std::vector<ParameterId>& parameters() const { return parameters_; }
  /// From the copies that are kept inside of nodes.
  bool from_secondary() const { return secondary_; }

  /// Issues the all_gather.
  Status begin(const Cause& why);
  /// Somebody waits: all of the parameters land in their copies, which are there after `done`. Does
  /// nothing the second time.
  Status finish();
  bool complete() const { return complete_; }
  EventId done() const { return done_; }

 private:
  Status begin_alone(const Cause& why);
  Status begin_coalesced(const Cause& why);
  Result<EventId> collect(const View& own, const View& full, const Cause& why);
  Status split();

  Numel part_of(const OnDemandParameter& p) const {
    return Numel{p.partition.value * tools_.facts.ranks / parts_};
  }
  View source_of(const OnDemandParameter& p) const {
    return secondary_ ? tools_.secondary.of(p) : tools_.partitions.of(p);
  }
  std::string_view unit() const { return tools_.parameters[parameters_.front()].shard.unit; }
  DType dtype() const { return tools_.facts.param_dtype(); }

  GatherTools tools_;
  const std::int32_t number_;
  const std::vector<ParameterId> parameters_;
  const bool secondary_;
  const CommunicatorId group_;  // whose members hold the parts
  const Index parts_;
  Numel partition_{};  // of all, per part
  BufferId flat_;      // none: the parameters' own memory
  QuantizedGather quantized_;
  EventId gathered_;
  EventId done_;  // and split, if it was coalesced
  bool complete_ = false;
};

}  // namespace tessera
