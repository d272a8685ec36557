// SPDX-License-Identifier: Apache-2.0
// AdamW on what a rank holds, in one fused op; and setting and reading the same.
#include <fmt/format.h>

#include <set>

#include "engine/base/engine_base.h"
#include "engine/numbers/arithmetic.h"

namespace tessera {
namespace {

constexpr std::size_t views_per_parameter = 3;  // parameter, exp_avg, exp_avg_sq

float power(float base, std::int64_t exponent) {  // no libm: the same bits everywhere
  float result = 1;
  for (std::int64_t i = 0; i < exponent; ++i) result *= base;
  return result;
}

AdamNumbers adam_numbers(const AdamOptions& o, std::int64_t t) {
  return {o.learning_rate,      o.beta1, o.beta2, o.epsilon, o.weight_decay, 1 - power(o.beta1, t),
          1 - power(o.beta2, t)};
}

// What one op needs to know of one Held, views aside.
struct Stepped {
  bool whole;
  ShardMap map;
  DType dtype;
  DType gradient_dtype;
  std::vector<std::pair<ParameterId, AdamNumbers>>
      steps;  // parameters without one stay as they are

  const AdamNumbers* of(ParameterId parameter) const {
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
  return submit_by_shard(everyone_, why, all_held(), zeros).status();
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
      stepped.back().steps.emplace_back(
          s.parameter, adam_numbers(own, param_groups_.steps_taken(s.parameter) + 1));
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
      const Stepped& now = stepped[k];
      const std::size_t first = views_per_parameter * k;
      for (const ShardPiece& piece : now.map.pieces(index, /*trained_only=*/true)) {
        const AdamNumbers* const numbers = now.of(piece.parameter);
        if (numbers == nullptr) continue;
        const auto written = [&](std::size_t view) {
          return part_of(Elements{context.write(first + view), now.dtype}, piece);
        };
        context.kernels().adam(*numbers,
                               part_of(ConstElements{context.read(k), now.gradient_dtype}, piece),
                               written(0), written(1), written(2));
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
                   issue_by_shard(active_, why, groups[g], [&](const std::vector<Held*>& held) {
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
  end_step();
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
    std::vector<float> values;
    for (std::size_t k = 0; k < order.size(); ++k) {
      for (const ShardPiece& piece :
           order[k].map.pieces(order[k].whole ? 0 : shard_index(context.rank()))) {
        values.clear();
        for (std::int64_t i = 0; i < piece.numel.value; ++i) {
          values.push_back(value(piece.parameter, piece.first + Numel{i}));
        }
        context.kernels().write(values, part_of(Elements{context.write(k), order[k].dtype}, piece));
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
        std::vector<float> values(static_cast<std::size_t>(piece.numel.value));
        context.kernels().read(part_of(ConstElements{context.read(0), dtype}, piece), values);
        read(context.rank(), piece.first, values);
      }
    };
    TESSERA_ASSIGN(const EventId seen, submit(compute_, cause("", Reason::none), std::move(work)));
    TESSERA_TRY(runtime_.wait(seen));
  }
  return {};
}

}  // namespace tessera
