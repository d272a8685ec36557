// SPDX-License-Identifier: Apache-2.0
#include "engine/schemes/zero3/policy/fetch_policy.h"

#include "engine/schemes/zero3/policy/compatible_0_19_policy.h"
#include "engine/schemes/zero3/policy/strict_policy.h"

namespace tessera {

Status FetchPolicy::add_need(ModuleId module, ParameterId parameter) {
  if (ground_.needs.contain(module, parameter)) return {};
  ground_.needs.add(module, parameter);
  const Status fits = check();
  if (!fits.ok()) ground_.needs.remove(module, parameter);
  return fits;
}

std::string FetchPolicy::path(ModuleId module) const {
  return module == ModuleId{0} ? "root" : model().module(module).path;
}

std::vector<LiveParameter> FetchPolicy::live() const {
  std::vector<LiveParameter> out;
  for (const OnDemandParameter& p : parameters()) {
    if (p.copy.missing()) continue;
    LiveParameter live{.name = model().parameter(p.id).name, .bytes = mover().memory().of(p.id)};
    explain(p, live);
    out.push_back(std::move(live));
  }
  return out;
}

std::unique_ptr<FetchPolicy> make_fetch_policy(Zero3Policy policy, const PolicyGround& ground) {
  if (policy == Zero3Policy::strict) return std::make_unique<StrictPolicy>(ground);
  if (policy == Zero3Policy::compatible) return std::make_unique<CompatiblePolicy>(ground);
  return std::make_unique<Compatible019Policy>(ground);
}

}  // namespace tessera
