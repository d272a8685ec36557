// SPDX-License-Identifier: Apache-2.0
// Copies a few bytes between host and device without waiting: tokens to the device, losses back.
//
// The idea: each copy goes through a piece of pinned memory of its own, which an event behind the
// copy frees for the next. In a run of equal steps the same pieces are used again, and nothing is
// allocated.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "engine/backends/cuda/lane.h"
#include "engine/backends/cuda/staging.h"

namespace tessera {

class Mailbox {
 public:
  using Then = std::function<void(std::span<const std::byte>)>;

  /// `settle` waits until the device has nothing to do: pinning memory may wait for that inside of
  /// CUDA, where nobody looks at a deadline.
  Mailbox(const CudaApi& api, EventPool& events, std::function<Status()> settle)
      : api_(api), events_(events), settle_(std::move(settle)) {}
  Mailbox(const Mailbox&) = delete;
  Mailbox& operator=(const Mailbox&) = delete;
  ~Mailbox();

  /// Takes memory for the letters of most runs. REQUIRES: nothing has been enqueued yet.
  Status open();
  /// Copies `from`, which may change afterwards, to the device.
  Status send(std::span<const std::byte> from, std::span<std::byte> device, CudaStream stream);
  /// Copies the bytes that the device has when the stream comes to this; a later `collect` passes
  /// them to `then`.
  Status receive(std::span<const std::byte> device, Then then, CudaStream stream);
  /// Calls `then` for everything that has arrived so far.
  Status collect();
  /// Leaks the memory until the process ends: the device may still use it.
  void abandon();

 private:
  struct Transfer {
    std::byte* memory = nullptr;
    std::size_t room = 0;  // of the memory
    CudaEvent copied = nullptr;
    std::size_t bytes = 0;
    Then then;  // empty: a copy to the device
  };
  Status add_chunk(std::size_t bytes);
  Result<Transfer> take(std::size_t bytes);
  Status post(Transfer transfer, CudaStream stream);

  const CudaApi& api_;
  EventPool& events_;
  const std::function<Status()> settle_;
  std::vector<Transfer> travelling_;  // in the order of the calls
  std::vector<std::unique_ptr<PinnedMemory>> chunks_;
  std::span<std::byte> uncut_;                           // of the last chunk
  std::map<std::size_t, std::vector<std::byte*>> free_;  // by room
};

}  // namespace tessera
