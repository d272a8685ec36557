// SPDX-License-Identifier: Apache-2.0
// AdamW on what a rank holds, in one fused op; and setting and reading the same.
#include <fmt/format.h>

#include <cmath>
#include <set>

#include "engine/runtime/arithmetic.h"
#include "engine/runtime/number.h"
#include "engine/shard/engine_base.h"

namespace tessera {
namespace {

constexpr std::size_t views_per_parameter = 3;  // parameter, exp_avg, exp_avg_sq

float power(float base, std::int64_t exponent) {  // no libm: the same bits everywhere
  float result = 1;
  for (std::int64_t i = 0; i < exponent; ++i) result *= base;
  return result;
}

struct AdamStep {
  AdamOptions options;
  float correction1;  // 1 - beta1^t
  float correction2;

  AdamStep(const AdamOptions& o, std::int64_t t)
      : options(o), correction1(1 - power(o.beta1, t)), correction2(1 - power(o.beta2, t)) {}

  void element(std::size_t i, float g, DType dtype, std::span<std::byte> value,
               std::span<std::byte> m, std::span<std::byte> v) const {
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
};

// What one op needs to know of one Held, views aside.
struct Stepped {
  bool whole;
  ShardMap map;
  DType dtype;
  DType gradient_dtype;
  std::vector<std::pair<ParameterId, AdamStep>> steps;  // parameters without one stay as they are

