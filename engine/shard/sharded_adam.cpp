// SPDX-License-Identifier: Apache-2.0
// AdamW on the shards: every rank steps what it holds, in one fused op.
#include <fmt/format.h>

#include <cmath>

#include "engine/runtime/number.h"
#include "engine/shard/fully_shard_engine.h"

namespace tessera {
namespace {

constexpr std::size_t views_per_parameter = 3;  // parameter, exp_avg, exp_avg_sq

struct AdamStep {
  AdamOptions options;
  float correction1;  // 1 - beta1^t
  float correction2;
  DType dtype;
  DType gradient_dtype;

  // Reads: the gradient of every parameter, then what is written. Writes: parameter, exp_avg,
  // exp_avg_sq of every parameter.
  void operator()(const BodyContext& context, std::size_t parameters) const {
    for (std::size_t k = 0; k < parameters; ++k) {
      const auto gradient = context.read(k);
      const auto value = context.write(views_per_parameter * k);
      const auto m = context.write(views_per_parameter * k + 1);
      const auto v = context.write(views_per_parameter * k + 2);
      const std::size_t n = value.size() / static_cast<std::size_t>(size_of(dtype).value);
      for (std::size_t i = 0; i < n; ++i) {
        const float g = load_number(gradient, gradient_dtype, i);
        const float p = load_number(value, dtype, i);
        const float m1 = options.beta1 * load_number(m, dtype, i) + (1 - options.beta1) * g;
        const float v1 = options.beta2 * load_number(v, dtype, i) + (1 - options.beta2) * g * g;
        const float denominator = std::sqrt(v1 / correction2) + options.epsilon;
        const float decayed = p * (1 - options.learning_rate * options.weight_decay);
        store_number(m, dtype, i, m1);
        store_number(v, dtype, i, v1);
        store_number(value, dtype, i,
                     decayed - options.learning_rate * (m1 / correction1) / denominator);
      }
    }
  }
};

float power(float base, std::int64_t exponent) {  // no libm: the same bits everywhere
  float result = 1;
  for (std::int64_t i = 0; i < exponent; ++i) result *= base;
  return result;
}

}  // namespace

Status FullyShardEngine::allocate_optimizer_state() {
  const DType dtype = options_.sharded_dtype;
  const Cause why = cause("", Reason::step);
  Compute init;
  for (Unit& unit : units_) {
    for (UnitParameter& p : unit.parameters) {
      if (!p.requires_grad || p.exp_avg.valid()) continue;
      const Bytes bytes = bytes_of(p.layout.shard, dtype);
      for (auto [id, name] : {std::pair{&p.exp_avg, "exp_avg"}, {&p.exp_avg_sq, "exp_avg_sq"}}) {
        TESSERA_ASSIGN(*id, allocate(fmt::format("{}.{}.{}", unit.name, p.name, name), bytes,
                                     MemoryClass::optimizer_state, compute_, why));
        init.writes.push_back(View::whole(*id, dtype, p.layout.shard));
        init.cost.elementwise_bytes += static_cast<double>(bytes.value);
      }
    }
  }
  if (init.writes.empty()) return {};
  return submit(compute_, why, std::move(init)).status();
}

Compute FullyShardEngine::adam_work(const AdamOptions& options) const {
  const DType dtype = options_.sharded_dtype;
  Compute work;
  std::vector<View> gradients;
  for (const Unit& unit : units_) {
    if (!unit.sharded_gradient.valid()) continue;
    for (const UnitParameter& p : unit.parameters) {
      if (!p.requires_grad) continue;
      gradients.push_back(
          View::part(unit.sharded_gradient, dtype, p.layout.offset, p.layout.shard));
      for (BufferId id : {p.shard, p.exp_avg, p.exp_avg_sq}) {
        work.writes.push_back(View::whole(id, dtype, p.layout.shard));
      }
      // Reads gradient, parameter and both moments, writes the last three.
      work.cost.elementwise_bytes += static_cast<double>(7 * bytes_of(p.layout.shard, dtype).value);
    }
  }
  work.reads = gradients;
  work.reads.insert(work.reads.end(), work.writes.begin(), work.writes.end());
  const std::int64_t t = steps_taken_ + 1;
  work.body = [step = AdamStep{options, 1 - power(options.beta1, t), 1 - power(options.beta2, t),
                               dtype, dtype},
               count = gradients.size()](const BodyContext& context) { step(context, count); };
  return work;
}

Status FullyShardEngine::step(const AdamOptions& options) {
  TESSERA_TRY(expect(Stage::idle, "step"));
  phase_ = Phase::optimizer;
  TESSERA_TRY(mark(cause("", Reason::none), Mark::Kind::phase, compute_).status());
  TESSERA_TRY(allocate_optimizer_state());
  Compute work = adam_work(options);
  if (!work.writes.empty()) {
    TESSERA_ASSIGN(const EventId stepped,
                   submit(compute_, cause("", Reason::step), std::move(work)));
    for (Unit& unit : units_) {
      if (unit.sharded_gradient.valid()) TESSERA_TRY(release(unit.sharded_gradient, stepped));
    }
    ++steps_taken_;
  }
  ++step_;
  micro_batch_ = 0;
  return {};
}

Status FullyShardEngine::initialise(const std::function<float(ParameterId, Numel)>& value) {
  TESSERA_TRY(expect(Stage::idle, "initialise"));
  Compute work;
  std::vector<ShardedParameter> order;
  for (const Unit& unit : units_) {
    for (const UnitParameter& p : unit.parameters) {
      work.writes.push_back(View::whole(p.shard, options_.sharded_dtype, p.layout.shard));
      order.push_back(p.layout);
    }
  }
  work.body = [order, value, dtype = options_.sharded_dtype](const BodyContext& context) {
    for (std::size_t k = 0; k < order.size(); ++k) {
      const auto shard = context.write(k);
      for (std::int64_t i = 0; i < order[k].shard.value; ++i) {
        const Numel at = order[k].shard * context.rank() + Numel{i};
        const float x = at < order[k].numel ? value(order[k].id, at) : 0.0F;
        store_number(shard, dtype, static_cast<std::size_t>(i), x);
      }
    }
  };
  return submit(compute_, cause("", Reason::none), std::move(work)).status();
}

Status FullyShardEngine::inspect_shards(
    ParameterId id, const std::function<void(Rank, Numel, std::span<const float>)>& read) {
  TESSERA_TRY(expect(Stage::idle, "inspect_shards"));
  const UnitParameter& p = parameter(id);
  Compute work;
  work.reads = {View::whole(p.shard, options_.sharded_dtype, p.layout.shard)};
  work.body = [layout = p.layout, read,
               dtype = options_.sharded_dtype](const BodyContext& context) {
    const Numel first = layout.shard * context.rank();
    std::vector<float> values;
    for (std::int64_t i = 0; i < layout.shard.value && first + Numel{i} < layout.numel; ++i) {
      values.push_back(load_number(context.read(0), dtype, static_cast<std::size_t>(i)));
    }
    read(context.rank(), first, values);
  };
  return submit(compute_, cause("", Reason::none), std::move(work)).status();
}

}  // namespace tessera
