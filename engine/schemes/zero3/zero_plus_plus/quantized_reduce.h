// SPDX-License-Identifier: Apache-2.0
// Reducing a packed bucket to parts by two all_to_all of codes of 4 bit, inside of nodes and
// between them (ZeRO++ qgZ; deepspeed coalesced_collectives.py: all_to_all_quant_reduce).
#pragma once

#include "engine/schemes/zero3/parameters/on_demand_parameter.h"
#include "engine/schemes/zero3/parameters/zero3_facts.h"
#include "engine/schemes/zero3/zero_plus_plus/codes.h"

namespace tessera {

class QuantizedReduce {
 public:
  /// Both must outlive it.
  QuantizedReduce(Operations& operations, const Zero3Facts& facts)
      : operations_(operations), facts_(facts) {}

  /// Whether its gradient is reduced so.
  bool takes(const OnDemandParameter& p) const;
  /// The sum of everybody's slices in `packed`, on the reducing stream.
  Result<EventId> reduce(const View& packed, const View& scattered, const Cause& why);

 private:
  Result<Codes> allocate(const BlockQuantizer& format, std::int64_t rows, const Cause& why);
  Result<Codes> exchange(const Codes& sent, CommunicatorId group, const BlockQuantizer& format,
                         std::int64_t rows, const Cause& why);
  Result<Codes> add_inside(const View& packed, const BlockQuantizer& format, const Cause& why);

  Operations& operations_;
  const Zero3Facts& facts_;
};

}  // namespace tessera
