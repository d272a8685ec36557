// SPDX-License-Identifier: Apache-2.0
#include "engine/schemes/zero3/policy/module_trace.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "tessera/assert.h"

namespace tessera {
namespace {

std::string names_of(const Model& model, const std::set<ParameterId>& parameters) {
  std::vector<std::string_view> names;
  for (ParameterId id : parameters) names.push_back(model.parameter(id).name);
  return names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", "));
}

}  // namespace

// The rest of the step is not recorded: only a whole step makes a record.
void ModuleTrace::invalidate() {
  mode_ = Mode::invalid;
  modules_.clear();
  uses_.clear();
  queue_.clear();
  fetched_for_.clear();
}

// Compared visit by visit: the first difference throws everything away, as in DeepSpeed, even if
// the step goes on as recorded.
bool ModuleTrace::visit(ModuleId module) {
  if (mode_ == Mode::record) modules_.push_back(module);
  if (mode_ != Mode::complete) return true;
  const auto step = static_cast<std::size_t>(step_);
  if (step < modules_.size() && modules_[step] == module) return true;
  invalidate();
  return false;
}

bool ModuleTrace::fetched_later(ParameterId parameter, std::int32_t step) const {
  const auto found = fetched_for_.find(parameter);
  return found != fetched_for_.end() && found->second > step;
}

// The queue is in the order of visits, so what the visit needs must be in front, except what an
// earlier look ahead took out for this very visit.
Status ModuleTrace::take(ModuleId module) {
  TESSERA_ASSERT(complete(), "only a complete trace is replayed");
  std::set<ParameterId> expected;  // not fetched by an earlier look ahead
  for (ParameterId id : needs_[module.index()]) {
    if (!fetched_later(id, step_ - 1)) expected.insert(id);
  }
  std::set<ParameterId> found;
  while (!queue_.empty() && found.size() < expected.size()) {
    const Use use = queue_.front();
    queue_.pop_front();
    fetched_for_[use.parameter] = use.step;
    found.insert(use.parameter);
  }
  if (found == expected) return {};
  return Status(
      Code::invalid_argument,
      fmt::format("tracing error at step {}: module '{}' needs {}, but {} was recorded; its "
                  "parameters changed after they were recorded",
                  step_, model_.module(module).path, names_of(model_, expected),
                  names_of(model_, found)));
}

// The budget is compared before the next one is added, so it is exceeded by up to one parameter;
// uses of what is there already cost nothing and are passed over.
std::vector<ParameterId> ModuleTrace::ahead(Numel budget,
                                            const std::function<bool(ParameterId)>& missing,
                                            const std::function<bool(ParameterId)>& unread) {
  std::vector<ParameterId> chosen;
  Numel numel{};
  while (!queue_.empty() && numel < budget) {
    const Use use = queue_.front();
    if (unread && unread(use.parameter)) break;
    queue_.pop_front();
    std::int32_t& fetched_for = fetched_for_[use.parameter];
    fetched_for = std::max(fetched_for, use.step);
    const bool twice = std::find(chosen.begin(), chosen.end(), use.parameter) != chosen.end();
    if (twice || !missing(use.parameter)) continue;
    chosen.push_back(use.parameter);
    numel += model_.parameter(use.parameter).numel();
  }
  return chosen;
}

// All but what the modules visited next use, looking at `reuse_distance` elements or a little more.
void ModuleTrace::find_releasable(ModuleId module, Numel reuse_distance,
                                  std::vector<ParameterId>& out) const {
  TESSERA_ASSERT(used_before_.size() == modules_.size() + 1, "a complete trace has its index");
  const auto now = std::min(static_cast<std::size_t>(step_), modules_.size());
  const auto from = used_before_.begin() + static_cast<std::ptrdiff_t>(now);
  const auto beyond = std::lower_bound(from, used_before_.end(), *from + reuse_distance);
  const auto seen = static_cast<std::int32_t>(
      std::min<std::ptrdiff_t>(beyond - used_before_.begin(), std::ssize(modules_)));
  for (ParameterId id : needs_[module.index()]) {
    if (fetched_later(id, step_)) continue;
    const std::vector<std::int32_t>& visits = visits_[id.index()];
    const auto next = std::lower_bound(visits.begin(), visits.end(), step_);
    if (next == visits.end() || *next >= seen) out.push_back(id);
  }
}

void ModuleTrace::index_uses() {
  visits_.assign(model_.parameters.size(), {});
  used_before_.assign(modules_.size() + 1, Numel{});
  for (const Use& use : uses_) {
    visits_[use.parameter.index()].push_back(use.step);
    used_before_[static_cast<std::size_t>(use.step) + 1] += model_.parameter(use.parameter).numel();
  }
  for (std::size_t k = 1; k < used_before_.size(); ++k) used_before_[k] += used_before_[k - 1];
}

// Without a complete trace nobody knows of a later use, and everything goes.
const std::vector<ParameterId>& ModuleTrace::releasable(
    ModuleId module, Numel reuse_distance, const std::function<bool(ParameterId)>& persistent) {
  if (mode_ != Mode::complete) return needs_[module.index()];
  const auto [place, fresh] = releasable_.try_emplace({module, step_});
  if (fresh) {
    find_releasable(module, reuse_distance, place->second);
    std::erase_if(place->second, persistent);
  }
  return place->second;
}

// record -> complete -> ... -> invalid -> record: a step after a difference gathers on demand, the
// next one records, and only the one after that gathers ahead again.
void ModuleTrace::reset() {
  if (mode_ == Mode::invalid) {
    mode_ = Mode::record;
  } else if (mode_ == Mode::record) {
    for (std::size_t k = 0; k < modules_.size(); ++k) {
      for (ParameterId id : needs_[modules_[k].index()]) {
        uses_.push_back({id, static_cast<std::int32_t>(k)});
      }
    }
    index_uses();
    mode_ = Mode::complete;
  }
  queue_.assign(uses_.begin(), uses_.end());
  fetched_for_.clear();
  step_ = 0;
}

}  // namespace tessera
