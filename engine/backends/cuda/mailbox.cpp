// SPDX-License-Identifier: Apache-2.0
#include "engine/backends/cuda/mailbox.h"

#include <algorithm>

#include "engine/backends/cuda/calls.h"

namespace tessera {

Mailbox::~Mailbox() {
  for (const Transfer& transfer : travelling_) {
    if (transfer.copied != nullptr) events_.give_back(transfer.copied);
  }
}

Result<Mailbox::Transfer> Mailbox::take(std::size_t bytes) {
  TESSERA_TRY(collect());
  Transfer transfer;
  transfer.bytes = bytes;
  const Bytes wanted{static_cast<std::int64_t>(bytes)};
  const auto fits = std::find_if(free_.begin(), free_.end(), [wanted](const auto& memory) {
    return memory->bytes() >= wanted;
  });
  if (fits != free_.end()) {
    transfer.memory = std::move(*fits);
    free_.erase(fits);
  } else {
    transfer.memory = std::make_unique<PinnedMemory>(api_);
    TESSERA_TRY(transfer.memory->allocate(wanted));
  }
  return transfer;
}

Status Mailbox::post(Transfer transfer, CudaStream stream) {
  travelling_.push_back(std::move(transfer));  // the stream may use it, whatever happens now
  TESSERA_ASSIGN(travelling_.back().copied, events_.record(stream));
  return {};
}

Status Mailbox::send(std::span<const std::byte> from, std::span<std::byte> device,
                     CudaStream stream) {
  TESSERA_ASSIGN(Transfer transfer, take(from.size()));
  std::copy(from.begin(), from.end(), transfer.memory->base());
  TESSERA_TRY(cuda_status(
      api_, api_.memcpy_async(device.data(), transfer.memory->base(), from.size(), stream),
      "cudaMemcpyAsync"));
  return post(std::move(transfer), stream);
}

Status Mailbox::receive(std::span<const std::byte> device, Then then, CudaStream stream) {
  TESSERA_ASSIGN(Transfer transfer, take(device.size()));
  TESSERA_TRY(cuda_status(
      api_, api_.memcpy_async(transfer.memory->base(), device.data(), device.size(), stream),
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
    if (transfer.then) transfer.then({transfer.memory->base(), transfer.bytes});
    events_.give_back(transfer.copied);
    free_.push_back(std::move(transfer.memory));
  }
  travelling_ = std::move(still);
  return failed;
}

void Mailbox::abandon() {
  for (const Transfer& transfer : travelling_) transfer.memory->abandon();
  for (const auto& memory : free_) memory->abandon();
}

}  // namespace tessera
