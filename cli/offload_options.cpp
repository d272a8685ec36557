// SPDX-License-Identifier: Apache-2.0
#include "cli/offload_options.h"

#include "cli/checks.h"

namespace tessera::cli {
namespace {

Offload::Device device_of(const std::string& word) {
  if (word == "cpu") return Offload::Device::cpu;
  return word == "nvme" ? Offload::Device::nvme : Offload::Device::none;
}

}  // namespace

void add_offload_options(CLI::App& command, const char* group, OffloadArguments& a) {
  const auto devices = CLI::IsMember({"none", "cpu"});
  command.add_option("--offload-param", a.param, "Where partitions of parameters live")
      ->check(devices)
      ->capture_default_str()
      ->group(group);
  command
      .add_option("--offload-optimizer", a.optimizer,
                  "Where the optimizer's states and gradients live, and who steps")
      ->check(devices)
      ->capture_default_str()
      ->group(group);
  command.add_option("--offload-ratio", a.ratio, "Share of the sub-groups that is offloaded")
      ->check(within(0, 1))
      ->capture_default_str()
      ->group(group);
}

void apply_offload(const OffloadArguments& a, Zero3Options& options) {
  options.offload_param.device = device_of(a.param);
  options.offload_optimizer.device = device_of(a.optimizer);
  options.offload_optimizer.ratio = a.ratio;
}

}  // namespace tessera::cli
