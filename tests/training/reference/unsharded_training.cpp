// SPDX-License-Identifier: Apache-2.0
#include "tests/training/reference/unsharded_training.h"

#include <cmath>

#include "engine/model/used_by.h"
#include "engine/numbers/number.h"

namespace tessera::test {
namespace {

// Whole parameters and gradients of one module.
class HostContext final : public BodyContext {
 public:
  explicit HostContext(Rank rank) : rank_(rank) {}
  Rank rank() const override { return rank_; }
  std::span<const std::byte> read(std::size_t i) const override { return reads.at(i); }
  std::span<std::byte> write(std::size_t i) const override { return writes.at(i); }

  std::vector<std::span<const std::byte>> reads;
  std::vector<std::span<std::byte>> writes;

 private:
  Rank rank_;
};

template <class T>
std::vector<std::vector<T>> zeros(const Model& model, std::size_t per_element) {
  std::vector<std::vector<T>> out;
  for (const Parameter& p : model.parameters) {
    out.emplace_back(static_cast<std::size_t>(p.numel().value) * per_element);
  }
  return out;
}

RealModel real_model(const Model& model, RealModelOptions data) {
  data.checkpointing = ActivationCheckpointing::none;  // nothing recomputes here
  auto result = RealModel::create(model, data);
  TESSERA_ASSERT(result.ok(), result.status().message().c_str());
  return *result;
}

void add(const std::vector<std::vector<float>>& from, std::vector<std::vector<float>>& into,
         auto&& round) {
  for (std::size_t p = 0; p < into.size(); ++p) {
    for (std::size_t i = 0; i < into[p].size(); ++i) into[p][i] = round(into[p][i] + from[p][i]);
  }
}

float power(float base, std::int64_t exponent) {
  float result = 1;
  for (std::int64_t i = 0; i < exponent; ++i) result *= base;
  return result;
}

}  // namespace

UnshardedTraining::UnshardedTraining(const Model& model, const RealModelOptions& data,
                                     const UnshardedOptions& options)
    : model_(model),
      data_(data),
      ranks_(data.world_size),
      options_(options),
      real_(real_model(model, data)),
      used_(used_by(model)),
      values_(zeros<float>(model, 1)),
      gradients_(values_),
      exp_avg_(values_),
      exp_avg_sq_(values_),
      steps_(values_.size(), 0) {
  const auto initial = real_.initial_values();
  for (std::size_t p = 0; p < values_.size(); ++p) {
    for (std::size_t i = 0; i < values_[p].size(); ++i) {
      values_[p][i] =
          initial(ParameterId{static_cast<std::int32_t>(p)}, Numel{static_cast<std::int64_t>(i)});
    }
  }
}

const std::vector<float>& UnshardedTraining::values(ParameterId id) const {
  return values_[id.index()];
}

const std::vector<float>& UnshardedTraining::gradient(ParameterId id) const {
  return gradients_[id.index()];
}

void UnshardedTraining::set_value(ParameterId id, std::size_t element, float value) {
  values_[id.index()][element] = value;
}

void UnshardedTraining::refresh() { real_ = real_model(model_, data_); }

void UnshardedTraining::step() {
  seen_ = zeros<std::byte>(model_, static_cast<std::size_t>(size_of(options_.param_dtype).value));
  for (std::size_t p = 0; p < seen_.size(); ++p) {
    for (std::size_t i = 0; i < values_[p].size(); ++i) {
      store_number(seen_[p], options_.param_dtype, i, values_[p][i]);
    }
  }
  if (options_.carries_gradient) return step_carrying();
  std::vector<Numbers> unreduced(static_cast<std::size_t>(ranks_));
  bool first_reduction = true;
  for (std::int32_t k = 0; k < options_.accumulation; ++k) {
    for (Rank r = 0; r < ranks_; ++r) {
      Numbers numbers = fresh_gradients(r, k);
      Numbers& sum = unreduced[static_cast<std::size_t>(r)];
      if (sum.empty()) {
        sum = std::move(numbers);
      } else {
        add(numbers, sum, [this](float x) { return rounded(x); });
      }
    }
    if (!options_.sync_every_micro_batch && k + 1 < options_.accumulation) continue;
    const Numbers mean = reduced(unreduced);
    unreduced.assign(unreduced.size(), {});
    if (std::exchange(first_reduction, false)) {
      gradients_ = mean;
    } else {
      add(mean, gradients_, [](float x) { return x; });
    }
  }
  adam();
}

UnshardedTraining::Numbers UnshardedTraining::fresh_gradients(Rank rank, std::int32_t micro_batch) {
  Buffers fresh =
      zeros<std::byte>(model_, static_cast<std::size_t>(size_of(options_.param_dtype).value));
  run_passes(rank, micro_batch, fresh);
  Numbers numbers = zeros<float>(model_, 1);
  for (std::size_t p = 0; p < fresh.size(); ++p) {
    for (std::size_t i = 0; i < numbers[p].size(); ++i) {
      numbers[p][i] = rounded(load_number(fresh[p], options_.param_dtype, i));
    }
  }
  return numbers;
}

void UnshardedTraining::step_carrying() {
  std::vector<Numbers> kept(static_cast<std::size_t>(ranks_));
  const float share = 1.0F / static_cast<float>(ranks_);
  for (std::int32_t k = 0; k < options_.accumulation; ++k) {
    for (Rank r = 0; r < ranks_; ++r) {
      Numbers& grad = kept[static_cast<std::size_t>(r)];
      Numbers fresh = fresh_gradients(r, k);
      if (grad.empty()) {
        grad = std::move(fresh);
      } else {
        add(fresh, grad, [](float x) { return x; });
      }
    }
    if (!options_.sync_every_micro_batch && k + 1 < options_.accumulation) continue;
    Numbers sum = zeros<float>(model_, 1);
    for (std::size_t r = 0; r < kept.size(); ++r) {
      for (std::size_t p = 0; p < sum.size(); ++p) {
        for (std::size_t i = 0; i < sum[p].size(); ++i) {
          const float x = kept[r][p][i] * share;
          sum[p][i] = r == 0 ? x : sum[p][i] + x;
        }
      }
    }
    kept.assign(kept.size(), sum);
  }
  gradients_ = kept[0];
  adam();
}

void UnshardedTraining::run_passes(Rank rank, std::int32_t micro_batch, Buffers& gradients) {
  const auto& order = model_.forward;
  for (auto m = order.begin(); m != order.end(); ++m) {
    run_body(rank, *m, ModuleWork::Pass::forward, micro_batch, gradients);
  }
  for (auto m = order.rbegin(); m != order.rend(); ++m) {
    run_body(rank, *m, ModuleWork::Pass::backward, micro_batch, gradients);
  }
}

void UnshardedTraining::run_body(Rank rank, ModuleId module, ModuleWork::Pass pass,
                                 std::int32_t micro_batch, Buffers& gradients) {
  HostContext context(rank);
  for (ParameterId id : used_[module.index()]) {
    context.reads.emplace_back(seen_[id.index()]);
    const bool trains = pass == ModuleWork::Pass::backward && model_.parameter(id).requires_grad;
    if (trains) context.writes.emplace_back(gradients[id.index()]);
  }
  real_.bodies()(module, pass, micro_batch)(context);
}

float UnshardedTraining::rounded(float value) const {
  if (options_.reduce_dtype == DType::float32) return value;
  if (options_.reduce_dtype == DType::float16) return from_float16(to_float16(value));
  return from_bfloat16(to_bfloat16(value));
}

UnshardedTraining::Numbers UnshardedTraining::reduced(const std::vector<Numbers>& by_rank) const {
  const float post = options_.post == 0 ? static_cast<float>(ranks_) : options_.post;
  const std::size_t group =
      options_.group == 0 ? by_rank.size() : static_cast<std::size_t>(options_.group);
  const float share = 1.0F / static_cast<float>(ranks_);
  Numbers out = by_rank[0];
  for (std::size_t p = 0; p < out.size(); ++p) {
    for (std::size_t i = 0; i < out[p].size(); ++i) {
      float sum = 0;
      for (std::size_t first = 0; first < by_rank.size(); first += group) {
        float of_group = 0;
        for (std::size_t r = first; r < first + group; ++r) {
          const float g = by_rank[r][p][i];
          const float x = rounded(options_.sums_shares ? g * share : g / options_.pre);
          of_group = r == first ? x : of_group + x;
        }
        of_group /= options_.group_post;
        if (group < by_rank.size()) of_group = rounded(of_group);
        sum = first == 0 ? of_group : sum + of_group;
      }
      out[p][i] = rounded(sum / post);
    }
  }
  return out;
}

void UnshardedTraining::adam() {
  if (!groups_) {
    for (std::size_t p = 0; p < values_.size(); ++p) adam(p, options_.adam);
    return;
  }
  for (const ParamGroup& group : *groups_) {
    for (const ParameterId id : group.parameters) adam(id.index(), group.adam.over(options_.adam));
  }
}

// As engine/base/sharded_adam.cpp, expression by expression.
void UnshardedTraining::adam(std::size_t p, const AdamOptions& o) {
  if (!model_.parameters[p].requires_grad) return;
  ++steps_[p];
  const float correction1 = 1 - power(o.beta1, steps_[p]);
  const float correction2 = 1 - power(o.beta2, steps_[p]);
  for (std::size_t i = 0; i < values_[p].size(); ++i) {
    const float g = gradients_[p][i];
    const float m = o.beta1 * exp_avg_[p][i] + (1 - o.beta1) * g;
    const float v = o.beta2 * exp_avg_sq_[p][i] + (1 - o.beta2) * g * g;
    const float denominator = std::sqrt(v / correction2) + o.epsilon;
    const float decayed = values_[p][i] * (1 - o.learning_rate * o.weight_decay);
    exp_avg_[p][i] = m;
    exp_avg_sq_[p][i] = v;
    values_[p][i] = decayed - o.learning_rate * (m / correction1) / denominator;
  }
}

}  // namespace tessera::test
