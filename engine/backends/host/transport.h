// SPDX-License-Identifier: Apache-2.0
// What one process asks of the others: bytes to and from the members of its group, without waiting.
//
// The idea: no arithmetic here. Reductions are all_to_all and a local sum in rank order, so that
// their result does not depend on the transport (MPI's own reductions may add in any order).
//
// All members of a group start the same calls in the same order. Memory that was passed in belongs
// to the transport until `test` says that the request is done.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "tessera/rank_set.h"
#include "tessera/status.h"
#include "tessera/types.h"

namespace tessera {

class Transport {
 public:
  using Request = std::int64_t;

  virtual ~Transport() = default;
  virtual Rank rank() const = 0;
  virtual Rank ranks() const = 0;

  /// This rank's group of `groups` is `id` from now on. Collective over all ranks.
  virtual Status add_communicator(CommunicatorId id, const RankGroups& groups) = 0;

  /// output = the inputs of all members, by index. `input` may be its own part of `output`.
  virtual Result<Request> all_gather(CommunicatorId id, std::span<const std::byte> input,
                                     std::span<std::byte> output) = 0;
  /// Part i of `output` is the own part of member i's `input`; both have equal parts.
  virtual Result<Request> all_to_all(CommunicatorId id, std::span<const std::byte> input,
                                     std::span<std::byte> output) = 0;
  /// As all_gather, but only index `root` receives; the others may pass no output.
  virtual Result<Request> gather(CommunicatorId id, Index root, std::span<const std::byte> input,
                                 std::span<std::byte> output) = 0;
  virtual Result<Request> broadcast(CommunicatorId id, Index root, std::span<std::byte> data) = 0;

  /// Whether `request` is done; then it is gone. Makes progress.
  /// Fails: communication_error, naming the rank that is lost if it is known.
  virtual Result<bool> test(Request request) = 0;
  /// Nothing could be done: give the processor to somebody else for a moment.
  virtual void idle() = 0;

  /// Sends a few kilobytes outside all collectives, without waiting. Letters arrive in order.
  /// False: `to` has not taken the last ones, try again later.
  virtual bool post(Rank to, std::string letter) = 0;
  struct Letter {
    Rank from = 0;
    std::string text;
  };
  /// The next letter that has come, if any.
  virtual Result<std::optional<Letter>> take() = 0;

  /// Ends the run of all ranks: from now on every call fails with `why`, here at once, elsewhere as
  /// soon as a rank hears it. Whoever calls first is heard.
  virtual void abort(const Status& why) = 0;
  /// Why the run has ended on this rank, by its own `abort` or one that it heard; or ok.
  virtual Status ended() const = 0;
};

}  // namespace tessera
