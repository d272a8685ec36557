// SPDX-License-Identifier: Apache-2.0
// Rules: torch/distributed/fsdp/wrap.py, one function for each policy.
#include "engine/wrap/policy_decision.h"

#include <fmt/format.h>

#include <algorithm>

#include "engine/text/json_reader.h"
#include "engine/text/nearest_word.h"

namespace tessera {
namespace {

// Policies that only choose (by class, by function) descend everywhere, since a module that they
// want may lie anywhere; only SizeWrap prunes, because below a small module there is no large one.
struct Decision {
  const Model& model;
  const Module& module;
  WrapQuestion question;
  Numel numel;

  bool descends() const { return question == WrapQuestion::descend; }

  bool operator()(const AlwaysWrap&) const { return true; }
  bool operator()(const ClassWrap& policy) const {
    return descends() || is_any_of(model, module, policy.classes);
  }
  bool operator()(const TransformerWrap& policy) const {
    return descends() || is_any_of(model, module, policy.classes);
  }
  bool operator()(const LambdaWrap& policy) const { return descends() || policy.wraps(module); }
  bool operator()(const FunctionWrap& policy) const {
    return policy.decides(module, descends(), numel);
  }
  // The two questions have two lists: below `force_leaf` nothing is wrapped, while `exclude` only
  // forbids to wrap the module itself, as a list of layers has no forward of its own.
  bool operator()(const SizeWrap& policy) const {
    const auto& not_these = descends() ? policy.force_leaf : policy.exclude;
    return numel >= policy.min_num_params && !is_any_of(model, module, not_these);
  }
  bool operator()(const CustomWrap&) const {
    TESSERA_ASSERT(false, "CustomWrap is run by the listing engine");
    return false;
  }
  bool operator()(const AnyOfWrap& any) const {
    return std::any_of(any.policies.begin(), any.policies.end(),
                       [this](const WrapPolicy& policy) { return std::visit(*this, policy); });
  }
};

// Everything that can be wrong about a policy is an error here, before any function of it is
// called.
struct Check {
  const Model& model;

  static Status error(const std::string& message) {
    return Status(Code::invalid_argument, message);
  }

  // A class that no module has is a misspelled one; torch gets types, which cannot be misspelled.
  Status classes(const std::set<std::string>& wanted) const {
    std::set<std::string_view> known;
    for (const Module& module : model.modules) known.insert(module.class_name);
    for (const auto& [name, bases] : model.class_bases) known.insert(bases.begin(), bases.end());
    for (const std::string& name : wanted) {
      if (known.contains(name)) continue;
      const std::string meant = did_you_mean(name, {known.begin(), known.end()});
      return error(
          fmt::format("{} has no module of class {}{}", model.name, in_quotes(name),
                      !meant.empty() ? meant : fmt::format(", it has {}", fmt::join(known, ", "))));
    }
    return {};
  }

  Status operator()(const AlwaysWrap&) const { return {}; }
  Status operator()(const ClassWrap& policy) const { return classes(policy.classes); }
  Status operator()(const TransformerWrap& policy) const { return classes(policy.classes); }
  Status operator()(const LambdaWrap& policy) const {
    return policy.wraps ? Status{} : error("LambdaWrap has no function");
  }
  Status operator()(const FunctionWrap& policy) const {
    return policy.decides ? Status{} : error("FunctionWrap has no function");
  }
  Status operator()(const SizeWrap&) const { return {}; }  // absent classes need no exception
  Status operator()(const CustomWrap& policy) const {
    return policy.choose ? Status{} : error("CustomWrap has no function");
  }
  Status operator()(const AnyOfWrap& any) const {
    if (any.policies.empty()) return error("AnyOfWrap has no policies");
    for (const WrapPolicy& policy : any.policies) {
      if (std::holds_alternative<CustomWrap>(policy)) {
        return error(
            "AnyOfWrap asks the same question of all its policies, and CustomWrap answers "
            "another one: give CustomWrap alone");
      }
      TESSERA_TRY(std::visit(*this, policy));
    }
    return {};
  }
};

}  // namespace

bool is_any_of(const Model& model, const Module& module, const std::set<std::string>& classes) {
  return std::any_of(classes.begin(), classes.end(),
                     [&](const std::string& name) { return model.is_a(module, name); });
}

bool decides(const WrapPolicy& policy, const Model& model, const Module& module,
             WrapQuestion question, Numel numel) {
  TESSERA_ASSERT(numel >= Numel{0}, "units below a module hold no more than lies below it");
  return std::visit(Decision{model, module, question, numel}, policy);
}

bool is_listing(const WrapPolicy& policy) {
  return std::holds_alternative<ClassWrap>(policy) || std::holds_alternative<CustomWrap>(policy);
}

Status check_policy(const WrapPolicy& policy, const Model& model) {
  return std::visit(Check{model}, policy);
}

}  // namespace tessera
