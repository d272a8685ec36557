// SPDX-License-Identifier: Apache-2.0
#include "engine/wrap/recursive_wrap.h"

#include <algorithm>

#include "engine/wrap/policy_decision.h"

namespace tessera {
namespace {

class Recursion {
 public:
  Recursion(const Model& model, const ModuleGraph& graph, const WrapPolicy& policy,
            const IgnoredStates& ignored)
      : model_(model), graph_(graph), policy_(policy), ignored_(ignored) {
    met_.assign(model.modules.size(), false);
    held_.assign(model.parameters.size(), false);
  }

  // Wraps from `id` down and returns the elements below it that units hold afterwards. Children
  // come before the module itself, so that a policy by size sees only the elements that are left:
  // this is what makes SizeWrap build units of about one size instead of wrapping every ancestor.
  Numel wrap(ModuleId id, bool only_children) {
    TESSERA_ASSERT(!met_[id.index()], "a module is asked about once");
    met_[id.index()] = true;
    const std::vector<ParameterId> below = managed_below(id);
    const Numel total = sum(below, [](ParameterId) { return true; });
    if (!asks(id, WrapQuestion::descend, total)) return Numel{};
    for (ModuleId child : graph_.children(id)) {
      // A module that is registered twice was wrapped under all its names when it was met first.
      if (!ignored_.modules[child.index()] && !met_[child.index()])
        wrap(child, /*only_children=*/false);
    }
    // Each tensor counts once, where torch's subtraction takes one shared by two units off twice.
    const Numel held = sum(below, [this](ParameterId p) { return held_[p.index()]; });
    TESSERA_ASSERT(held <= total, "units below hold elements that lie below");
    if (only_children || !asks(id, WrapQuestion::wrap, total - held)) return held;
    wrapped_.push_back(id);
    for (ParameterId p : below) held_[p.index()] = true;
    return total;
  }

  std::vector<ModuleId> take() {
    std::sort(wrapped_.begin(), wrapped_.end());
    return std::move(wrapped_);
  }

 private:
  bool asks(ModuleId id, WrapQuestion question, Numel numel) const {
    return decides(policy_, model_, model_.module(id), question, numel);
  }

  std::vector<ParameterId> managed_below(ModuleId id) const {
    std::vector<ParameterId> below = graph_.parameters_below(id);
    std::erase_if(below, [this](ParameterId p) { return ignored_.parameters[p.index()]; });
    return below;
  }

  template <class Wanted>
  Numel sum(const std::vector<ParameterId>& parameters, Wanted wanted) const {
    Numel total{};
    for (ParameterId p : parameters) {
      if (wanted(p)) total += model_.parameter(p).numel();
    }
    return total;
  }

  const Model& model_;
  const ModuleGraph& graph_;
  const WrapPolicy& policy_;
  const IgnoredStates& ignored_;
  std::vector<bool> met_;   // by ModuleId
  std::vector<bool> held_;  // by ParameterId: some unit manages it
  std::vector<ModuleId> wrapped_;
};

}  // namespace

RecursiveWrap wrap_recursively(const Model& model, const ModuleGraph& graph,
                               const WrapPolicy& policy, const IgnoredStates& ignored,
                               bool only_children) {
  Recursion recursion(model, graph, policy, ignored);
  const Numel numel = recursion.wrap(ModuleId{0}, only_children);
  return {recursion.take(), numel};
}

}  // namespace tessera
