// SPDX-License-Identifier: Apache-2.0
#include "engine/model/shape_costs.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "engine/model/module_kind.h"
#include "engine/model/part_costs.h"
#include "engine/model/tree_builder.h"
#include "engine/text/json_reader.h"

namespace tessera {
namespace {

double elements(std::int64_t width) { return element * static_cast<double>(width); }

bool has_part(const std::string& path, std::string_view part) {
  return ("." + path + ".").find("." + std::string(part) + ".") != std::string::npos;
}

// The matrices of an attention or an MLP.
struct Group {
  ModuleId first, last;
  std::int64_t last_out = 0;
  std::int64_t projected = 0;  // widths of all outputs but the last
  bool function = false;       // its activation function is a module
};

class CostFinder {
 public:
  CostFinder(const std::vector<StatedCosts>& stated, Model& model)
      : stated_(stated), model_(model), own_(own_parameters(model)), done_(model.modules.size()) {}

  void run() {
    along(model_.forward);
    for (const Graph& graph : model_.graphs) along(graph.forward);
    note();
    unused();
  }

 private:
  const Module& module(ModuleId id) const { return model_.module(id); }

  void along(const std::vector<ModuleId>& forward) {
    count_calls(forward);
    find_groups(order_of(forward));
    head_ = head_of(forward);
    width_ = 0;
    ModuleId block;
    for (const ModuleId entry : forward) {
      const ModuleId now = block_of(entry);
      if (now.valid() && now != block) enter_block(now, entry);
      block = now;
      enter(entry);
      whole(entry);
      add_waiting(entry);
    }
  }

  // How often entries run, and containers are entered.
  void count_calls(const std::vector<ModuleId>& forward) {
    calls_.assign(model_.modules.size(), 0);
    listed_.assign(model_.modules.size(), false);
    std::vector<ModuleId> open;
    for (const ModuleId id : forward) {
      listed_[id.index()] = true;
      ++calls_[id.index()];
      std::vector<ModuleId> now = containers(id);
      const auto fork = std::mismatch(open.begin(), open.end(), now.begin(), now.end()).second;
      for (auto m = fork; m != now.end(); ++m) ++calls_[m->index()];
      open = std::move(now);
    }
  }

  // The modules that run, with those below entries, and containers where they are entered first.
  std::vector<ModuleId> order_of(const std::vector<ModuleId>& forward) const {
    std::vector<ModuleId> out;
    std::set<ModuleId> met(forward.begin(), forward.end());
    for (const ModuleId id : forward) {
      for (const ModuleId around : containers(id)) {
        if (met.insert(around).second) out.push_back(around);
      }
      below(id, out);
    }
    return out;
  }
  void below(ModuleId id, std::vector<ModuleId>& out) const {
    out.push_back(id);
    for (const ModuleId child : module(id).children) below(child, out);
  }
  // From the root to the parent.
  std::vector<ModuleId> containers(ModuleId id) const {
    std::vector<ModuleId> out;
    for (ModuleId m = module(id).parent; m.valid(); m = module(m).parent) out.push_back(m);
    std::reverse(out.begin(), out.end());
    return out;
  }

  // What a container computes itself is the work of the first module that runs in it.
  void enter(ModuleId entry) {
    for (const ModuleId id : containers(entry)) {
      if (listed_[id.index()] || done_[id.index()]) continue;
      done_[id.index()] = true;
      const bool states = stated_[id.index()].any();
      // Who measures modules has counted there what their containers do.
      if (!states && (own(id).empty() || stated_[entry.index()].flops)) continue;
      waiting_.emplace_back(id, one(id, kind_of(module(id), own(id))));
    }
  }

  void add_waiting(ModuleId entry) {
    for (auto& [container, cost] : waiting_) {
      const double share = calls_[container.index()] / calls_[entry.index()];
      for (Polynomial* each : {&cost.matmul_flops, &cost.attention_flops, &cost.elementwise_bytes,
                               &cost.activation_bytes}) {
        *each = {each->constant * share, each->linear * share, each->quadratic * share};
      }
      for (LinearShape& linear : cost.linears) linear.rows_per_token *= share;
      Module& m = model_.modules[entry.index()];
      m.cost = m.cost + cost;
    }
    waiting_.clear();
  }

