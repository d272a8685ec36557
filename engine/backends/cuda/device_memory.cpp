// SPDX-License-Identifier: Apache-2.0
#include "engine/backends/cuda/device_memory.h"

#include "engine/backends/cuda/calls.h"

namespace tessera {
namespace {

Bytes round_up(Bytes bytes, Bytes unit) {
  return Bytes{(bytes.value + unit.value - 1) / unit.value * unit.value};
}

std::size_t size(Bytes bytes) { return static_cast<std::size_t>(bytes.value); }

}  // namespace

Status DeviceMemory::reserve(int device, Bytes bytes) {
  std::size_t unit = 0;
  TESSERA_TRY(
      cuda_status(api_, api_.mem_get_granularity(&unit, device), "cuMemGetAllocationGranularity"));
  device_ = device;
  granularity_ = Bytes{static_cast<std::int64_t>(unit)};
  reserved_ = round_up(bytes, granularity_);
  void* base = nullptr;
  TESSERA_TRY(
      cuda_status(api_, api_.mem_address_reserve(&base, size(reserved_)), "cuMemAddressReserve"));
  base_ = static_cast<std::byte*>(base);
  return {};
}

Status DeviceMemory::grow(Bytes bytes) {
  if (bytes <= mapped_) return {};
  const Bytes end = round_up(bytes, granularity_);
  if (end > reserved_) return Status(Code::out_of_memory, "the device has less memory altogether");
  Segment segment{mapped_, end - mapped_, 0};
  TESSERA_TRY(cuda_status(api_, api_.mem_create(&segment.memory, size(segment.bytes), device_),
                          "cuMemCreate"));
  if (Status mapped = map(segment); !mapped.ok()) {
    api_.mem_release(segment.memory);
    return mapped;
  }
  segments_.push_back(segment);
  mapped_ = end;
  return {};
}

Status DeviceMemory::map(const Segment& segment) {
  std::byte* const begin = at(segment.offset);
  TESSERA_TRY(
      cuda_status(api_, api_.mem_map(begin, size(segment.bytes), segment.memory), "cuMemMap"));
  Status accessible =
      cuda_status(api_, api_.mem_set_access(begin, size(segment.bytes), device_), "cuMemSetAccess");
  if (!accessible.ok()) api_.mem_unmap(begin, size(segment.bytes));
  return accessible;
}

DeviceMemory::~DeviceMemory() {
  for (const Segment& segment : segments_) {
    api_.mem_unmap(at(segment.offset), size(segment.bytes));
    api_.mem_release(segment.memory);
  }
  if (base_ != nullptr) api_.mem_address_free(base_, size(reserved_));
}

}  // namespace tessera
