// SPDX-License-Identifier: Apache-2.0
// The part of an engine that checkpoints use, besides its numbers: its ranks, an agreement between
// them, and writing the values and states that they hold.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tessera/optimizer_state.h"

namespace tessera {

class ShardedState;

class EngineState {
 public:
  /// Fills `values` with the elements of one tensor from `first` on, for one rank.
  using Source =
      std::function<Status(Rank, ParameterId, StateTensor, Numel first, std::span<float> values)>;

  /// The state of `engine`, which must outlive it. Fails: not_supported (an Engine that another
  /// library implements, one on a part of the world, one whose groups train models of their own).
  static Result<EngineState> of(Engine& engine);

  ShardedState& state() const { return *state_; }
  const Model& model() const;
  std::int64_t steps_taken(ParameterId parameter) const;
  bool in_a_group(ParameterId parameter) const;
  Rank world_size() const;
  /// The ranks whose work happens in this process.
  std::vector<Rank> local_ranks() const;
  bool is_local(Rank rank) const;
  Status expect_idle(const char* call) const;

  /// Gathers value(rank) of every rank, so that all ranks see all of them. The host waits for it.
  Result<std::vector<float>> exchange(const std::function<float(Rank)>& value) const;
  /// As `exchange`, for 64 bits, which a float cannot hold.
  Result<std::vector<std::uint64_t>> exchange_wide(
      const std::function<std::uint64_t(Rank)>& value) const;
  /// Makes a failure of one rank a failure of all. Returns `own` if it failed, otherwise the
  /// failure of another rank, and success only if `own` succeeded on every rank.
  Status agree(const Status& own, const std::string& what) const;

  /// Every rank fills its part of the values from `source` and, if `steps` (by ParameterId) is
  /// given, its part of the optimizer state; a parameter with 0 steps then has no state. Without
  /// `steps` the state stays as it is. Fails: with the first failure of `source`.
  Status write(const std::vector<std::int64_t>* steps, const Source& source) const;

 private:
  explicit EngineState(ShardedState& state) : state_(&state) {}
  struct Writing;
  Status write_moments(const std::shared_ptr<Writing>& writing) const;
  Status write_values(const std::shared_ptr<Writing>& writing) const;
  Status write_to(const RankSet& ranks, Compute work) const;

  ShardedState* state_;
};

}  // namespace tessera
