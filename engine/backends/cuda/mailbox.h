// SPDX-License-Identifier: Apache-2.0
// Bytes between host and device that nobody waits for: tokens go, losses come.
//
// The idea: each travels through pinned memory of its own, which an event behind the copy frees for
// the next. In a run of equal steps the same pieces go round, and nothing is allocated.
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

  /// `from` may change afterwards.
  Status send(std::span<const std::byte> from, std::span<std::byte> device, CudaStream stream);
  /// `then` gets what the device's bytes are when the stream comes to this, from `collect`.
  Status receive(std::span<const std::byte> device, Then then, CudaStream stream);
  /// Hands over what has arrived so far.
  Status collect();
  /// Leaves the memory to the end of the process: somebody may still use it.
  void abandon();

 private:
  struct Letter {
    std::unique_ptr<PinnedMemory> memory;
    CudaEvent copied = nullptr;
    std::size_t bytes = 0;
    Then then;  // none: it was sent
  };
  Result<Letter> take(std::size_t bytes);
  Status post(Letter letter, CudaStream stream);

  const CudaApi& api_;
  EventPool& events_;
  std::vector<Letter> travelling_;  // in the order of the calls
  std::vector<std::unique_ptr<PinnedMemory>> free_;
};

}  // namespace tessera
