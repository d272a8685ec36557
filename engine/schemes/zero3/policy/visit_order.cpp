// SPDX-License-Identifier: Apache-2.0
#include "engine/schemes/zero3/policy/visit_order.h"

#include <algorithm>

#include "engine/model/gradient_flow.h"

namespace tessera {
namespace {

// The chain of open modules moves through the tree as run_training_step moves it.
class Walk {
 public:
  Walk(const Model& model, bool recomputes)
      : model_(model), flow_(model), recomputes_(recomputes) {}

  Visits forward() {
    for (std::size_t k = 0; k < model_.forward.size(); ++k) {
      end_visits(open_, k);
      run(model_.forward[k], Visit::Kind::forward, open_);
    }
    return visits_;
  }
  // From the last entry back to the first that gets a gradient: what is before it never runs.
  Visits backward() {
    open_.clear();
    std::size_t k = model_.forward.size();
    while (k > 0 && flow_.runs_backward(k - 1)) {
      --k;
      end_visits(open_, k + 1);
      enter(chain(model_.forward[k]), Visit::Kind::backward, open_, k);
      leave_entry(open_);
    }
    return visits_;
  }

 private:
  using Chain = std::vector<ModuleId>;

  Chain chain(ModuleId id) const {  // root ... id
    Chain out;
    for (ModuleId m = id; m.valid(); m = model_.module(m).parent) out.push_back(m);
    std::reverse(out.begin(), out.end());
    return out;
  }
  static void leave_entry(Chain& open) {
    if (open.size() > 1) open.pop_back();
  }
  // Between entry k - 1 and entry k, in either direction.
  void end_visits(Chain& open, std::size_t k) const {
    for (const Revisit& revisit : model_.again) {
      if (revisit.entry != k) continue;
      open.erase(std::find(open.begin(), open.end(), revisit.module), open.end());
    }
  }
  void run(ModuleId entry, Visit::Kind kind, Chain& open) {
    enter(chain(entry), kind, open, 0);
    leave_entry(open);
  }
  // Modules that both chains share stay open, so only what is new is visited.
  void enter(const Chain& next, Visit::Kind kind, Chain& open, std::size_t place) {
    const auto common = static_cast<std::size_t>(
        std::mismatch(open.begin(), open.end(), next.begin(), next.end()).first - open.begin());
    open.resize(common);
    for (std::size_t k = common; k < next.size(); ++k) {
      visits_.push_back({next[k], kind});
      open.push_back(next[k]);
      const bool again = recomputes_ && kind == Visit::Kind::backward;
      if (again && model_.module(next[k]).is_block) recompute(next[k], place);
    }
  }
  // The visit to `block` that ends at forward[last]; of the block itself nothing is fetched again.
  void recompute(ModuleId block, std::size_t last) {
    auto inside = [&](std::size_t k) {
      const Chain above = chain(model_.forward[k]);
      return std::find(above.begin(), above.end(), block) != above.end();
    };
    std::size_t first = last;
    while (model_.forward[last] != block && first > 0 && inside(first - 1) &&
           !model_.begins_again(model_.again, first, block)) {
      --first;
    }
    Chain open = chain(block);
    for (std::size_t k = first; k <= last; ++k) {
      if (k > first) end_visits(open, k);
      if (model_.forward[k] != block) run(model_.forward[k], Visit::Kind::recompute, open);
    }
  }

  const Model& model_;
  const GradientFlow flow_;
  const bool recomputes_;
  Visits visits_;
  Chain open_;
};

}  // namespace

Visits expected_visits(const Model& model, bool backward, bool recomputes) {
  Walk walk(model, recomputes);
  Visits visits = walk.forward();
  return backward ? walk.backward() : visits;
}

// Ascending, because visits are gone through in order: next() can search.
void UseTable::build(const Visits& visits, const Needs& needs, std::size_t parameters) {
  places_.assign(parameters, {});
  for (std::size_t k = 0; k < visits.size(); ++k) {
    for (ParameterId id : needs[visits[k].module.index()]) {
      places_[id.index()].push_back(static_cast<std::int32_t>(k));
    }
  }
}

std::int32_t UseTable::next(ParameterId parameter, std::int32_t place) const {
  if (places_.empty()) return never;
  const auto& places = places_[parameter.index()];
  const auto found = std::lower_bound(places.begin(), places.end(), place);
  return found == places.end() ? never : *found;
}

}  // namespace tessera
