// SPDX-License-Identifier: Apache-2.0
// zero3 with partitions in host memory and in files, in the ways that differ in what is read when.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "tests/backends/host/training_run.h"

namespace tessera::test {

inline Zero3Options offloaded_to(const std::string& folder, Offload::Device param,
                                 Offload::Device optimizer) {
  Zero3Options o{
      .prefetch_bucket = Numel{20}, .reduce_bucket = Numel{25}, .sub_group_size = Numel{12}};
  o.offload_param = {.device = param, .nvme_path = folder, .buffer_count = 3};
  o.offload_optimizer = {.device = optimizer, .nvme_path = folder, .buffer_count = 4};
  o.aio.smallest = Bytes{0};
  return o;
}

inline std::vector<std::pair<std::string, Scheme>> offloaded_schemes(const std::string& folder) {
  using Device = Offload::Device;
  Zero3Options pipelined = offloaded_to(folder, Device::nvme, Device::nvme);
  pipelined.offload_optimizer.buffer_count = 12;
  pipelined.offload_optimizer.pipeline_read = pipelined.offload_optimizer.pipeline_write = true;
  Zero3Options partly = offloaded_to(folder, Device::cpu, Device::nvme);
  partly.offload_optimizer.ratio = 0.5;
  Zero3Options compatible = pipelined;
  compatible.policy = Zero3Policy::compatible;
  compatible.offload_param.buffer_count = 100;
  Zero3Options straight = offloaded_to(folder, Device::nvme, Device::none);
  straight.aio.use_gds = true;
  Zero3Options straight_pipelined = pipelined;
  straight_pipelined.aio.use_gds = true;
  Zero3Options straight_compatible = compatible;
  straight_compatible.aio.use_gds = true;
  return {{"both in host memory", offloaded_to(folder, Device::cpu, Device::cpu)},
          {"parameters in files", offloaded_to(folder, Device::nvme, Device::none)},
          {"states in files", offloaded_to(folder, Device::none, Device::nvme)},
          {"both in files, pipelined", pipelined},
          {"half of the states in files", partly},
          {"as DeepSpeed", compatible},
          {"parameters between files and the device", straight},
          {"both in files, parameters past host memory", straight_pipelined},
          {"as DeepSpeed with use_gds", straight_compatible}};
}

}  // namespace tessera::test
