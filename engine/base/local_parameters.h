// SPDX-License-Identifier: Apache-2.0
// Parameters that are in no unit: they are whole on every rank, and their gradients stay there.
#pragma once

#include <vector>

#include "engine/base/issuer.h"

namespace tessera {

class LocalParameters {
 public:
  /// `issuer` must outlive it.
  explicit LocalParameters(Issuer& issuer) : issuer_(issuer) {}

  Status add(ParameterId id, DType dtype);

  /// The parameter's shard, which is all of it, or nullptr: it is in a unit.
  const ParamShard* find(ParameterId id) const;
  /// Its gradient of this backward pass. REQUIRES: find(id).
  Result<View> gradient_view(ParameterId id);
  /// Names those that several ranks train.
  std::vector<std::string> warnings() const;
  /// All that the optimizer steps here, with gradients of all backward passes since the last step.
  std::vector<ParamShard*> shards();

  /// At the end of a backward pass: its gradients become, or are added to, those of the step.
  Status accumulate();
  Status free_gradients(EventId stepped);

 private:
  struct Local {
    ParameterId id;
    ParamShard shard;
    BufferId fresh;     // gradient of this backward pass
    BufferId gradient;  // of all since the last step
  };

  Issuer& issuer_;
  std::vector<Local> all_;
};

}  // namespace tessera
