// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "engine/model/gradient_flow.h"
#include "engine/model/used_by.h"
#include "tessera/training.h"

namespace tessera {
namespace {

// Walks a model's forward list and calls the engine where a framework's hooks would fire.
class StepProgram {
 public:
  StepProgram(Engine& engine, const Model& model, const TrainingOptions& options)
      : engine_(engine), model_(model), options_(options), flow_(model), used_(used_by(model)) {}

  Status run() {
    for (micro_batch_ = 0; micro_batch_ < options_.accumulation; ++micro_batch_) {
      const bool last = micro_batch_ + 1 == options_.accumulation;
      engine_.set_requires_gradient_sync(last || options_.sync_every_micro_batch);
      TESSERA_TRY(forward());
      TESSERA_TRY(backward());
    }
    if (options_.scaler != nullptr && options_.max_grad_norm > 0) {
      TESSERA_TRY(options_.scaler->unscale());
    }
    if (options_.max_grad_norm > 0) {
      TESSERA_TRY(engine_.clip_grad_norm(options_.max_grad_norm, options_.norm_type, {}));
    }
    if (options_.scaler == nullptr) return engine_.step(options_.adam);
    TESSERA_TRY(options_.scaler->step(options_.adam).status());
    return options_.scaler->update();
  }

 private:
  using Pass = ModuleWork::Pass;

  const Module& module(ModuleId id) const { return model_.module(id); }

  std::vector<ModuleId> chain(ModuleId id) const {  // root ... id
    std::vector<ModuleId> out;
    for (ModuleId m = id; m.valid(); m = module(m).parent) out.push_back(m);
    std::reverse(out.begin(), out.end());
    return out;
  }

  // Leaves the modules of `open` that are not ancestors of `next`, then enters those that are.
  template <class Leave, class Enter>
  static Status move(std::vector<ModuleId>& open, const std::vector<ModuleId>& next, Leave&& leave,
                     Enter&& enter) {
    std::size_t common = 0;
    while (common < open.size() && common < next.size() && open[common] == next[common]) ++common;
    while (open.size() > common) {
      const ModuleId last = open.back();
      open.pop_back();
      TESSERA_TRY(leave(last));
    }
    for (std::size_t k = common; k < next.size(); ++k) {
      TESSERA_TRY(enter(next[k]));
      open.push_back(next[k]);
    }
    return {};
  }

  template <class Leave, class Enter>
  Status move_to(const std::vector<ModuleId>& next, Leave&& leave, Enter&& enter) {
    return move(open_, next, leave, enter);
  }

  bool checkpointed(ModuleId id) const {
    if (options_.checkpointing == ActivationCheckpointing::none) return false;
    for (ModuleId m = id; m.valid(); m = module(m).parent) {
      if (module(m).is_block) return true;
    }
    return false;
  }

  Bytes per_batch(const Polynomial& bytes) const {
    return Bytes{static_cast<std::int64_t>(bytes.at(options_.sequence_length)) * options_.batch};
  }

  // Of the entry of the forward list.
  ModuleWork work(std::size_t entry, Pass pass) const {
    const ModuleId id = model_.forward[entry];
    const ModuleCost& cost = module(id).cost;
    const auto s = options_.sequence_length;
    const auto batch = static_cast<double>(options_.batch);
    const bool backward = pass == Pass::backward;
    ModuleWork out{.module = id, .pass = pass};
    out.cost.matmul_flops = cost.matmul_flops.at(s) * batch * (backward ? 2 : 1);
    out.cost.attention_flops = cost.attention_flops.at(s) * batch * (backward ? 2.5 : 1);
    out.cost.elementwise_bytes = cost.elementwise_bytes.at(s) * batch * (backward ? 2 : 1);
    out.cost.kernels = cost.kernels * (backward ? 2 : 1);
    const Bytes saved = per_batch(cost.activation_bytes);
    const bool needed = backward || pass == Pass::recompute || !checkpointed(id);
    if (needed && flow_.runs_backward(entry)) out.saves = saved;
    if (backward) out.temporary = saved;  // the gradients of what was saved
    if (options_.body) out.body = options_.body(id, pass, micro_batch_);
    return out;
  }

  Status enter_forward(ModuleId id) {
    TESSERA_TRY(engine_.pre_forward(id));
    const bool keeps = module(id).is_block && checkpointed(id) && flow_.out_of(id);
    return keeps ? engine_.keep_activations(id, per_batch(module(id).checkpoint_bytes)) : Status{};
  }