  ModuleId block_of(ModuleId id) const {
    for (ModuleId m = id; m.valid(); m = module(m).parent) {
      if (module(m).is_block) return m;
    }
    return {};
  }

  void enter_block(ModuleId block, ModuleId entry) {
    Polynomial& kept = model_.modules[block.index()].checkpoint_bytes;
    const StatedCosts& said = stated_[block.index()];
    if (said.checkpoint) kept = said.checkpoint_bytes;
    if (said.checkpoint || kept.linear > 0) return;
    const std::int64_t width = width_ > 0 ? width_ : kind_of(module(entry), own(entry)).in;
    kept = per_token(elements(width));
  }

  // Which matrices share an input, and which is the last of an attention or an MLP.
  void find_groups(const std::vector<ModuleId>& order) {
    groups_.assign(model_.modules.size(), {});
    for (const ModuleId id : order) {
      const ModuleId around = group_around(id);
      if (!around.valid()) continue;
      Group& group = groups_[around.index()];
      const ModuleKind kind = kind_of(module(id), own(id));
      group.function |= kind.name == KindName::activation || kind.name == KindName::relu;
      if (kind.name != KindName::matrices) continue;
      if (!group.first.valid()) group.first = id;
      if (group.last.valid() && group.last != id) group.projected += group.last_out;
      group.last = id;
      group.last_out = kind.out;
    }
  }

  // The outermost: BertAttention holds BertSelfAttention and the projection of its output.
  ModuleId group_around(ModuleId id) const {
    ModuleId around;
    for (ModuleId m = id; m.valid(); m = module(m).parent) {
      if (is_attention(module(m).class_name) || is_mlp(module(m).class_name)) around = m;
    }
    return around;
  }

  // The last entry, if it has a row for every row of an embedding: logits, and a loss of them.
  ModuleId head_of(const std::vector<ModuleId>& forward) const {
    if (forward.size() < 2) return {};
    const ModuleId last = forward.back();
    const ModuleKind head = kind_of(module(last), own(last));
    if (head.name != KindName::matrices || !module(last).children.empty()) return {};
    for (const ModuleId id : forward) {
      const ModuleKind kind = kind_of(module(id), own(id));
      if (kind.name == KindName::embedding && kind.in == head.out && kind.out == head.in) {
        return last;
      }
    }
    return {};
  }

  const std::vector<const Parameter*>& own(ModuleId id) const { return own_[id.index()]; }

  // The cost of an entry, with what is below it.
  const ModuleCost& whole(ModuleId id) {
    Module& m = model_.modules[id.index()];
    const bool known = done_[id.index()];
    done_[id.index()] = true;
    const ModuleKind kind = kind_of(m, own(id));
    if (!known) m.cost = one(id, kind);
    if (kind.out > 0 && (kind.name != KindName::norm || width_ == 0)) width_ = kind.out;
    const bool around = kind.name == KindName::other && !m.children.empty();
    if (!known && around && !stated_[id.index()].kernels) m.cost.kernels = 0;
    if (stated_[id.index()].flops) {
      mark_below(id);
      return m.cost;
    }
    for (const ModuleId child : m.children) {
      const ModuleCost& part = whole(child);
      if (known) continue;
      const std::int32_t kernels = m.cost.kernels;
      m.cost = m.cost + part;
      if (stated_[id.index()].kernels) m.cost.kernels = kernels;
    }
    return m.cost;
  }

  void mark_below(ModuleId id) {
    for (const ModuleId child : module(id).children) {
      done_[child.index()] = true;
      mark_below(child);
    }
  }

  ModuleCost one(ModuleId id, const ModuleKind& kind) {
    const StatedCosts& said = stated_[id.index()];
    ModuleCost cost = id == head_ && !said.any()
                          ? head_cost(kind.in, kind.out, false, /*wide=*/true)
                          : kind_cost(kind, width_);
    if (const ModuleId around = group_around(id); around.valid()) join(id, kind, around, cost);
    const bool runs = cost.matmul_flops.linear + cost.elementwise_bytes.linear > 0;
    if (runs && !(said.flops && said.activations)) {
      ++guessed_;
      if (has_part(module(id).path, "experts")) experts_ = true;
    }
    runs_ += runs || said.any() ? 1 : 0;
    return with_stated(said, id, std::move(cost));
  }