  const AdamStep* of(ParameterId parameter) const {
    for (const auto& [id, step] : steps) {
      if (id == parameter) return &step;
    }
    return nullptr;
  }
};

}  // namespace

Compute EngineBase::work_on_held() const {
  Compute work;
  work.index_in = shard_groups().shard;
  return work;
}

// Fresh parameters, one op a unit.
Status EngineBase::initialise_held() {
  const std::vector<Held*> all = all_held();
  for (std::size_t k = 0; k < all.size();) {
    const std::string_view unit = all[k]->unit;
    Compute init = work_on_held();
    for (; k < all.size() && all[k]->unit == unit; ++k) {
      const Held& h = *all[k];
      init.writes.push_back(h.values());
      init.cost.elementwise_bytes += static_cast<double>(bytes_of(h.map.shard(), h.dtype).value);
    }
    TESSERA_TRY(submit(compute_, cause(unit, Reason::none), std::move(init)).status());
  }
  return {};
}

Status EngineBase::allocate_optimizer_state() {
  const Cause why = cause("", Reason::step);
  std::set<const Held*> fresh;
  for (Held* h : all_held()) {
    if (!steps(*h) || h->exp_avg.valid() || h->swapped) continue;
    fresh.insert(h);
    const Bytes bytes = bytes_of(h->map.shard(), h->dtype);
    const RankSet& where = h->where.empty() ? everyone_ : h->where;
    const bool host = h->memory != Memory::device;
    for (auto [id, name] : {std::pair{&h->exp_avg, "exp_avg"}, {&h->exp_avg_sq, "exp_avg_sq"}}) {
      TESSERA_ASSIGN(
          *id, allocate_on(where, fmt::format("{}.{}", h->name, name), bytes,
                           host ? MemoryClass::pinned_host : MemoryClass::optimizer_state, why,
                           h->memory));
    }
  }
  auto zeros = [this, &fresh](const std::vector<Held*>& held) {
    Compute init = work_on_held();
    for (const Held* h : held) {
      if (!fresh.contains(h)) continue;
      for (const BufferId id : {h->exp_avg, h->exp_avg_sq}) {
        init.zeroed.push_back(init.writes.size());
        init.writes.push_back(View::whole(id, h->dtype, h->map.shard()));
        init.cost.elementwise_bytes +=
            static_cast<double>(bytes_of(h->map.shard(), h->dtype).value);
      }
    }
    return init;
  };
  return submit_by_held(everyone_, why, all_held(), zeros).status();
}

Compute EngineBase::adam_work(const std::vector<Held*>& group, const AdamOptions& options) {
  Compute work = work_on_held();
  std::vector<Stepped> stepped;
  for (const Held* h : group) {
    if (!h->gradient.buffer.valid() || !steps(*h)) continue;
    stepped.push_back({h->whole, h->map, h->dtype, h->gradient.dtype, {}});
    for (const auto& s : h->map.segments()) {
      if (!steps(s)) continue;
      const AdamOptions own = param_groups_.group_of(s.parameter)->adam.over(options);
      stepped.back().steps.emplace_back(s.parameter,
                                        AdamStep(own, param_groups_.steps_taken(s.parameter) + 1));
    }
    work.reads.push_back(h->gradient);
    work.writes.push_back(h->values());
    for (BufferId id : {h->exp_avg, h->exp_avg_sq}) {
      work.writes.push_back(View::whole(id, h->dtype, h->map.shard()));
    }
    // Reads gradient, parameter and both moments, writes the last three.
    work.cost.elementwise_bytes +=
        static_cast<double>(7 * bytes_of(h->map.shard(), h->dtype).value);
  }
  work.reads.insert(work.reads.end(), work.writes.begin(), work.writes.end());
  work.body = [this, stepped = std::move(stepped)](const BodyContext& context) {
    const Index own = shard_index(context.rank());
    for (std::size_t k = 0; k < stepped.size(); ++k) {
      const Index index = stepped[k].whole ? 0 : own;
      const auto gradient = context.read(k);
      const std::size_t first = views_per_parameter * k;
      for (const ShardPiece& piece : stepped[k].map.pieces(index, /*trained_only=*/true)) {
        const AdamStep* const adam = stepped[k].of(piece.parameter);
        if (adam == nullptr) continue;
        const auto begin = static_cast<std::size_t>(piece.offset.value);
        const auto end = begin + static_cast<std::size_t>(piece.numel.value);
        for (std::size_t i = begin; i < end; ++i) {
          adam->element(i, load_number(gradient, stepped[k].gradient_dtype, i), stepped[k].dtype,
                        context.write(first), context.write(first + 1), context.write(first + 2));
        }
      }
    }
  };
  return work;
}

Status EngineBase::step(const AdamOptions& options) {
  TESSERA_TRY(expect(Stage::idle, "step"));
  TESSERA_TRY(enter(Stage::idle, Phase::optimizer));
  TESSERA_TRY(settle_gradients());
  TESSERA_TRY(before_step());
  TESSERA_TRY(allocate_optimizer_state());
  auto groups = step_groups();
  if (groups.empty()) groups.emplace_back();
  for (Held* own : locals_held()) groups.back().push_back(own);
  const Cause why = cause("", Reason::step);
  TESSERA_TRY(enter_host(why));
  EventId stepped;
  for (std::size_t g = 0; g < groups.size(); ++g) {
    TESSERA_TRY(before_group(g));
    TESSERA_ASSIGN(const EventId done,
                   issue_by_held(active_, why, groups[g], [&](const std::vector<Held*>& held) {
                     return adam_work(held, options);
                   }));
    if (done.valid()) stepped = done;
    TESSERA_TRY(after_group(g));
  }
  TESSERA_TRY(leave_host(why));
  if (host_.valid() && stepped.valid()) {
    TESSERA_ASSIGN(stepped, submit_on(active_, compute_, why, look_at({})));
  }
  TESSERA_ASSIGN(const EventId dropped, drop_gradients());
  if (dropped.valid()) stepped = dropped;
  if (stepped.valid()) {
    for (const auto& group : groups) count_steps(group);
    TESSERA_TRY(free_gradients(stepped));
    TESSERA_TRY(free_local_gradients(stepped));
    TESSERA_TRY(share_stepped());
  }
  TESSERA_TRY(after_step());
  ++step_;
  micro_batch_ = 0;
  return {};
}

Status EngineBase::initialise(const std::function<float(ParameterId, Numel)>& value) {
  TESSERA_TRY(expect(Stage::idle, "initialise"));
  TESSERA_TRY(values_change());
  TESSERA_TRY(hold_all(false));
  Compute work = work_on_held();
  std::vector<Stepped> order;
  for (Held* h : all_held()) {
    work.writes.push_back(h->values());
    order.push_back({h->whole, h->map, h->dtype, h->dtype, {}});
  }
  work.body = [this, order, value](const BodyContext& context) {
    for (std::size_t k = 0; k < order.size(); ++k) {
      for (const ShardPiece& piece :
           order[k].map.pieces(order[k].whole ? 0 : shard_index(context.rank()))) {
        for (std::int64_t i = 0; i < piece.numel.value; ++i) {
          store_number(context.write(k), order[k].dtype,
                       static_cast<std::size_t>(piece.offset.value + i),
                       value(piece.parameter, piece.first + Numel{i}));
        }
      }
    }
  };
  return submit(compute_, cause("", Reason::none), std::move(work)).status();
}

Status EngineBase::inspect_shards(
    ParameterId id, const std::function<void(Rank, Numel, std::span<const float>)>& read) {
  TESSERA_TRY(expect(Stage::idle, "inspect_shards"));
  TESSERA_TRY(hold_all(false));
  for (Held* h : all_held()) {
    if (!h->map.holds(id)) continue;
    Compute work = work_on_held();
    work.reads = {h->values()};
    work.body = [this, id, read, held = *h, dtype = h->dtype](const BodyContext& context) {
      for (const ShardPiece& piece : held.map.pieces(index_in(held, context.rank()))) {
        if (piece.parameter != id) continue;
        std::vector<float> values;
        for (std::int64_t i = 0; i < piece.numel.value; ++i) {
          values.push_back(load_number(context.read(0), dtype,
                                       static_cast<std::size_t>(piece.offset.value + i)));
        }
        read(context.rank(), piece.first, values);
      }
    };
    TESSERA_ASSIGN(const EventId seen, submit(compute_, cause("", Reason::none), std::move(work)));
    TESSERA_TRY(runtime_.wait(seen));
  }
  return {};
}

}  // namespace tessera