  Status forward() {
    auto enter = [this](ModuleId id) { return enter_forward(id); };
    auto leave = [this](ModuleId id) { return engine_.post_forward(id); };
    TESSERA_TRY(engine_.begin_forward());
    for (std::size_t k = 0; k < model_.forward.size(); ++k) {
      const ModuleId id = model_.forward[k];
      TESSERA_TRY(move_to(chain(id), leave, enter));
      TESSERA_TRY(engine_.compute(work(k, Pass::forward)));
      // A module that runs twice in a row is left and entered again.
      std::vector<ModuleId> parent = chain(id);
      if (parent.size() > 1) parent.pop_back();
      TESSERA_TRY(move_to(parent, leave, enter));
    }
    return move_to({}, leave, enter);
  }

  // The entries of the visit to `block` that ends at forward[last]. A block that is an entry itself
  // is left after each.
  Status recompute(ModuleId block, std::size_t last) {
    std::size_t first = last;
    auto inside = [&](std::size_t k) {
      const auto ancestors = chain(model_.forward[k]);
      return std::find(ancestors.begin(), ancestors.end(), block) != ancestors.end();
    };
    while (model_.forward[last] != block && first > 0 && inside(first - 1)) --first;
    auto enter = [this](ModuleId id) { return engine_.pre_forward(id); };
    auto leave = [this](ModuleId id) { return engine_.post_forward(id); };
    const std::vector<ModuleId> above = chain(module(block).parent);
    std::vector<ModuleId> open = above;
    TESSERA_TRY(engine_.recompute_begin(block));
    for (std::size_t k = first; k <= last; ++k) {
      const ModuleId id = model_.forward[k];
      TESSERA_TRY(move(open, chain(id), leave, enter));
      TESSERA_TRY(engine_.compute(work(k, Pass::recompute)));
      std::vector<ModuleId> parent = chain(id);
      parent.pop_back();
      TESSERA_TRY(move(open, parent, leave, enter));
    }
    TESSERA_TRY(move(open, above, leave, enter));
    return engine_.recompute_end(block);
  }

  // A parameter's gradient is complete after the backward pass of its first use. Last registered
  // first: a bias before its weight.
  Status gradients_ready(ModuleId id) {
    const auto& used = used_[static_cast<std::size_t>(id.value)];
    for (auto p = used.rbegin(); p != used.rend(); ++p) {
      if (--uses_left_[static_cast<std::size_t>(p->value)] > 0) continue;
      if (model_.parameter(*p).requires_grad) TESSERA_TRY(engine_.grad_ready(*p));
    }
    return {};
  }

  Status backward() {
    uses_left_.assign(model_.parameters.size(), 0);
    for (std::size_t f = 0; f < model_.forward.size(); ++f) {
      if (!flow_.runs_backward(f)) continue;
      for (ParameterId p : used_[static_cast<std::size_t>(model_.forward[f].value)]) {
        ++uses_left_[static_cast<std::size_t>(p.value)];
      }
    }
    std::size_t k = model_.forward.size();
    auto enter = [&](ModuleId id) -> Status {
      TESSERA_TRY(engine_.pre_backward(id));
      return module(id).is_block && checkpointed(id) ? recompute(id, k) : Status{};
    };
    auto leave = [this](ModuleId id) -> Status {
      if (module(id).is_block && checkpointed(id)) TESSERA_TRY(engine_.free_activations(id));
      return engine_.post_backward(id);
    };
    TESSERA_TRY(engine_.begin_backward());
    while (k > 0 && flow_.runs_backward(k - 1)) {
      const ModuleId id = model_.forward[--k];
      TESSERA_TRY(move_to(chain(id), leave, enter));
      TESSERA_TRY(engine_.compute(work(k, Pass::backward)));
      TESSERA_TRY(gradients_ready(id));
      std::vector<ModuleId> parent = chain(id);
      if (parent.size() > 1) parent.pop_back();
      TESSERA_TRY(move_to(parent, leave, enter));
    }
    TESSERA_TRY(move_to({}, leave, enter));
    return engine_.end_backward();
  }

  Engine& engine_;
  const Model& model_;
  const TrainingOptions& options_;
  std::int32_t micro_batch_ = 0;
  const GradientFlow flow_;
  const std::vector<std::vector<ParameterId>> used_;  // by ModuleId
  std::vector<std::int32_t> uses_left_;               // by ParameterId, in this backward pass
  std::vector<ModuleId> open_;
};

}  // namespace

Status run_training_step(Engine& engine, const Model& model, const TrainingOptions& options) {
  if (options.batch < 1 || options.sequence_length < 1 || options.accumulation < 1) {
    return Status(Code::invalid_argument,
                  "batch, sequence length and accumulation must be at least 1");
  }
  return StepProgram(engine, model, options).run();
}

}  // namespace tessera
