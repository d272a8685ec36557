// SPDX-License-Identifier: Apache-2.0
// Copies a few bytes between host and device without waiting: tokens to the device, losses back.
//
// The idea: each copy goes through pinned memory of its own, which an event behind the copy frees
// for the next. In a run of equal steps the same pieces are used again, and nothing is allocated.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "engine/backends/cuda/lane.h"
#include "engine/backends/cuda/staging.h"

namespace tessera {

class Mailbox {
 public:
  using Then = std::function<void(std::span<const std::byte>)>;

  Mailbox(const CudaApi& api, EventPool& events) : api_(api), events_(events) {}
  Mailbox(const Mailbox&) = delete;
  Mailbox& operator=(const Mailbox&) = delete;
  ~Mailbox();

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
    std::unique_ptr<PinnedMemory> memory;
    CudaEvent copied = nullptr;
    std::size_t bytes = 0;
    Then then;  // empty: a copy to the device
  };
  Result<Transfer> take(std::size_t bytes);
  Status post(Transfer transfer, CudaStream stream);

  const CudaApi& api_;
  EventPool& events_;
  std::vector<Transfer> travelling_;  // in the order of the calls
  std::vector<std::unique_ptr<PinnedMemory>> free_;
};

}  // namespace tessera
