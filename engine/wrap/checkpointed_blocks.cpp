// SPDX-License-Identifier: Apache-2.0
// Rules: `apply_activation_checkpointing` (torch/distributed/algorithms/_checkpoint/
// checkpoint_wrapper.py), which hands any policy to the recursive engine.
#include <fmt/format.h>

#include "engine/model/path_pattern.h"
#include "engine/wrap/policy_decision.h"
#include "engine/wrap/recursive_wrap.h"

namespace tessera {

Result<std::vector<std::string>> checkpointed_blocks(const Model& model, const WrapPolicy& policy) {
  TESSERA_TRY(check_policy(policy, model));
  if (std::holds_alternative<CustomWrap>(policy)) {
    return Status(Code::invalid_argument,
                  "checkpointing has no settings of single blocks, which CustomWrap gives: choose "
                  "blocks by a LambdaWrap");
  }
  const ModuleGraph graph(model);
  TESSERA_ASSIGN(const IgnoredStates nothing, ignored_states(model, graph, {}));
  std::vector<std::string> paths;
  for (ModuleId id : wrap_recursively(model, graph, policy, nothing, true).modules) {
    const Module& module = model.module(id);
    if (!module.is_block) {
      return Status(Code::not_supported,
                    fmt::format("{}, a {}, is no block of {}: {}", module.path, module.class_name,
                                model.name, only_whole_blocks));
    }
    paths.push_back(module.path);
  }
  if (!paths.empty()) return paths;
  return Status(Code::invalid_argument, "the policy chooses no block to checkpoint");
}

}  // namespace tessera
