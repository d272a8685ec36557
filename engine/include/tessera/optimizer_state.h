// SPDX-License-Identifier: Apache-2.0
// Reads the optimizer's state out of an engine and loads it into one, for every scheme and number
// of ranks.
//
// The idea: state is named by what it belongs to and not by who holds it: a range of elements of
// one tensor (exp_avg, exp_avg_sq) of one parameter. Ranges stream through one small buffer, so no
// device ever holds more than `staging` bytes of other ranks' state, and a checkpoint may write
// them as they come.
//
//   TESSERA_ASSIGN(const OptimizerState saved, consolidate_optimizer_state(*engine, {}));
//   ...                                            // another scheme, another number of ranks
//   TESSERA_TRY(load_optimizer_state(*other, saved));
//
//   read_optimizer_state(*engine, {.recipient = all_ranks}, [&](Rank rank, const StateRange& r) {
//     file.write_at(offset_of(r.parameter, r.tensor) + r.first, r.values);   // streamed
//   });
//
// Parameters that were never stepped have no state. Everything runs on the compute stream, after
// all that was submitted before, between two steps. Behaviour: fairscale's
// OSS.consolidate_state_dict and load_state_dict, without objects on devices, stale copies, or a
// loaded value that is changed.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "tessera/engine.h"

namespace tessera {

/// The tensors of a parameter. `value` is no optimizer state; checkpoints name it in the same way.
enum class StateTensor : std::uint8_t { exp_avg, exp_avg_sq, value };

/// Elements [first, first + values.size()) of one tensor.
struct StateRange {
  ParameterId parameter;
  StateTensor tensor = StateTensor::exp_avg;
  Numel first{};
  std::span<const float> values;  // until the call returns
};

inline constexpr Rank all_ranks = -1;

struct ReadStateOptions {
  Rank recipient = 0;         // a rank, or all_ranks
  Bytes staging{16LL << 20};  // device memory that reading may take at most
};

/// How AdamW's states are kept that are loaded before the first step, which then says the same
/// (AdamOptions::state_type). Fails: not_supported (an engine of another library; a type that no
/// step changes beside what is stepped, naming it).
Status keep_optimizer_states_as(Engine& engine, std::optional<StateType> type);

/// Calls `range` on the recipients with every element of all state once, parameter by parameter
/// within what a rank holds. Has run when this returns; not at all where a runtime keeps no
/// numbers. With several independent process groups a recipient gets the state of its own.
/// Fails: invalid_argument (in forward or backward, a recipient that does not exist, too little
/// staging for one element of every rank), naming it; not_supported (an optimizer that keeps other
/// states than AdamW's 2, in the parameters' own dtype or in bfloat16 beside float32);
/// out_of_memory.
Status read_optimizer_state(Engine& engine, const ReadStateOptions& options,
                            const std::function<void(Rank, const StateRange&)>& range);

/// As read_optimizer_state, for the parameters' own values. For a parameter that is in no unit a
/// recipient gets its own copy.
Status read_parameters(Engine& engine, const ReadStateOptions& options,
                       const std::function<void(Rank, const StateRange&)>& range);

struct ParameterState {
  std::string name;
  std::int64_t step = 0;
  std::vector<float> exp_avg, exp_avg_sq;
};

/// One entry per parameter that was stepped, in the order of the model.
struct OptimizerState {
  std::vector<ParameterState> parameters;
};

/// Reads all optimizer state and returns what `recipient` received (with all_ranks rank 0's copy;
/// all are equal), in host memory. Fails: as read_optimizer_state.
Result<OptimizerState> consolidate_optimizer_state(Engine& engine, const ReadStateOptions& options);

/// Every rank takes its own part of `state`, without communication. Parameters that `state` does
/// not name have no state afterwards, as if they were never stepped. Fails: invalid_argument (in
/// forward or backward; a parameter that the model does not have, that is in no param group or has
/// another size), naming it; not_supported (as read_optimizer_state). Nothing has changed then.
Status load_optimizer_state(Engine& engine, const OptimizerState& state);

}  // namespace tessera
