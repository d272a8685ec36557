// SPDX-License-Identifier: Apache-2.0
// One all_gather of codes of 8 bit instead of values (ZeRO++ qwZ; deepspeed
// partition_parameters.py: CUDAQuantizer, QuantizationInfo).
#pragma once

#include "engine/schemes/zero3/parameters/zero3_facts.h"
#include "engine/schemes/zero3/zero_plus_plus/codes.h"

namespace tessera {

class QuantizedGather {
 public:
  /// `own`, quantised, from each of so many `parts` of `group`. The event after all codes arrived.
  Result<EventId> begin(Operations& operations, const Zero3Facts& facts, CommunicatorId group,
                        Index parts, const View& own, const View& full, const Cause& why);
  bool began() const { return arrived_.exist(); }
  /// Values, from codes that are there after `gathered`. The event after the values.
  Result<EventId> decode(Operations& operations, const Zero3Facts& facts, EventId gathered,
                         std::string_view unit) const;

 private:
  Codes arrived_;
  View full_;
  Index parts_ = 1;
};

}  // namespace tessera
