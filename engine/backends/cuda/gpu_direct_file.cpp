// SPDX-License-Identifier: Apache-2.0
#include "engine/backends/cuda/gpu_direct_file.h"

namespace tessera {

GpuDirectFile::~GpuDirectFile() {
  for (const auto& [base, registered] : buffers_) {
    if (registered.accepted) api_.buffer_deregister(device_, base);
  }
  if (handle_ != nullptr) api_.handle_deregister(device_, handle_);
}

// Where it cannot be, cuFile copies through a buffer of its own. What else was registered in this
// place is there no more.
void GpuDirectFile::register_buffer(std::span<std::byte> buffer) {
  std::byte* const end = buffer.data() + buffer.size();
  auto next = buffers_.lower_bound(buffer.data());
  if (next != buffers_.begin() && std::prev(next)->second.end > buffer.data()) --next;
  while (next != buffers_.end() && next->first < end) {
    if (next->first == buffer.data() && next->second.end == end) return;
    if (next->second.accepted) api_.buffer_deregister(device_, next->first);
    next = buffers_.erase(next);
  }
  const bool accepted = api_.buffer_register(device_, buffer.data(), buffer.size()) == 0;
  buffers_.emplace(buffer.data(), Registered{end, accepted});
}

std::int64_t GpuDirectFile::move(const BlockRequest& r) {
  if (r.on_device.empty()) return move_block(r);
  {
    const std::lock_guard lock(mutex_);
    const int code = handle_ == nullptr ? api_.handle_register(device_, &handle_, r.file) : 0;
    if (code != 0) return handle_ = nullptr, -code;
    if (!r.writes) register_buffer(r.on_device);
  }
  std::byte* const base = r.on_device.data();
  const std::int64_t at = r.data - base;
  return r.writes ? api_.write(device_, handle_, base, r.size, r.offset, at)
                  : api_.read(device_, handle_, base, r.size, r.offset, at);
}

}  // namespace tessera
