// SPDX-License-Identifier: Apache-2.0
#include "engine/cuda/file_copies.h"

#include <algorithm>
#include <atomic>
#include <cstring>

#include "engine/cuda/calls.h"
#include "engine/cuda/device_file_task.h"
#include "engine/host/file_task.h"
#include "engine/runtime/stream_order.h"

namespace tessera {
namespace {

constexpr std::size_t word_distance = 64;  // each in a cache line of its own

}  // namespace

FileCopies::~FileCopies() { give_up(); }

std::uint32_t* FileCopies::word_of(const Queue& queue) {
  return reinterpret_cast<std::uint32_t*>(words_.base() + queue.place * word_distance);
}

Result<FileCopies::Queue*> FileCopies::queue_of(CudaStream stream) {
  for (Queue& queue : queues_) {
    if (queue.stream == stream) return &queue;
  }
  if (queues_.empty()) {
    constexpr Bytes bytes{static_cast<std::int64_t>(word_distance) * stream_count_max};
    TESSERA_TRY(words_.allocate(bytes));
    std::memset(words_.base(), 0, static_cast<std::size_t>(bytes.value));
  }
  queues_.push_back({.stream = stream, .place = queues_.size(), .copies = {}});
  return &queues_.back();
}

Status FileCopies::submit(CopyRoute route, std::vector<Piece> pieces, CudaStream stream) {
  TESSERA_ASSIGN(Queue* const queue, queue_of(stream));
  TESSERA_ASSIGN(const CudaEvent reached, events_.record(stream));
  queue->copies.push_back({next_++, route, std::move(pieces), reached, nullptr});
  const std::uint32_t number = ++queue->submitted;
  return cuda_status(api_, api_.stream_wait_value(stream, word_of(*queue), number),
                     "cuStreamWaitValue32");
}

// The transfer's bytes are in memory before the stream sees the number.
void FileCopies::let_go(const Queue& queue) {
  const auto over = queue.submitted - static_cast<std::uint32_t>(queue.copies.size());
  std::atomic_ref(*word_of(queue)).store(over, std::memory_order_release);
}

std::unique_ptr<RunningTask> FileCopies::start(const Waiting& copy) {
  const bool on_device =
      copy.route == CopyRoute::device_to_nvme || copy.route == CopyRoute::nvme_to_device;
  if (on_device) {
    std::vector<DeviceFileTask::Piece> pieces;
    for (const Piece& piece : copy.pieces) {
      pieces.push_back({files_.slot_of(piece.blocks, copy.route, rank_), piece.memory});
    }
    return std::make_unique<DeviceFileTask>(sums_, writes_files(copy.route), std::move(pieces));
  }
  std::vector<SwapMove> moves;
  for (const Piece& piece : copy.pieces) {
    moves.push_back(files_.start(piece.blocks, copy.route, rank_, piece.memory));
  }
  return std::make_unique<FileTask>(std::move(moves));
}

Result<bool> FileCopies::advance(Queue& queue) {
  if (queue.copies.empty()) return false;
  Waiting& next = queue.copies.front();
  const bool starts = !next.moving;
  if (starts) {
    TESSERA_ASSIGN(const bool here, has_happened(api_, next.reached));
    if (!here) return false;
    events_.give_back(std::exchange(next.reached, nullptr));
    next.moving = start(next);
  }
  TESSERA_ASSIGN(const bool over, next.moving->advance());
  if (!over) return starts;
  queue.copies.pop_front();
  let_go(queue);
  return true;
}

Result<bool> FileCopies::advance() {
  bool any = false;
  for (Queue& queue : queues_) {
    TESSERA_ASSIGN(const bool own, advance(queue));
    any = any || own;
  }
  release_slots();
  return any;
}

void FileCopies::release(BufferId buffer) {
  leaving_.emplace_back(next_, buffer);
  release_slots();
}

void FileCopies::release_slots() {
  std::int64_t over = next_;
  for (const Queue& queue : queues_) {
    if (!queue.copies.empty()) over = std::min(over, queue.copies.front().number);
  }
  for (; !leaving_.empty() && leaving_.front().first <= over; leaving_.pop_front()) {
    files_.release(leaving_.front().second, rank_);
  }
}

void FileCopies::give_up() {
  for (Queue& queue : queues_) {
    for (const Waiting& copy : queue.copies) {
      if (copy.reached != nullptr) events_.give_back(copy.reached);
    }
    queue.copies.clear();
    if (words_.base() != nullptr) let_go(queue);
  }
}

}  // namespace tessera
