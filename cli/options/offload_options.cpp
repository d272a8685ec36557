// SPDX-License-Identifier: Apache-2.0
#include "cli/options/offload_options.h"

#include "cli/options/checks.h"

namespace tessera::cli {
namespace {

Offload::Device device_of(const std::string& word) {
  if (word == "cpu") return Offload::Device::cpu;
  return word == "nvme" ? Offload::Device::nvme : Offload::Device::none;
}

}  // namespace

void add_offload_options(CLI::App& command, const char* group, OffloadArguments& a) {
  const auto devices = CLI::IsMember({"none", "cpu", "nvme"});
  const auto number = [&](const char* name, auto& value, double least, double most,
                          const char* text) {
    command.add_option(name, value, text)
        ->check(within(least, most))
        ->capture_default_str()
        ->group(group);
  };
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
  number("--offload-ratio", a.ratio, 0, 1, "Share of the sub-groups that is offloaded");
  command.add_option("--nvme-path", a.nvme_path, "Folder for files on NVMe, in numeric runs")
      ->default_str("")
      ->group(group);
  number("--nvme-smallest", a.smallest, 0, 1e15, "Bytes; smaller partitions stay in host memory");
  number("--nvme-alignment", a.alignment, 1, 1e9, "Bytes that files are read and written by");
  command
      .add_flag("--use-gds", a.use_gds,
                "Read parameters from NVMe straight into device memory (GPUDirect Storage)")
      ->group(group);
  number("--buffer-count", a.buffer_count, 0, 1e6,
         "Buffers between NVMe and device; 0: 5 for parameters, 4 for states");
  number("--buffer-size", a.buffer_size, 1, 1e15, "Elements of such a buffer for parameters");
  command.add_flag("--pipeline-read", a.pipeline_read, "Read states while others are stepped")
      ->group(group);
  command.add_flag("--pipeline-write", a.pipeline_write, "Write states while others are stepped")
      ->group(group);
}

void apply_offload(const OffloadArguments& a, Zero3Options& options) {
  Offload& param = options.offload_param;
  Offload& optimizer = options.offload_optimizer;
  param.device = device_of(a.param);
  optimizer.device = device_of(a.optimizer);
  optimizer.ratio = a.ratio;
  param.nvme_path = optimizer.nvme_path = a.nvme_path;
  if (a.buffer_count > 0) param.buffer_count = optimizer.buffer_count = a.buffer_count;
  param.buffer_size = Numel{a.buffer_size};
  optimizer.pipeline_read = a.pipeline_read;
  optimizer.pipeline_write = a.pipeline_write;
  options.aio.smallest = Bytes{a.smallest};
  options.aio.alignment = Bytes{a.alignment};
  options.aio.use_gds = a.use_gds;
}

}  // namespace tessera::cli
