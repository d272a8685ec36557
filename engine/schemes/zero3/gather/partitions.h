// SPDX-License-Identifier: Apache-2.0
// The part that each rank keeps of each parameter, on the device, in host memory or on NVMe, and
// how it comes to the device.
#pragma once

#include <vector>

#include "engine/schemes/zero3/offload/parameter_swapper.h"

namespace tessera {

/// A part of a gather: a partition and its place there.
struct GatherPart {
  ParameterId parameter;
  View from;
  View to;
  Memory home = Memory::device;
};

class Partitions {
 public:
  /// All must outlive it.
  Partitions(Operations& operations, const Zero3Facts& facts, OnDemandParameters& parameters,
             ParameterSwapper& swapper)
      : operations_(operations), facts_(facts), parameters_(parameters), swapper_(swapper) {}

  /// Memory of the masters, and of what is gathered if that is another buffer.
  Status allocate(OnDemandParameter& p);
  /// The partition of `p` that is gathered, where it lives.
  View of(const OnDemandParameter& p) const {
    return View::whole(p.cast.valid() ? p.cast : p.shard.value, facts_.param_dtype(), p.partition);
  }
  /// These will be brought: compatible reads them from NVMe now, and the host waits.
  Status prepare(const std::vector<ParameterId>& parameters);
  /// Copies the parts to their places. The event after all of them; none, if there are none.
  Result<EventId> bring(StreamId stream, const Cause& why, CommunicatorId index_in,
                        const std::vector<GatherPart>& parts);
  /// A rank's own part of an all_gather into `full`.
  Result<View> gather_input(const OnDemandParameter& p, const View& full, StreamId stream,
                            const Cause& why);

 private:
  Operations& operations_;
  const Zero3Facts& facts_;
  OnDemandParameters& parameters_;
  ParameterSwapper& swapper_;
};

/// Allocates where partitions and gradients may live: pinned in host memory, as staging on NVMe.
Result<BufferId> allocate_in(Operations& operations, const Zero3Facts& facts, Memory memory,
                             const std::string& name, Bytes bytes, MemoryClass on_device,
                             const Cause& why);

}  // namespace tessera
