// SPDX-License-Identifier: Apache-2.0
#include "training/reference/rank_passes.h"

#include "engine/numbers/number.h"
#include "training/reference/loss.h"

namespace tessera::real {
namespace {

DType dtype_of(std::size_t bytes, std::size_t numel, DType half) {
  if (bytes == numel * sizeof(float)) return DType::float32;
  TESSERA_ASSERT(bytes == numel * sizeof(std::uint16_t),
                 "a body sees whole parameters in float32 or half_dtype");
  return half;
}

Parameters read_parameters(const ModuleLayer& layer, DType half, const BodyContext& context) {
  Parameters out;
  for (const ParameterSlot& slot : layer.parameters) {
    auto& values = out.emplace_back(slot.numel);
    if (slot.read < 0) continue;
    const auto bytes = context.read(static_cast<std::size_t>(slot.read));
    const DType dtype = dtype_of(bytes.size(), slot.numel, half);
    for (std::size_t i = 0; i < slot.numel; ++i) values[i] = load_number(bytes, dtype, i);
  }
  return out;
}

Parameters zeros_like(const Parameters& parameters) {
  Parameters out;
  for (const auto& values : parameters) out.emplace_back(values.size());
  return out;
}

void add_gradients(const ModuleLayer& layer, const Parameters& gradients, DType half,
                   const BodyContext& context) {
  for (std::size_t k = 0; k < layer.parameters.size(); ++k) {
    const ParameterSlot& slot = layer.parameters[k];
    if (slot.write < 0) continue;
    const auto bytes = context.write(static_cast<std::size_t>(slot.write));
    const DType dtype = dtype_of(bytes.size(), slot.numel, half);
    for (std::size_t i = 0; i < slot.numel; ++i) {
      store_number(bytes, dtype, i, load_number(bytes, dtype, i) + gradients[k][i]);
    }
  }
}

// A visit's output may be read by several later ones.
void add_to(Tensor& sum, const Tensor& gradient) {
  if (sum.values.empty()) {
    sum = gradient;
  } else {
    add(gradient, sum);
  }
}

}  // namespace

RankPasses::RankPasses(const Plan& plan, const RealModelOptions& options, const float& loss_scale,
                       Rank rank)
    : plan_(plan),
      options_(options),
      loss_scale_(loss_scale),
      place_{.seed = options.seed, .rank = rank, .step = -1} {}

void RankPasses::run(ModuleId module, ModuleWork::Pass pass, std::int32_t micro_batch,
                     const BodyContext& context) {
  switch (pass) {
    case ModuleWork::Pass::forward: return forward(module, micro_batch, context);
    case ModuleWork::Pass::recompute: return recompute(module, context);
    case ModuleWork::Pass::backward: return backward(module, context);
    case ModuleWork::Pass::evaluate: return;  // RealModel has no body for it
  }
}

void RankPasses::begin(std::int32_t micro_batch) {
  if (micro_batch == 0) {
    if (place_.step < 0 || !options_.same_data_every_step) ++place_.step;
    losses_.clear();
  }
  place_.micro_batch = micro_batch;
  next_ = left_ = 0;
  recomputing_.reset();
  outputs_.assign(plan_.visits.size(), {});
  gradients_.assign(plan_.visits.size(), {});
}

void RankPasses::forward(ModuleId module, std::int32_t micro_batch, const BodyContext& context) {
  if (place_.step < 0 || next_ == plan_.visits.size()) begin(micro_batch);
  TESSERA_ASSERT(plan_.visits[next_].module == module, "forward runs in the model's order");
  run_forward(next_, context);
  const std::size_t done = next_++;
  if (options_.checkpointing == ActivationCheckpointing::full) forget_before(done);
  if (next_ == plan_.visits.size()) finish_forward();
}

// At the end of a run of visits inside a block.
void RankPasses::forget_before(std::size_t last) {
  const std::size_t first = plan_.visits[last].recompute_first;
  const bool leaves =
      last + 1 == plan_.visits.size() || plan_.visits[last + 1].recompute_first != first;
  for (std::size_t k = first; leaves && k < last; ++k) outputs_[k] = {};
}

void RankPasses::recompute(ModuleId module, const BodyContext& context) {
  TESSERA_ASSERT(left_ > 0, "recomputation belongs to a backward pass");
  std::size_t k = recomputing_.value_or(plan_.visits[left_ - 1].recompute_first);
  while (k < left_ && plan_.visits[k].module != module) ++k;  // a block inside a block begins later
  TESSERA_ASSERT(k < left_, "recomputation runs in the model's order");
  run_forward(k, context);
  recomputing_.reset();
  if (k + 1 < left_) recomputing_ = k + 1;
}

const Tensor& RankPasses::output(int visit) const {
  const Tensor& tensor = outputs_[static_cast<std::size_t>(visit)];
  TESSERA_ASSERT(!tensor.values.empty(),
                 "an activation is missing: RealModelOptions::checkpointing must be that of the "
                 "training, and backward must recompute a block first");
  return tensor;
}

Tensor RankPasses::input_of(const Visit& visit) const {
  const std::int64_t rows = options_.batch * options_.sequence_length;
  if (visit.input == Visit::positions) return positions(options_.batch, options_.sequence_length);
  if (visit.input >= 0) return output(visit.input);
  if (plan_.vocabulary == 0) return floats(place_, DataKind::input, rows, plan_.input_width);
  return tokens(place_, options_.batch, options_.sequence_length, 0, plan_.vocabulary);
}

void RankPasses::run_forward(std::size_t k, const BodyContext& context) {
  const Visit& visit = plan_.visits[k];
  Tensor result = visit.layer.layer->forward(
      input_of(visit), read_parameters(visit.layer, options_.half_dtype, context));
  if (visit.residual >= 0) add(output(visit.residual), result);
  outputs_[k] = std::move(result);
}

void RankPasses::finish_forward() {
  const Tensor& output = outputs_.back();
  Loss loss =
      plan_.predicts_tokens()
          ? cross_entropy(output, tokens(place_, options_.batch, options_.sequence_length, 1,
                                         plan_.vocabulary))
          : mean_square(output, floats(place_, DataKind::target, output.rows, output.width));
  losses_.push_back(loss.value);
  for (float& g : loss.gradient.values) g *= loss_scale_;
  gradients_.back() = std::move(loss.gradient);
  left_ = plan_.visits.size();
}

void RankPasses::backward(ModuleId module, const BodyContext& context) {
  TESSERA_ASSERT(left_ > 0 && plan_.visits[left_ - 1].module == module,
                 "backward runs in the model's order, last module first");
  const Visit& visit = plan_.visits[--left_];
  const Tensor dy = std::exchange(gradients_[left_], {});
  const Parameters parameters = read_parameters(visit.layer, options_.half_dtype, context);
  Parameters gradients = zeros_like(parameters);
  const Tensor dx = visit.layer.layer->backward(input_of(visit), parameters, dy, gradients);
  add_gradients(visit.layer, gradients, options_.half_dtype, context);
  if (visit.residual >= 0) add_to(gradients_[static_cast<std::size_t>(visit.residual)], dy);
  if (visit.input >= 0) add_to(gradients_[static_cast<std::size_t>(visit.input)], dx);
  outputs_[left_] = {};
  recomputing_.reset();
}

}  // namespace tessera::real
