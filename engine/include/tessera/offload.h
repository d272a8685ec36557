// SPDX-License-Identifier: Apache-2.0
// The homes of partitions that are not on the device: in host memory, or in files on NVMe.
//
// The idea: what is offloaded is a partition, so every rank moves its own share over its own link;
// all_gathers run between devices as ever. Parameters come to the device when they are gathered.
// Optimizer states never do: gradients are sent to the host, and the CPU steps there.
//
//   Zero3Options options;
//   options.offload_param = {.device = Offload::Device::cpu};
//   options.offload_optimizer.device = Offload::Device::cpu;
//
// A partition's home (decision 11): a parameter on NVMe if its partition is large enough to be
// a file's worth (`Aio::smallest`), in host memory if it is smaller, on the device if it is
// persistent. Parameters, masters, moments and gradients of a group of the optimizer live together.
#pragma once

#include <cstdint>
#include <string>

#include "tessera/types.h"

namespace tessera {

/// DeepSpeed's `offload_param` and `offload_optimizer`, with its defaults. Host memory always is
/// pinned.
struct Offload {
  enum class Device : std::uint8_t { none, cpu, nvme };
  Device device = Device::none;
  /// A folder on the drive. Numeric runs keep one file per rank there, which is gone afterwards.
  /// The optimizer's: if it is empty, that of parameters.
  std::string nvme_path = {};
  /// Buffers between NVMe and what is gathered, in host memory (`Aio::use_gds`: on the device); 4
  /// for the optimizer, always in host memory.
  std::int64_t buffer_count = 5;
  Numel buffer_size{100'000'000};  // of one buffer for parameters
  // offload_optimizer only:
  bool pipeline_read = false;   // reads a group while the one before is stepped
  bool pipeline_write = false;  // writes a group while the one after is stepped
  double ratio = 1;  // of the groups that are offloaded; the first ones stay on the device
};

/// Settings of reading and writing files: DeepSpeed's `aio`.
struct Aio {
  Bytes block_size{1 << 20};  // of one request
  std::int64_t queue_depth = 8;
  std::int64_t thread_count = 1;
  /// Smaller partitions stay in host memory; never less than a block if it is not set smaller.
  Bytes smallest{1 << 20};
  Bytes alignment{1024};  // of what is read and written at once
  /// GPUDirect Storage: parameters on NVMe are read into buffers on the device, and written from
  /// there if the device steps them, past host memory. A run on GPUs needs NVIDIA's cuFile for it,
  /// which goes through host memory itself where driver or file system cannot do better.
  bool use_gds = false;
};

}  // namespace tessera
