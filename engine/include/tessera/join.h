// SPDX-License-Identifier: Apache-2.0
// Uneven inputs with replicate: some ranks run out of batches before others.
//
// The idea: a rank without inputs joins. From then on it takes part in every collective of a step
// with zeros, and computes nothing, so that the others neither hang nor notice.
//
//   TESSERA_ASSIGN(Join join, Join::enter(*engine));
//   while (!with_input.empty()) {
//     TESSERA_TRY(join.step(with_input));
//     TESSERA_TRY(run_training_step(*engine, model, training));  // for the ranks with input only
//     with_input = ...;
//   }
//   TESSERA_TRY(join.finish());  // everybody gets the model of a rank that worked longest
//
// Collectives that the model itself issues (batch normalisation over ranks) are not shadowed.
// The bias correction of Adam counts the steps of the engine, also for ranks that joined.
// Behaviour: torch.nn.parallel.DistributedDataParallel.join.
#pragma once

#include "tessera/engine.h"

namespace tessera {

class GradientReducer;

struct JoinOptions {
  /// true: gradients are divided by the world size, so a rank that joined counts as a gradient of
  /// zero. false: by the number of ranks that still have inputs.
  bool divide_by_initial_world_size = true;
  /// The first rank that runs out of inputs ends training with an error on every rank.
  bool throw_on_early_termination = false;
};

/// While a Join lives, ranks without inputs shadow the collectives of the others; it ends with
/// `finish`. At most one per engine.
class Join {
 public:
  /// `engine` must outlive the Join. Fails: invalid_argument, if it was made by another scheme, is
  /// in the middle of a step, or is being joined already.
  static Result<Join> enter(Engine& engine, const JoinOptions& options = {});

  /// Announces which ranks have inputs for the next step; before each step.
  /// Fails: invalid_argument (no rank or an unknown one, a rank that has joined already, the middle
  /// of a step; with throw_on_early_termination: a rank without input), naming the ranks.
  Status step(const RankSet& with_input);

  /// Broadcasts the model from the largest rank among those that had inputs longest.
  /// Fails: invalid_argument, in the middle of a step.
  Status finish();

  /// "" or a sentence for people: ranks have shadowed more than 1000 steps.
  const std::string& warning() const;

 private:
  explicit Join(GradientReducer& reducer) : reducer_(&reducer) {}

  GradientReducer* reducer_;
};

}  // namespace tessera
