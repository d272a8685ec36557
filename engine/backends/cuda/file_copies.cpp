// SPDX-License-Identifier: Apache-2.0
#include "engine/backends/cuda/file_copies.h"

#include <algorithm>
#include <atomic>
#include <cstring>

#include "engine/backends/cuda/calls.h"
#include "engine/runtime/stream_order.h"

namespace tessera {
namespace {

constexpr std::size_t word_distance = 64;  // bytes: each word has a cache line of its own

}  // namespace

FileCopies::~FileCopies() { give_up(); }

Status FileCopies::make_sums(BufferId file, Bytes bytes) {
  const std::size_t blocks =
      files_.slot_of(file, rank_).file->block_count(static_cast<std::size_t>(bytes.value));
  PinnedMemory& sums = sums_.try_emplace(file, api_).first->second;
  return sums.allocate(Bytes{static_cast<std::int64_t>(blocks * sizeof(std::uint64_t))});
}

BufferId FileCopies::file_of(const Waiting& copy, const Piece& piece) {
  return writes_files(copy.route) ? piece.blocks.to.buffer : piece.blocks.from.buffer;
}

std::span<std::uint64_t> FileCopies::sums_of(const Waiting& copy, const Piece& piece) {
  const BufferId file = file_of(copy, piece);
  return {reinterpret_cast<std::uint64_t*>(sums_.at(file).base()),
          files_.slot_of(file, rank_).file->block_count(piece.memory.size())};
}

Status FileCopies::sum(const Waiting& copy, CudaStream stream) {
  for (const Piece& piece : copy.pieces) {
    const SwapSlot slot = files_.slot_of(file_of(copy, piece), rank_);
    const int code =
        kernels_.block_sums(piece.memory.data(), piece.memory.size(), slot.file->block_size(),
                            sums_of(copy, piece).data(), stream);
    TESSERA_TRY(cuda_status(api_, code, "the kernel of checksums"));
  }
  return {};
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

Status FileCopies::add_gate(Queue& queue) {
  const auto* const word =
      reinterpret_cast<const std::uint32_t*>(words_.base() + queue.place * word_distance);
  return cuda_status(api_, api_.stream_wait_value(queue.stream, word, ++queue.gates),
                     "cuStreamWaitValue32");
}

// The release orders the transfer's bytes before the number that lets the stream go on.
void FileCopies::open_gates(Queue& queue, std::uint32_t gates) {
  queue.opened += gates;
  auto* const word = reinterpret_cast<std::uint32_t*>(words_.base() + queue.place * word_distance);
  std::atomic_ref(*word).store(queue.opened, std::memory_order_release);
}

// On the stream: [checksums of a write] event `reached`, gate, [checksums of a read, event
// `summed`, gate]. The host follows in advance(): when `reached` has happened it starts the
// transfer, when that is over it opens the gate; when `summed` has happened it compares and opens
// the second gate.
Status FileCopies::submit(CopyRoute route, std::vector<Piece> pieces, CudaStream stream) {
  TESSERA_ASSIGN(Queue* const queue, queue_of(stream));
  Waiting copy{.number = next_++, .route = route, .pieces = std::move(pieces), .moving = {}};
  if (route == CopyRoute::device_to_nvme) TESSERA_TRY(sum(copy, stream));
  TESSERA_ASSIGN(copy.reached, events_.record(stream));
  queue->copies.push_back(std::move(copy));
  TESSERA_TRY(add_gate(*queue));
  if (route != CopyRoute::nvme_to_device) return {};
  Waiting& read = queue->copies.back();
  TESSERA_TRY(sum(read, stream));
  TESSERA_ASSIGN(read.summed, events_.record(stream));
  return add_gate(*queue);
}

void FileCopies::start(Waiting& copy) {
  std::vector<SwapMove> moves;
  for (const Piece& piece : copy.pieces) {
    if (!passes_host(copy.route)) {
      moves.push_back(files_.start(piece.blocks, copy.route, rank_, piece.memory));
      continue;
    }
    const SwapSlot slot = files_.slot_of(file_of(copy, piece), rank_);
    const auto sums = sums_of(copy, piece);
    moves.push_back({slot.file, writes_files(copy.route)
                                    ? slot.file->start_write_from_device(slot.id, piece.memory,
                                                                         {sums.begin(), sums.end()})
                                    : slot.file->start_read_to_device(slot.id, piece.memory)});
  }
  copy.moving.emplace(std::move(moves));
}

Status FileCopies::check(const Waiting& copy) {
  for (const Piece& piece : copy.pieces) {
    const SwapSlot slot = files_.slot_of(file_of(copy, piece), rank_);
    TESSERA_TRY(slot.file->check(slot.id, sums_of(copy, piece)));
  }
  return {};
}

// Whether `event` has happened. It is true once: the event then goes back to the pool.
Result<bool> FileCopies::happened(CudaEvent& event) {
  TESSERA_ASSIGN(const bool here, has_happened(api_, event));
  if (here) events_.give_back(std::exchange(event, nullptr));
  return here;
}

Result<bool> FileCopies::advance(Queue& queue) {
  // Copies of one stream are served in order, as the stream has come to no later gate before.
  if (queue.copies.empty()) return false;
  TESSERA_ASSERT(queue.opened < queue.gates, "a waiting copy has a closed gate");
  Waiting& next = queue.copies.front();
  bool any = false;
  if (next.reached != nullptr) {
    TESSERA_ASSIGN(any, happened(next.reached));
    if (!any) return false;
    start(next);
  }
  if (next.moving) {
    TESSERA_ASSIGN(const bool moved, next.moving->advance());
    if (!moved) return any;
    next.moving.reset();
    open_gates(queue, 1);
    any = true;
  }
  if (next.summed != nullptr) {
    TESSERA_ASSIGN(const bool here, happened(next.summed));
    if (!here) return any;
    TESSERA_TRY(check(next));
    open_gates(queue, 1);
  }
  queue.copies.pop_front();
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

// A slot can be freed when all copies that were submitted before its release are over. Queues are
// in order, so the oldest copy of each says how far it is.
void FileCopies::release_slots() {
  std::int64_t over = next_;
  for (const Queue& queue : queues_) {
    if (!queue.copies.empty()) over = std::min(over, queue.copies.front().number);
  }
  for (; !leaving_.empty() && leaving_.front().first <= over; leaving_.pop_front()) {
    files_.release(leaving_.front().second, rank_);
    sums_.erase(leaving_.front().second);
  }
}

void FileCopies::give_up() {
  for (Queue& queue : queues_) {
    for (const Waiting& copy : queue.copies) {
      for (CudaEvent event : {copy.reached, copy.summed}) {
        if (event != nullptr) events_.give_back(event);
      }
    }
    queue.copies.clear();
    if (words_.base() != nullptr) open_gates(queue, queue.gates - queue.opened);
  }
}

void FileCopies::abandon() {
  words_.abandon();
  for (auto& [file, sums] : sums_) sums.abandon();
}

}  // namespace tessera
