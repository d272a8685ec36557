// SPDX-License-Identifier: Apache-2.0
#include "engine/backends/cuda/mailbox.h"

#include <algorithm>
#include <bit>

#include "engine/backends/cuda/calls.h"

namespace tessera {
namespace {

constexpr std::size_t chunk_bytes = 256 << 10;  // tokens and losses of most runs
constexpr std::size_t room_min = 64;            // a cache line

}  // namespace

Mailbox::~Mailbox() {
  for (const Transfer& transfer : travelling_) {
    if (transfer.copied != nullptr) events_.give_back(transfer.copied);
  }
}

Status Mailbox::open() { return add_chunk(chunk_bytes); }

Status Mailbox::add_chunk(std::size_t bytes) {
  auto chunk = std::make_unique<PinnedMemory>(api_);
  TESSERA_TRY(chunk->allocate(Bytes{static_cast<std::int64_t>(bytes)}));
  uncut_ = {chunk->base(), bytes};
  chunks_.push_back(std::move(chunk));
  return {};
}

Result<Mailbox::Transfer> Mailbox::take(std::size_t bytes) {
  TESSERA_TRY(collect());
  const std::size_t room = std::bit_ceil(std::max(bytes, room_min));
  std::vector<std::byte*>& free = free_[room];
  if (!free.empty()) {
    std::byte* const memory = free.back();
    free.pop_back();
    return Transfer{.memory = memory, .room = room, .bytes = bytes, .then = {}};
  }
  if (uncut_.size() < room) {
    TESSERA_TRY(settle_());
    TESSERA_TRY(add_chunk(std::max(room, chunk_bytes)));
  }
  std::byte* const memory = uncut_.data();
  uncut_ = uncut_.subspan(room);
  return Transfer{.memory = memory, .room = room, .bytes = bytes, .then = {}};
}

Status Mailbox::post(Transfer transfer, CudaStream stream) {
  travelling_.push_back(std::move(transfer));  // the stream may use it, whatever happens now
  TESSERA_ASSIGN(travelling_.back().copied, events_.record(stream));
  return {};
}

Status Mailbox::send(std::span<const std::byte> from, std::span<std::byte> device,
                     CudaStream stream) {
  TESSERA_ASSIGN(Transfer transfer, take(from.size()));
  std::copy(from.begin(), from.end(), transfer.memory);
  TESSERA_TRY(cuda_status(api_,
                          api_.memcpy_async(device.data(), transfer.memory, from.size(), stream),
                          "cudaMemcpyAsync"));
  return post(std::move(transfer), stream);
}

Status Mailbox::receive(std::span<const std::byte> device, Then then, CudaStream stream) {
  TESSERA_ASSIGN(Transfer transfer, take(device.size()));
  TESSERA_TRY(cuda_status(api_,
                          api_.memcpy_async(transfer.memory, device.data(), device.size(), stream),
                          "cudaMemcpyAsync"));
  transfer.then = std::move(then);
  return post(std::move(transfer), stream);
}

Status Mailbox::collect() {
  std::vector<Transfer> still;
  Status failed;
  for (Transfer& transfer : std::exchange(travelling_, {})) {
    const bool look = failed.ok() && transfer.copied != nullptr;
    const auto over = look ? has_happened(api_, transfer.copied) : Result<bool>(false);
    if (!over.ok()) failed = over.status();
    if (!over.ok() || !*over) {
      still.push_back(std::move(transfer));
      continue;
    }
    if (transfer.then) transfer.then({transfer.memory, transfer.bytes});
    events_.give_back(transfer.copied);
    free_[transfer.room].push_back(transfer.memory);
  }
  travelling_ = std::move(still);
  return failed;
}

void Mailbox::abandon() {
  for (const auto& chunk : chunks_) chunk->abandon();
}

}  // namespace tessera
