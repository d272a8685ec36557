// SPDX-License-Identifier: Apache-2.0
// Generated runs of sharded_data_parallel against the same training without it, to the bit: process
// groups, param groups, several optimizers, freezing and joining in mid-run, accumulation, buffer
// sizes, dtypes of reductions and broadcasts.
#include <catch2/catch.hpp>
#include <cmath>

#include "engine/numbers/number.h"
#include "tests/random.h"
#include "tests/schemes/sharded_data_parallel/owners.h"

namespace tessera {
namespace {

using test::require_ok;

float rounded(float value, std::optional<DType> dtype) {
  if (dtype == DType::bfloat16) return from_bfloat16(to_bfloat16(value));
  return dtype == DType::float16 ? from_float16(to_float16(value)) : value;
}

struct Run {
  Model model;
  Rank ranks = 1;
  std::vector<std::vector<Rank>> groups;
  ShardedDataParallelOptions options;
  TrainingOptions training;
  std::vector<ParamGroup> param_groups;
  std::size_t joins_late = 0;  // how many of the last ones

  explicit Run(test::Random& random) {
    std::vector<test::Linear> layers;
    std::vector<std::string> order;
    for (std::int64_t k = 0, n = 1 + random.below(5); k < n; ++k) {
      layers.push_back({"m" + std::to_string(k), 1 + static_cast<std::int64_t>(random.below(8)),
                        1 + static_cast<std::int64_t>(random.below(8))});
      order.push_back(layers.back().path);
    }
    model = test::linear_model("generated", layers, order);
    form_groups(random);
    options.reduce_buffer_size = Numel{random.chance(30) ? 0 : random.below(200)};
    const std::optional<DType> dtypes[] = {{}, {}, DType::bfloat16, DType::float16};
    options.reduce_dtype = dtypes[random.below(4)];
    options.broadcast_dtype = dtypes[random.below(4)];
    options.sync_models_at_startup = random.chance(50);
    training = test::partly_frozen_training(model);
    training.accumulation = static_cast<std::int32_t>(1 + random.below(3));
    training.sync_every_micro_batch = random.chance(50);
    form_param_groups(random);
  }

 private:
  void form_groups(test::Random& random) {
    ranks = static_cast<Rank>(1 + random.below(8));
    std::vector<Rank> all;
    for (Rank r = 0; r < ranks; ++r) all.push_back(r);
    if (random.chance(50)) {
      groups = {all};
      return;
    }
    for (std::size_t k = all.size(); k > 1; --k) std::swap(all[k - 1], all[random.below(k)]);
    const auto size = 1 + random.below(ranks);
    for (std::size_t k = 0; k + size <= all.size(); k += size) {
      groups.emplace_back(all.begin() + static_cast<std::ptrdiff_t>(k),
                          all.begin() + static_cast<std::ptrdiff_t>(k + size));
    }
    options.groups = *RankGroups::of(groups);
  }

  void form_param_groups(test::Random& random) {
    param_groups.resize(1 + random.below(4));
    for (ParamGroup& group : param_groups) {
      group.optimizer = static_cast<std::int32_t>(random.below(3));
      if (random.chance(50)) group.adam.learning_rate = 0.25F;
      if (random.chance(30)) group.adam.weight_decay = 0.125F;
    }
    for (std::size_t p = 0; p < model.parameters.size(); ++p) {
      if (random.chance(10)) continue;  // in no group
      auto& group = param_groups[random.below(param_groups.size())];
      group.parameters.push_back(ParameterId{static_cast<std::int32_t>(p)});
    }
    joins_late = random.below(param_groups.size());
  }
};

// One process group, trained without any engine.
class Reference {
 public:
  Reference(const Run& run, std::vector<Rank> group) : run_(run), group_(std::move(group)) {
    for (std::size_t p = 0; p < run.model.parameters.size(); ++p) {
      const ParameterId id{static_cast<std::int32_t>(p)};
      for (std::int64_t i = 0; i < run.model.parameters[p].numel().value; ++i) {
        elements_[id].push_back({test::initial_value(id, Numel{i})});
      }
    }
  }

