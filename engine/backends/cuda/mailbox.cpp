// SPDX-License-Identifier: Apache-2.0
#include "engine/backends/cuda/mailbox.h"

#include <algorithm>

#include "engine/backends/cuda/calls.h"

namespace tessera {

Mailbox::~Mailbox() {
  for (const Letter& letter : travelling_) {
    if (letter.copied != nullptr) events_.give_back(letter.copied);
  }
}

Result<Mailbox::Letter> Mailbox::take(std::size_t bytes) {
  TESSERA_TRY(collect());
  Letter letter;
  letter.bytes = bytes;
  const Bytes wanted{static_cast<std::int64_t>(bytes)};
  const auto fits = std::find_if(free_.begin(), free_.end(), [wanted](const auto& memory) {
    return memory->bytes() >= wanted;
  });
  if (fits != free_.end()) {
    letter.memory = std::move(*fits);
    free_.erase(fits);
  } else {
    letter.memory = std::make_unique<PinnedMemory>(api_);
    TESSERA_TRY(letter.memory->allocate(wanted));
  }
  return letter;
}

Status Mailbox::post(Letter letter, CudaStream stream) {
  travelling_.push_back(std::move(letter));  // the stream may use it, whatever happens now
  TESSERA_ASSIGN(travelling_.back().copied, events_.record(stream));
  return {};
}

Status Mailbox::send(std::span<const std::byte> from, std::span<std::byte> device,
                     CudaStream stream) {
  TESSERA_ASSIGN(Letter letter, take(from.size()));
  std::copy(from.begin(), from.end(), letter.memory->base());
  TESSERA_TRY(cuda_status(
      api_, api_.memcpy_async(device.data(), letter.memory->base(), from.size(), stream),
      "cudaMemcpyAsync"));
  return post(std::move(letter), stream);
}

Status Mailbox::receive(std::span<const std::byte> device, Then then, CudaStream stream) {
  TESSERA_ASSIGN(Letter letter, take(device.size()));
  TESSERA_TRY(cuda_status(
      api_, api_.memcpy_async(letter.memory->base(), device.data(), device.size(), stream),
      "cudaMemcpyAsync"));
  letter.then = std::move(then);
  return post(std::move(letter), stream);
}

Status Mailbox::collect() {
  std::vector<Letter> still;
  Status failed;
  for (Letter& letter : std::exchange(travelling_, {})) {
    const bool look = failed.ok() && letter.copied != nullptr;
    const auto over = look ? has_happened(api_, letter.copied) : Result<bool>(false);
    if (!over.ok()) failed = over.status();
    if (!over.ok() || !*over) {
      still.push_back(std::move(letter));
      continue;
    }
    if (letter.then) letter.then({letter.memory->base(), letter.bytes});
    events_.give_back(letter.copied);
    free_.push_back(std::move(letter.memory));
  }
  travelling_ = std::move(still);
  return failed;
}

void Mailbox::abandon() {
  for (const Letter& letter : travelling_) letter.memory->abandon();
  for (const auto& memory : free_) memory->abandon();
}

}  // namespace tessera
