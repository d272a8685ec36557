// SPDX-License-Identifier: Apache-2.0
#include "tessera/real_model.h"

#include <cmath>

#include "training/reference/rank_passes.h"

namespace tessera {

struct RealModel::State {
  RealModelOptions options;
  real::Plan plan;
  std::vector<Parameter> parameters;  // names and shapes, for initial values
  float loss_scale = 1;
  std::vector<real::RankPasses> ranks;  // refer to all of the above
};

Result<RealModel> RealModel::create(const Model& model, const RealModelOptions& options) {
  TESSERA_ASSIGN(real::Plan plan, real::make_plan(model, options));
  auto state = std::make_shared<State>();
  state->options = options;
  state->plan = std::move(plan);
  state->parameters = model.parameters;
  for (Rank r = 0; r < options.world_size; ++r) {
    state->ranks.emplace_back(state->plan, state->options, state->loss_scale, r);
  }
  return RealModel(std::move(state));
}

decltype(TrainingOptions::body) RealModel::bodies() const {
  using Body = std::function<void(const BodyContext&)>;
  return [state = state_](ModuleId module, ModuleWork::Pass pass,
                          std::int32_t micro_batch) -> Body {
    if (pass == ModuleWork::Pass::evaluate) return {};
    return [state, module, pass, micro_batch](const BodyContext& context) {
      const auto rank = static_cast<std::size_t>(context.rank());
      TESSERA_ASSERT(rank < state->ranks.size(), "RealModelOptions::world_size counts every rank");
      state->ranks[rank].run(module, pass, micro_batch, context);
    };
  };
}

std::function<float(ParameterId, Numel)> RealModel::initial_values() const {
  return [state = state_](ParameterId id, Numel i) {
    const Parameter& p = state->parameters[id.index()];
    // A parameter takes the place of a rank: each has its own numbers.
    const float u = real::uniform({.seed = state->options.seed, .rank = id.value},
                                  real::DataKind::initial_value, i.value);
    if (p.shape.size() > 1) return u / std::sqrt(static_cast<float>(p.shape.back()));
    return (p.name.ends_with("weight") ? 1.0F : 0.0F) + 0.1F * u;
  };
}

void RealModel::set_loss_scale(float scale) const { state_->loss_scale = scale; }

std::span<const float> RealModel::losses(Rank rank) const {
  TESSERA_ASSERT(rank >= 0 && rank < state_->options.world_size, "a rank of the world");
  return state_->ranks[static_cast<std::size_t>(rank)].losses();
}

float RealModel::loss() const {
  float sum = 0;
  float count = 0;
  for (const real::RankPasses& rank : state_->ranks) {
    for (float loss : rank.losses()) {
      sum += loss;
      ++count;
    }
  }
  return count == 0 ? 0 : sum / count;
}

}  // namespace tessera
