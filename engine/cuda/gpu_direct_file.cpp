// SPDX-License-Identifier: Apache-2.0
#include "engine/cuda/gpu_direct_file.h"

namespace tessera {

GpuDirectFile::~GpuDirectFile() {
  for (const auto& [base, registered] : buffers_) {
    if (registered.accepted) api_.buffer_deregister(base);
  }
  for (const auto& [file, handle] : handles_) api_.handle_deregister(handle);
}

std::int64_t GpuDirectFile::find(int file, void*& handle) {
  const auto known = handles_.find(file);
  if (known != handles_.end()) return handle = known->second, 0;
  if (const int code = api_.handle_register(&handle, file); code != 0) return -code;
  handles_.emplace(file, handle);
  return 0;
}

// Where it cannot be, cuFile copies through a buffer of its own. What else was registered in this
// place is there no more.
void GpuDirectFile::register_buffer(std::span<std::byte> buffer) {
  std::byte* const end = buffer.data() + buffer.size();
  auto next = buffers_.lower_bound(buffer.data());
  if (next != buffers_.begin() && std::prev(next)->second.end > buffer.data()) --next;
  while (next != buffers_.end() && next->first < end) {
    if (next->first == buffer.data() && next->second.end == end) return;
    if (next->second.accepted) api_.buffer_deregister(next->first);
    next = buffers_.erase(next);
  }
  const bool accepted = api_.buffer_register(buffer.data(), buffer.size()) == 0;
  buffers_.emplace(buffer.data(), Registered{end, accepted});
}

std::int64_t GpuDirectFile::move(const BlockRequest& r) {
  if (r.on_device.empty()) return move_block(r);
  void* handle = nullptr;
  {
    const std::lock_guard lock(mutex_);
    if (const std::int64_t error = find(r.file, handle); error != 0) return error;
    if (!r.writes) register_buffer(r.on_device);
  }
  std::byte* const base = r.on_device.data();
  const std::int64_t at = r.data - base;
  return r.writes ? api_.write(device_, handle, base, r.size, r.offset, at)
                  : api_.read(device_, handle, base, r.size, r.offset, at);
}

}  // namespace tessera