  ModuleCost with_stated(const StatedCosts& said, ModuleId id, ModuleCost cost) const {
    if (said.flops) {
      ModuleCost stated = said.cost;
      stated.activation_bytes = cost.activation_bytes;
      stated.elementwise_bytes = one_pass(id);
      cost = std::move(stated);
    }
    if (said.activations) cost.activation_bytes = said.cost.activation_bytes;
    if (said.elementwise) cost.elementwise_bytes = said.cost.elementwise_bytes;
    if (said.kernels) cost.kernels = said.cost.kernels;
    if (said.cost.logits > 0) cost.logits = said.cost.logits;
    return cost;
  }

  // Over the parameters: the least that a module whose FLOPs alone are known moves.
  Polynomial one_pass(ModuleId id) const {
    double bytes = 0;
    for (const Parameter* p : own(id)) {
      bytes += static_cast<double>(bytes_of(p->numel(), p->dtype).value);
    }
    return {bytes, 0, 0};
  }

  // What a module of an attention or an MLP costs as a part of it.
  void join(ModuleId id, const ModuleKind& kind, ModuleId around, ModuleCost& cost) const {
    const Group& group = groups_[around.index()];
    const bool attention = is_attention(module(around).class_name);
    if (kind.name == KindName::activation && !attention) cost.activation_bytes = {};  // see below
    if (group.projected == 0 || kind.name != KindName::matrices) return;
    // Queries, keys and values have one input, as have gate and up.
    if (id != group.first && id != group.last) cost.activation_bytes = {};
    if (id != group.last) return;
    attention ? add_scores(kind, group, cost) : add_function(kind, group, cost);
    cost.elementwise_bytes.linear += 3 * elements(kind.out);  // the residual sum
    ++cost.kernels;
  }

  // Scores and their use of values, and what flash attention keeps: queries, keys and values (its
  // output is the projection's input), as wide together as what was projected.
  static void add_scores(const ModuleKind& out, const Group& group, ModuleCost& cost) {
    cost.attention_flops.quadratic = 4 * static_cast<double>(out.in);
    cost.activation_bytes.linear += elements(group.projected);
    ++cost.kernels;
  }

  // The activation function keeps its input; a gate keeps both factors.
  static void add_function(const ModuleKind& down, const Group& group, ModuleCost& cost) {
    const bool gated = group.projected >= 2 * down.in;
    cost.activation_bytes.linear += elements(group.projected + (gated ? down.in : 0));
    cost.elementwise_bytes.linear +=
        elements(down.in) * ((gated ? 3 : 0) + (group.function ? 0 : 2));
    cost.kernels += (gated ? 1 : 0) + (group.function ? 0 : 1);
  }

  void note() {
    if (guessed_ == 0) return;
    model_.cost_note = fmt::format(
        "costs of {} of {} modules are not stated: estimated from shapes and classes, per token{}",
        guessed_, runs_,
        experts_ ? "; every token is taken through all experts, as shapes do not say how many it "
                   "meets"
                 : "");
  }

  void unused() {
    std::string names;
    for (std::size_t m = 0; m < done_.size(); ++m) {
      const ModuleId id{static_cast<std::int32_t>(m)};
      if (done_[m] || !stated_[m].any()) continue;
      names += (names.empty() ? "" : ", ") + in_quotes(module(id).path);
    }
    if (names.empty()) return;
    if (names.size() > 100) names = names.substr(0, 100) + "...";
    model_.warnings.push_back("costs of modules that never run are ignored: " + names);
  }

  const std::vector<StatedCosts>& stated_;
  Model& model_;
  const std::vector<std::vector<const Parameter*>> own_;  // by ModuleId
  std::vector<bool> done_;
  std::vector<double> calls_;  // by ModuleId, along the order
  std::vector<bool> listed_;   // by ModuleId, in the order
  std::vector<Group> groups_;  // by ModuleId, of attentions and MLPs
  ModuleId head_;
  std::vector<std::pair<ModuleId, ModuleCost>> waiting_;  // of containers, for their first module
  std::int64_t width_ = 0;                                // of what runs next, if that is known
  int guessed_ = 0, runs_ = 0;
  bool experts_ = false;
};

}  // namespace

void add_costs(const std::vector<StatedCosts>& stated, Model& model) {
  CostFinder(stated, model).run();
}

}  // namespace tessera
