// SPDX-License-Identifier: Apache-2.0
// The homes of partitions: device, host memory or NVMe (deepspeed partition_parameters.py:
// _partition; stage3.py: subgroup_to_device).
//
// The idea: only rules here, no operations.
#pragma once

#include <cstddef>

#include "tessera/zero3.h"

namespace tessera {

class PartitionHome {
 public:
  explicit PartitionHome(const Zero3Options& options) : options_(options) {}

  /// Fails: invalid_argument, naming the option that cannot be so.
  Status check() const;
  /// The home of the partition that is gathered.
  Memory of_parameter(Bytes partition, bool persistent) const;
  /// The home of masters, moments and gradients of a group of the optimizer.
  Memory of_group(std::size_t group, std::size_t groups) const;
  /// Whether states of a group on the host live on NVMe: small ones stay in host memory.
  bool swaps_states(Bytes masters) const {
    return options_.offload_optimizer.device == Offload::Device::nvme &&
           masters >= options_.aio.smallest;
  }
  /// Whether the CPU steps some groups.
  bool steps_on_host() const { return options_.offload_optimizer.device != Offload::Device::none; }
  bool moves_parameters() const { return options_.offload_param.device != Offload::Device::none; }

 private:
  const Zero3Options& options_;
};

}  // namespace tessera
