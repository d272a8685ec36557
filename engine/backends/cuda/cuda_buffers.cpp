// SPDX-License-Identifier: Apache-2.0
// The places of buffers: in device memory, in pinned host memory, in files.
#include <fmt/format.h>

#include <algorithm>

#include "engine/backends/cuda/calls.h"
#include "engine/backends/cuda/cuda_backend.h"

namespace tessera {
namespace {

constexpr Bytes pinned_bytes_min{1 << 20};

}  // namespace

Status CudaBackend::buffer_requested(BufferId id, const Allocation& request) {
  TESSERA_TRY(usable());
  TESSERA_TRY(noted(enter_step(request.cause.step)));
  if (trace_) trace_->allocate(id, request);
  if (request.memory != Memory::nvme || !request.where.contains(rank_)) return {};
  return noted(make_file(id, request));
}

// Pinning memory, and giving the device access to more, may wait inside of CUDA until the device
// has nothing to do, while this thread looks at no deadline and no other rank. So everywhere in
// this file the device is waited for before.
Status CudaBackend::make_file(BufferId id, const Allocation& request) {
  if (!file_copies_.is_open() || options_.aio.use_gds) TESSERA_TRY(drain_all());
  TESSERA_TRY(file_copies_.allocate(id, request));
  if (module_.works_alone && file_service_ == nullptr) {
    file_service_ = std::make_unique<FileService>(file_copies_, rank_, options_);
  }
  if (!options_.aio.use_gds) return {};
  return file_copies_.make_sums(id, request.bytes);
}

std::unique_ptr<BlockIo> CudaBackend::make_io() {
  MoveBlock move = move_block;
  if (options_.aio.use_gds) {
    auto file = std::make_shared<GpuDirectFile>(cufile_, device_number_);
    move = [file](const BlockRequest& request) { return file->move(request); };
  }
  if (options_.swap_io) return options_.swap_io(move);
  const auto threads = std::max(options_.aio.thread_count, options_.aio.queue_depth);
  return options_.aio.use_gds ? make_thread_io(static_cast<int>(threads), move) : nullptr;
}

void CudaBackend::buffer_released(BufferId id, EventId after, const RankSet& ranks) {
  const Buffer& released = buffer(id);
  if (trace_ && released.memory == Memory::device) {
    trace_->release(id, released.memory_class, released.bytes, after, ranks);
  }
  if (!ranks.contains(rank_)) return;
  if (released.memory == Memory::nvme) file_copies_.release(id);
  places_.erase(id);
}

Status CudaBackend::buffer_placed(BufferId id, const Allocation& request, const RankSet& ranks,
                                  const Placement& placement) {
  if (trace_ && request.memory == Memory::device) {
    trace_->place(id, request, ranks, placement.offset + request.bytes);
  }
  return ranks.contains(rank_) ? noted(place(id, request, placement)) : Status{};
}

// All that the allocator will have: as it grows, or as a window of NCCL at once. The rest is for
// communicators, workspaces and code that comes later.
Status CudaBackend::open_memory(bool as_window) {
  if (as_window) TESSERA_TRY(windows_.open());
  std::size_t free = 0;
  std::size_t total = 0;
  TESSERA_TRY(
      cuda_status(module_.cuda, module_.cuda.mem_get_info(&free, &total), "cudaMemGetInfo"));
  if (!as_window) {
    return device_.reserve(device_number_, Bytes{static_cast<std::int64_t>(total)});
  }
  TESSERA_ASSIGN(const Bytes all, least_of_all(Bytes{static_cast<std::int64_t>(free / 8 * 7)}));
  TESSERA_TRY(device_.reserve(device_number_, all));
  return device_.grow(all);
}

Status CudaBackend::place(BufferId id, const Allocation& request, const Placement& placement) {
  const Bytes offset = placement.offset;
  places_.add(id, {request.memory, offset});
  if (request.memory == Memory::device) {
    const Bytes reserved = placement.device.reserved;
    if (reserved > device_.mapped()) TESSERA_TRY(drain_all());
    const Status grown = device_.grow(reserved);
    if (grown.ok()) return {};
    const char* const rest =
        windows_.is_open() ? "; CudaOptions::windows leaves the rest to NCCL, off does not" : "";
    return Status(grown.code(),
                  fmt::format("rank {} has no room for the {} bytes of {}: {} bytes "
                              "would be in use, {} are: {}{}",
                              rank_, request.bytes.value, request.name, reserved.value,
                              peak_reserved().value, grown.message(), rest));
  }
  if (request.memory == Memory::nvme) return {};
  if (offset + request.bytes <= pinned_.bytes()) return {};
  if (options_.pinned_memory == Bytes{0}) return grow_pinned(offset + request.bytes);
  if (pinned_.base() == nullptr) {
    TESSERA_TRY(drain_all());
    TESSERA_TRY(pinned_.allocate(options_.pinned_memory));
  }
  if (offset + request.bytes <= pinned_.bytes()) return {};
  return Status(Code::out_of_memory,
                fmt::format("rank {} has no room for the {} bytes of {} in pinned host memory: {} "
                            "bytes would be in use, CudaOptions::pinned_memory is {}",
                            rank_, request.bytes.value, request.name,
                            (offset + request.bytes).value, options_.pinned_memory.value));
}

// Contents move to another place, so no work may use the old one any more.
Status CudaBackend::grow_pinned(Bytes bytes) {
  TESSERA_TRY(drain_all());
  return pinned_.grow(std::max({bytes, pinned_.bytes() * 2, pinned_bytes_min}));
}

}  // namespace tessera
