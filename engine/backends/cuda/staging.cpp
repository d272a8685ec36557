// SPDX-License-Identifier: Apache-2.0
#include "engine/backends/cuda/staging.h"

#include <algorithm>
#include <cstring>

#include "engine/backends/cuda/calls.h"

namespace tessera {
namespace {

constexpr std::size_t alignment = 64;

}  // namespace

PinnedMemory::~PinnedMemory() {
  if (base_ != nullptr) api_.free_host(base_);
}

Status PinnedMemory::allocate(Bytes bytes) {
  if (base_ != nullptr) api_.free_host(base_);
  base_ = nullptr;
  bytes_ = {};
  void* base = nullptr;
  TESSERA_TRY(cuda_status(api_, api_.host_alloc(&base, static_cast<std::size_t>(bytes.value)),
                          "cudaHostAlloc"));
  base_ = static_cast<std::byte*>(base);
  bytes_ = bytes;
  return {};
}

Status PinnedMemory::grow(Bytes bytes) {
  PinnedMemory larger(api_);
  TESSERA_TRY(larger.allocate(bytes));
  if (base_ != nullptr) std::memcpy(larger.base_, base_, static_cast<std::size_t>(bytes_.value));
  std::swap(base_, larger.base_);
  std::swap(bytes_, larger.bytes_);
  return {};
}

void StagedBytes::touch(std::span<std::byte> device) {
  if (device.empty()) return;
  Part& part = parts_[device.data()];
  part.end = std::max(part.end, device.data() + device.size());
}

Bytes StagedBytes::layout() {
  std::size_t offset = 0;
  for (auto it = parts_.begin(); it != parts_.end(); ++it) {
    auto next = std::next(it);
    while (next != parts_.end() && next->first < it->second.end) {
      it->second.end = std::max(it->second.end, next->second.end);
      next = parts_.erase(next);
    }
    it->second.offset = offset;
    const auto bytes = static_cast<std::size_t>(it->second.end - it->first);
    offset += (bytes + alignment - 1) / alignment * alignment;
  }
  return Bytes{static_cast<std::int64_t>(offset)};
}

Status StagedBytes::copy_in(const CudaApi& api, std::byte* host, CudaStream stream) {
  host_ = host;
  for (const auto& [begin, part] : parts_) {
    const auto bytes = static_cast<std::size_t>(part.end - begin);
    TESSERA_TRY(cuda_status(api, api.memcpy_async(host + part.offset, begin, bytes, stream),
                            "cudaMemcpyAsync"));
  }
  return {};
}

std::span<std::byte> StagedBytes::copy_of(std::span<std::byte> device) const {
  if (device.empty()) return {};
  const auto after = parts_.upper_bound(device.data());
  TESSERA_ASSERT(after != parts_.begin(), "a part that was touched");
  const auto& [begin, part] = *std::prev(after);
  return {host_ + part.offset + (device.data() - begin), device.size()};
}

Status StagedBytes::copy_out(const CudaApi& api, std::span<std::byte> device,
                             CudaStream stream) const {
  if (device.empty()) return {};
  return cuda_status(api,
                     api.memcpy_async(device.data(), copy_of(device).data(), device.size(), stream),
                     "cudaMemcpyAsync");
}

}  // namespace tessera
