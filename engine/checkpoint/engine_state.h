// SPDX-License-Identifier: Apache-2.0
// What checkpoints need of an engine besides its numbers: who takes part, agreement between ranks,
// and writing what ranks hold.
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
  /// Fills `values` with elements of one tensor from `first` on, for that rank.
  using Source =
      std::function<Status(Rank, ParameterId, StateTensor, Numel first, std::span<float> values)>;

  /// Fails: not_supported (an Engine from elsewhere; of a part of the world; of several groups that
  /// train models of their own).
  static Result<EngineState> of(Engine& engine);

  ShardedState& state() const { return *state_; }
  const Model& model() const;
  std::int64_t steps_taken(ParameterId parameter) const;
  bool in_a_group(ParameterId parameter) const;
  Rank world_size() const;
  /// Those whose work happens in this process.
  std::vector<Rank> local_ranks() const;
  bool is_local(Rank rank) const;
  Status expect_idle(const char* call) const;

  /// value(rank) of every rank, here. Stops the host.
  Result<std::vector<float>> exchange(const std::function<float(Rank)>& value) const;
  /// The same for 64 bits.
  Result<std::vector<std::uint64_t>> exchange_wide(
      const std::function<std::uint64_t(Rank)>& value) const;
  /// `own`, if it is a failure; what failed on another rank otherwise. The same outcome on all.
  Status agree(const Status& own, const std::string& what) const;

  /// Every rank writes its own part of values and, if `steps` has any by ParameterId, of optimizer
  /// state. Parameters with 0 steps have none afterwards. Without `steps` state stays as it is.
  /// Fails: with what `source` failed with first.
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
