// SPDX-License-Identifier: Apache-2.0
#include "engine/schemes/zero3/offload/partition_home.h"

#include <fmt/format.h>

#include <algorithm>

#include "tessera/assert.h"

namespace tessera {
namespace {

Status check_section(const char* section, const Offload& o) {
  if (o.buffer_count < 1) {
    return Status(
        Code::invalid_argument,
        fmt::format("{}: buffer_count must be at least 1, found {}", section, o.buffer_count));
  }
  if (o.buffer_size < Numel{1}) {
    return Status(
        Code::invalid_argument,
        fmt::format("{}: buffer_size must be at least 1, found {}", section, o.buffer_size.value));
  }
  if (o.ratio >= 0 && o.ratio <= 1) return {};
  return Status(Code::invalid_argument,
                fmt::format("{}: ratio must be 0 to 1, found {:g}", section, o.ratio));
}

}  // namespace

Status PartitionHome::check() const {
  TESSERA_TRY(check_section("offload_param", options_.offload_param));
  TESSERA_TRY(check_section("offload_optimizer", options_.offload_optimizer));
  if (options_.aio.alignment >= Bytes{1} && options_.aio.block_size >= Bytes{1}) return {};
  return Status(Code::invalid_argument,
                fmt::format("aio: block_size and alignment must be at least 1, found {} and {}",
                            options_.aio.block_size.value, options_.aio.alignment.value));
}

Memory PartitionHome::of_parameter(Bytes partition, bool persistent) const {
  const Offload::Device device = options_.offload_param.device;
  if (device == Offload::Device::nvme && partition >= options_.aio.smallest) return Memory::nvme;
  if (device == Offload::Device::none || persistent) return Memory::device;
  return Memory::pinned_host;
}

// The ratio counts groups, and the first ones stay on the device.
Memory PartitionHome::of_group(std::size_t group, std::size_t groups) const {
  TESSERA_ASSERT(group < groups, "a group of the optimizer");
  if (!steps_on_host()) return Memory::device;
  const auto kept = static_cast<std::size_t>((1 - options_.offload_optimizer.ratio) *
                                             static_cast<double>(groups));
  return group < kept ? Memory::device : Memory::pinned_host;
}

}  // namespace tessera