  void step(std::size_t groups) {
    for (std::size_t g = 0; g < groups; ++g) {
      const ParamGroup& group = run_.param_groups[g];
      for (const ParameterId id : group.parameters) {
        if (!run_.model.parameter(id).requires_grad) continue;
        auto& list = elements_[id];
        for (std::size_t i = 0; i < list.size(); ++i) {
          adam(list[i], gradient(list[i].value, i), group.adam.over(run_.training.adam));
        }
      }
    }
  }

  std::size_t differences(Engine& engine) const {
    std::size_t different = 0, seen = 0, expected = 0;
    for (const auto& [id, list] : elements_) {
      expected += group_.size();
      require_ok(engine.inspect_shards(
          id, [&, &elements = list](Rank rank, Numel, std::span<const float> values) {
            if (std::find(group_.begin(), group_.end(), rank) == group_.end()) return;
            ++seen;
            for (std::size_t i = 0; i < values.size(); ++i) {
              different += values[i] == elements[i].value ? 0U : 1U;
            }
          }));
    }
    return different + (expected - seen);
  }

 private:
  struct Element {
    float value, m = 0, v = 0;
    int t = 0;
  };

  float mean(float value, std::size_t i, int times) const {
    const float share = 1.0F / static_cast<float>(group_.size());
    const auto dtype = group_.size() == 1 ? std::nullopt : run_.options.reduce_dtype;
    float sum = 0;
    for (std::size_t k = 0; k < group_.size(); ++k) {
      const float once = test::gradient_of(value, group_[k], i);
      float own = once;
      for (int n = 1; n < times; ++n) own += once;
      const float x = rounded(own * share, dtype);
      sum = k == 0 ? x : sum + x;
    }
    return rounded(sum, dtype);
  }
  float gradient(float value, std::size_t i) const {
    const int times = run_.training.accumulation;
    if (!run_.training.sync_every_micro_batch) return mean(value, i, times);
    float sum = mean(value, i, 1);
    for (int n = 1; n < times; ++n) sum += mean(value, i, 1);
    return sum;
  }
  void adam(Element& e, float g, const AdamOptions& o) const {
    ++e.t;
    float power1 = 1, power2 = 1;
    for (int k = 0; k < e.t; ++k) {
      power1 *= o.beta1;
      power2 *= o.beta2;
    }
    e.m = o.beta1 * e.m + (1 - o.beta1) * g;
    e.v = o.beta2 * e.v + (1 - o.beta2) * g * g;
    const float denominator = std::sqrt(e.v / (1 - power2)) + o.epsilon;
    const float decayed = e.value * (1 - o.learning_rate * o.weight_decay);
    e.value = decayed - o.learning_rate * (e.m / (1 - power1)) / denominator;
    if (group_.size() > 1) e.value = rounded(e.value, run_.options.broadcast_dtype);
  }

  const Run& run_;
  std::vector<Rank> group_;
  std::map<ParameterId, std::vector<Element>> elements_;
};

TEST_CASE("generated runs train as without sharding, to the bit", "[owner][property]") {
  const std::uint64_t seed = GENERATE(range(std::uint64_t{1}, test::generated(160) + 1));
  INFO("seed=" << seed);
  test::Random random(seed);
  Run run(random);
  test::NumericOwners world(run.ranks, run.model, run.options);
  std::vector<Reference> references;
  for (const auto& group : run.groups) references.emplace_back(run, group);
  const std::size_t early = run.param_groups.size() - run.joins_late;
  require_ok(world.engine->set_param_groups(
      {run.param_groups.begin(), run.param_groups.begin() + static_cast<std::ptrdiff_t>(early)}));
  std::size_t joined = early;
  for (int step = 0; step < 6; ++step) {
    if (step > 0 && joined < run.param_groups.size() && random.chance(50)) {
      require_ok(world.engine->add_param_group(run.param_groups[joined++]));
    }
    for (Parameter& p : run.model.parameters) {
      if (random.chance(20)) p.requires_grad = !p.requires_grad;
    }
    INFO("step " << step);
    require_ok(run_training_step(*world.engine, run.model, run.training));
    for (Reference& reference : references) {
      reference.step(joined);
      REQUIRE(reference.differences(*world.engine) == 0);
    }
  }
  require_ok(world.runtime->finish());
}

}  // namespace
}  // namespace tessera
