// SPDX-License-Identifier: Apache-2.0
// Moves bytes between the processes of a group, without waiting.
//
// The idea: a transport does no arithmetic. Reductions are all_to_all and a local sum in rank
// order, so that results do not depend on the transport (MPI's own reductions may add in any
// order).
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

  /// Makes `id` stand for this rank's group of `groups`. Collective over all ranks.
  virtual Status add_communicator(CommunicatorId id, const RankGroups& groups) = 0;

  /// output = the inputs of all members, by index. `input` may be its own part of `output`.
  virtual Result<Request> all_gather(CommunicatorId id, std::span<const std::byte> input,
                                     std::span<std::byte> output) = 0;
  /// Member i's `input` has one part per member, and this member's goes to part i of `output`; all
  /// parts are equally large.
  virtual Result<Request> all_to_all(CommunicatorId id, std::span<const std::byte> input,
                                     std::span<std::byte> output) = 0;
  /// As all_gather, but only index `root` receives; the others may pass no output.
  virtual Result<Request> gather(CommunicatorId id, Index root, std::span<const std::byte> input,
                                 std::span<std::byte> output) = 0;
  virtual Result<Request> broadcast(CommunicatorId id, Index root, std::span<std::byte> data) = 0;

  /// Makes progress and returns whether `request` is done; true ends the request.
  /// Fails: communication_error, naming the rank that is lost if it is known.
  virtual Result<bool> test(Request request) = 0;
  /// Yields the processor for a moment, after a turn without progress.
  virtual void idle() = 0;

  /// Sends a few kilobytes outside all collectives, without waiting. Messages arrive in order.
  /// Returns false if `to` has not taken earlier ones: try again later.
  virtual bool post(Rank to, std::string text) = 0;
  struct Message {
    Rank from = 0;
    std::string text;
  };
  /// The next message that has arrived, if any.
  virtual Result<std::optional<Message>> take() = 0;

  /// Ends the run of all ranks: from now on every call fails with `why`, here at once, elsewhere as
  /// soon as the rank receives it. The first call of any rank wins.
  virtual void abort(const Status& why) = 0;
  /// The reason why the run has ended on this rank, by its own or another's `abort`; or ok.
  virtual Status ended() const = 0;
};

}  // namespace tessera
