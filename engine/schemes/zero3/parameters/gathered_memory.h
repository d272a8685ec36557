// SPDX-License-Identifier: Apache-2.0
// Device memory of gathered parameters: their copies and the buffers of gathers, and the account of
// both that a budget is compared with.
#pragma once

#include <span>

#include "engine/schemes/zero3/parameters/on_demand_parameter.h"
#include "engine/schemes/zero3/parameters/operations.h"
#include "engine/schemes/zero3/parameters/zero3_facts.h"

namespace tessera {

class GatheredMemory {
 public:
  /// All must outlive it.
  GatheredMemory(Operations& operations, const Zero3Facts& facts,
                 const OnDemandParameters& parameters)
      : operations_(operations), facts_(facts), parameters_(parameters) {}

  /// The bytes of gathered parameters now, buffers of gathers included.
  Bytes live() const { return live_; }
  /// The bytes that the end of gathers in flight will need besides: their buffers go when the
  /// copies out of them exist.
  Bytes promised() const { return promised_; }
  /// The most that one gather of these needs at any time, its end included.
  Bytes most_of(std::span<const ParameterId> parameters) const;
  /// The same of `count` parameters of which `bytes` stay.
  Bytes most_of(Bytes bytes, std::size_t count) const {
    return count > 1 && facts_.ranks > 1 ? 2 * bytes : bytes;
  }
  /// The bytes that stay of it.
  Bytes of(ParameterId parameter) const;

  View view(const OnDemandParameter& p) const {
    return View::whole(p.copy.buffer(), facts_.param_dtype(), p.partition * facts_.ranks);
  }
  Status allocate(OnDemandParameter& p, StreamId stream, const Cause& why);
  Status free(OnDemandParameter& p, EventId after);
  /// The buffer of a gather of several parameters, until it is split.
  Result<BufferId> allocate_flat(std::int32_t gather, Numel numel, const Cause& why);
  Status release_flat(BufferId& flat, Numel numel, EventId after);

 private:
  Operations& operations_;
  const Zero3Facts& facts_;
  const OnDemandParameters& parameters_;
  Bytes live_{}, promised_{};
};

}  // namespace tessera
