// SPDX-License-Identifier: Apache-2.0
// The communication of a trace: one broadcast of rank 0, and gathers of all ranks' times to rank 0.
#pragma once

#include <memory>

#include "engine/backends/host/transport.h"

namespace tessera {

class TraceLink {
 public:
  using Request = Transport::Request;

  virtual ~TraceLink() = default;
  virtual Rank rank() const = 0;
  virtual Rank ranks() const = 0;
  /// Whether ranks may start a gather whenever they are ready; otherwise only at the same place in
  /// their order of operations, and nothing else before it is over.
  virtual bool at_any_time() const = 0;

  // All ranks start the same calls in the same order. Memory that was passed in belongs to the link
  // until `test` returns true, which also ends the request.
  virtual Result<Request> broadcast(std::span<std::byte> data) = 0;
  /// Gathers every rank's `own`, by rank, in `all` of rank 0; the others pass an empty one.
  virtual Result<Request> gather(std::span<const std::byte> own, std::span<std::byte> all) = 0;
  virtual Result<bool> test(Request request) = 0;

  /// Ends the run of all ranks.
  virtual void abort(const Status& why) = 0;
  /// Leaks the memory of pending requests until the process ends: a device may still use it.
  virtual void abandon() {}
};

/// A link through a transport, on a communicator of its own, so that its calls need no order
/// relative to others. Collective over all ranks; `transport` must outlive it.
Result<std::unique_ptr<TraceLink>> trace_link_of(Transport& transport);

}  // namespace tessera
