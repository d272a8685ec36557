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

Status FileCopies::allocate(BufferId buffer, const Allocation& request) {
  if (!is_open()) {
    constexpr Bytes bytes{static_cast<std::int64_t>(2 * word_distance) * stream_count_max};
    TESSERA_TRY(words_.allocate(bytes));
    std::memset(words_.base(), 0, static_cast<std::size_t>(bytes.value));
  }
  const std::lock_guard lock(mutex_);
  return files_.allocate(buffer, request, rank_);
}

Status FileCopies::make_sums(BufferId file, Bytes bytes) {
  const std::size_t blocks =
      files_.slot_of(file, rank_).file->block_count(static_cast<std::size_t>(bytes.value));
  const Bytes wanted{static_cast<std::int64_t>(blocks * sizeof(std::uint64_t))};
  const auto fits = std::find_if(spare_.begin(), spare_.end(), [&](const Sums::node_type& node) {
    return node.mapped().bytes() >= wanted;
  });
  Sums made;
  if (fits == spare_.end()) {
    TESSERA_TRY(made.try_emplace(file, api_).first->second.allocate(wanted));
  } else {
    fits->key() = file;
    made.insert(std::move(*fits));
    spare_.erase(fits);
  }
  const std::lock_guard lock(mutex_);
  sums_.merge(made);
  return {};
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
  const std::lock_guard lock(mutex_);
  queues_.push_back({.stream = stream, .place = queues_.size(), .copies = {}});
  return &queues_.back();
}

std::uint32_t* FileCopies::opened_word(const Queue& queue) const {
  return reinterpret_cast<std::uint32_t*>(words_.base() + 2 * queue.place * word_distance);
}

std::uint32_t* FileCopies::reached_word(const Queue& queue) const {
  return reinterpret_cast<std::uint32_t*>(words_.base() + (2 * queue.place + 1) * word_distance);
}

// Numbers are compared modulo 2^32, as the device does. What the stream wrote before is here, too.
bool FileCopies::reached(const Queue& queue, std::uint32_t gate) const {
  const std::uint32_t last = std::atomic_ref(*reached_word(queue)).load(std::memory_order_acquire);
  return static_cast<std::int32_t>(last - gate) >= 0;
}

Status FileCopies::add_gate(const Queue& queue, std::uint32_t gate) {
  TESSERA_TRY(cuda_status(api_, api_.stream_write_value(queue.stream, reached_word(queue), gate),
                          "cuStreamWriteValue32"));
  return cuda_status(api_, api_.stream_wait_value(queue.stream, opened_word(queue), gate),
                     "cuStreamWaitValue32");
}

// The release orders the transfer's bytes before the number that lets the stream go on.
void FileCopies::open_gates(Queue& queue, std::uint32_t gates) {
  queue.opened += gates;
  std::atomic_ref(*opened_word(queue)).store(queue.opened, std::memory_order_release);
}

// On the stream: [checksums of a write], gate, [checksums of a read, gate]. Whoever polls follows:
// when the gate is reached the transfer starts, when that is over the gate opens; at the second one
// the checksums are compared. The copy is known before its gate is: nobody looks for it too late.
Status FileCopies::submit(CopyRoute route, std::vector<Piece> pieces, CudaStream stream) {
  TESSERA_ASSIGN(Queue* const queue, queue_of(stream));
  const bool checked_there = route == CopyRoute::nvme_to_device;
  const Waiting* copy = nullptr;
  std::uint32_t gate = 0;
  {
    const std::lock_guard lock(mutex_);
    TESSERA_TRY(failed_);
    gate = queue->gates + 1;
    queue->gates += checked_there ? 2 : 1;
    queue->copies.push_back({.number = next_++,
                             .route = route,
                             .pieces = std::move(pieces),
                             .gate = gate,
                             .moving = {}});
    copy = &queue->copies.back();  // it stays, and stays the same, until its last gate is reached
  }
  if (route == CopyRoute::device_to_nvme) TESSERA_TRY(sum(*copy, stream));
  if (checked_there) {
    TESSERA_TRY(add_gate(*queue, gate));
    TESSERA_TRY(sum(*copy, stream));
    ++gate;
  }
  return add_gate(*queue, gate);
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

// Copies of one stream are served in order, as the stream has come to no later gate before.
Result<FileCopies::Seen> FileCopies::advance(Queue& queue) {
  if (queue.copies.empty()) return Seen::idle;
  TESSERA_ASSERT(queue.opened != queue.gates, "a waiting copy has a closed gate");
  Waiting& next = queue.copies.front();
  const std::int64_t before = steps_;
  if (!next.moved) {
    if (!next.moving) {
      if (!reached(queue, next.gate)) return Seen::waits_for_device;
      start(next);
      ++steps_;
    }
    TESSERA_ASSIGN(next.moved, next.moving->advance());
    if (!next.moved) return before == steps_ ? Seen::waits_for_drive : Seen::progress;
    next.moving.reset();
    open_gates(queue, 1);
    ++steps_;
  }
  if (next.route == CopyRoute::nvme_to_device) {
    if (!reached(queue, next.gate + 1)) {
      return before == steps_ ? Seen::waits_for_device : Seen::progress;
    }
    TESSERA_TRY(check(next));
    open_gates(queue, 1);
  }
  queue.copies.pop_front();
  ++steps_;
  return Seen::progress;
}

// The most that any queue says.
Result<FileCopies::Seen> FileCopies::advance_queues() {
  Seen most = Seen::idle;
  for (Queue& queue : queues_) {
    TESSERA_ASSIGN(const Seen own, advance(queue));
    most = std::max(most, own);
  }
  return most;
}

Result<bool> FileCopies::advance() {
  const std::lock_guard lock(mutex_);
  TESSERA_TRY(failed_);
  TESSERA_TRY(advance_queues().status());
  release_slots();
  return std::exchange(seen_, steps_) != steps_;
}

Result<FileCopies::Seen> FileCopies::serve() {
  const std::lock_guard lock(mutex_);
  return advance_queues();
}

void FileCopies::fail(const Status& why) {
  const std::lock_guard lock(mutex_);
  failed_ = why;
  for (Queue& queue : queues_) open_gates(queue, queue.gates - queue.opened);
}

void FileCopies::release(BufferId buffer) {
  const std::lock_guard lock(mutex_);
  leaving_.emplace_back(next_, buffer);
  release_slots();
}

// A slot can be freed when all copies that were submitted before its release are over. Queues are
// in order, so the oldest copy of each says how far it is. Its checksums' memory waits for another
// file: to free it would stop the device.
void FileCopies::release_slots() {
  std::int64_t over = next_;
  for (const Queue& queue : queues_) {
    if (!queue.copies.empty()) over = std::min(over, queue.copies.front().number);
  }
  for (; !leaving_.empty() && leaving_.front().first <= over; leaving_.pop_front()) {
    files_.release(leaving_.front().second, rank_);
    Sums::node_type sums = sums_.extract(leaving_.front().second);
    if (!sums.empty()) spare_.push_back(std::move(sums));
  }
}

void FileCopies::give_up() {
  const std::lock_guard lock(mutex_);
  failed_ = {};  // whoever gives up knows why
  for (Queue& queue : queues_) {
    queue.copies.clear();
    if (words_.base() != nullptr) open_gates(queue, queue.gates - queue.opened);
  }
}

void FileCopies::abandon() {
  words_.abandon();
  for (auto& [file, sums] : sums_) sums.abandon();
  for (Sums::node_type& sums : spare_) sums.mapped().abandon();
}

}  // namespace tessera
