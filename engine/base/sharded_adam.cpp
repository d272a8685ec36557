// SPDX-License-Identifier: Apache-2.0
// AdamW on what a rank holds, in one fused op, and the moments that it keeps.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include "engine/base/optimizer_step.h"
#include "engine/numbers/arithmetic.h"
#include "tessera/assert.h"

namespace tessera {
namespace {

constexpr std::size_t views_per_parameter = 3;  // parameter, exp_avg, exp_avg_sq

// One shard as an op of the optimizer knows it, views aside.
struct Stepped {
  bool whole;
  Index own_group;
  ShardMap map;
  DType dtype, moment_dtype;
  DType gradient_dtype;
  struct Step {
    ParameterId parameter;
    AdamNumbers numbers;
    std::uint64_t rounding;  // RandomRounding::key
  };
  std::vector<Step> steps;  // parameters without one stay as they are

  const Step* of(ParameterId parameter) const {
    for (const Step& step : steps) {
      if (step.parameter == parameter) return &step;
    }
    return nullptr;
  }
};

// Of a parameter and a step, so that any number of ranks and a run that goes on round alike:
// SplitMix64 (Steele, Lea, Flood, "Fast Splittable Pseudorandom Number Generators", 2014).
std::uint64_t rounding_key(ParameterId parameter, std::int64_t step) {
  std::uint64_t x = (std::uint64_t{parameter.index()} << 40) + static_cast<std::uint64_t>(step);
  x += 0x9E3779B97F4A7C15U;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9U;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBU;
  return x ^ (x >> 31);
}

void run_adam(const BodyContext& context, const std::vector<Stepped>& stepped,
              const ShardedState& state) {
  for (std::size_t k = 0; k < stepped.size(); ++k) {
    const Stepped& now = stepped[k];
    const std::size_t first = views_per_parameter * k;
    const Index own = state.index_of(now.whole, now.own_group, context.rank());
    for (const ShardPiece& piece : now.map.pieces(own, /*trained_only=*/true)) {
      const Stepped::Step* const step = now.of(piece.parameter);
      if (step == nullptr) continue;
      const auto written = [&](std::size_t view) {
        const DType dtype = view == 0 ? now.dtype : now.moment_dtype;
        return part_of(Elements{context.write(first + view), dtype}, piece);
      };
      Kernels& kernels = context.kernels();
      const auto gradient = part_of(ConstElements{context.read(k), now.gradient_dtype}, piece);
      if (now.moment_dtype == now.dtype) {
        kernels.adam(step->numbers, gradient, written(0), written(1), written(2));
      } else {
        kernels.adam_in_halves(step->numbers, {step->rounding, piece.first.value}, gradient,
                               written(0), written(1), written(2));
      }
    }
  }
}

// Those that the optimizer keeps.
struct Moments {
  std::array<BufferId, 2> ids;
  std::size_t count = 0;

  std::size_t size() const { return count; }
  const BufferId* begin() const { return ids.data(); }
  const BufferId* end() const { return ids.data() + count; }
};

Moments moments_of(const ParamShard& shard) {
  Moments moments;
  for (const BufferId id : {shard.exp_avg, shard.exp_avg_sq}) {
    if (id.valid()) moments.ids[moments.count++] = id;
  }
  return moments;
}

// None: as the shard itself.
std::optional<StateType> state_type_of(const ParamShard& shard, const AdamOptions& options) {
  const bool same = options.state_type == StateType::float32 && shard.dtype == DType::float32;
  const bool half = options.state_type == StateType::bfloat16 && shard.dtype == DType::bfloat16;
  return same || half ? std::nullopt : options.state_type;
}

// Whether they are numbers that a step changes; others are memory and cost.
bool are_stepped(const ParamShard& shard, std::optional<StateType> type) {
  return !type || (type == StateType::bfloat16 && shard.dtype == DType::float32);
}
bool are_stepped(const ParamShard& shard) { return are_stepped(shard, shard.state_type); }

}  // namespace

Status OptimizerStep::allocate_moments(const AdamOptions& options) {
  const std::int32_t states = options.states;
  const Cause why = issuer_.cause("", Reason::step);
  std::set<const ParamShard*> fresh;
  for (ParamShard* shard : state_.all_shards()) {
    if (!steps(*shard) || shard->exp_avg.valid() || shard->swapped || states == 0) continue;
    fresh.insert(shard);
    shard->state_type = state_type_of(*shard, options);
    const RankSet& where = shard->where.empty() ? issuer_.everyone() : shard->where;
    const bool host = shard->memory != Memory::device;
    for (auto [id, name] :
         {std::pair{&shard->exp_avg, "exp_avg"}, {&shard->exp_avg_sq, "exp_avg_sq"}}) {
      if (id == &shard->exp_avg_sq && states < 2) continue;
      TESSERA_ASSIGN(*id, issuer_.allocate_on(
                              where, fmt::format("{}.{}", shard->name, name), shard->moment_bytes(),
                              host ? MemoryClass::pinned_host : MemoryClass::optimizer_state, why,
                              shard->memory));
    }
  }
  // By shard like a step: where shards have owners, moments exist on the owner alone.
  auto zeros = [this, &fresh](const std::vector<ParamShard*>& shards) {
    Compute init = state_.shard_work();
    for (const ParamShard* shard : shards) {
      if (!fresh.contains(shard)) continue;
      for (const BufferId id : moments_of(*shard)) {
        init.zeroed.push_back(init.writes.size());
        init.writes.push_back(shard->moment(id));
        init.cost.elementwise_bytes += static_cast<double>(shard->moment_bytes().value);
      }
    }
    return init;
  };
  return issuer_.submit_by_shard(issuer_.everyone(), why, state_.all_shards(), zeros).status();
}

Status OptimizerStep::keep_states_as(std::optional<StateType> type) {
  for (const ParamShard* shard : state_.all_shards()) {
    const auto own = state_type_of(*shard, {.state_type = type});
    if (are_stepped(*shard, own) && !(own && shard->swapped)) continue;
    return Status(
        Code::not_supported,
        fmt::format("optimizer_dtype: {}, which is {}{}, is stepped with states in {} only",
                    shard->name, name_of(shard->dtype), shard->swapped ? " on NVMe" : "",
                    shard->dtype == DType::float32 && !shard->swapped ? "float32 or bfloat16"
                                                                      : name_of(shard->dtype)));
  }
  state_type_ = type;
  return {};
}

Status OptimizerStep::check_states(const AdamOptions& options) const {
  TESSERA_TRY(ParamGroups::check_numbers({.learning_rate = options.learning_rate,
                                          .beta1 = options.beta1,
                                          .beta2 = options.beta2,
                                          .epsilon = options.epsilon,
                                          .weight_decay = options.weight_decay},
                                         "step"));
  const std::int32_t states = options.states;
  if (states < 0 || states > 2) {
    return Status(Code::invalid_argument,
                  fmt::format("an optimizer keeps 0 to 2 states per element, found {}", states));
  }
  for (const ParamShard* shard : state_.all_shards()) {
    const auto kept = static_cast<std::int32_t>(moments_of(*shard).size());
    if (kept != states && kept > 0) {
      return Status(Code::invalid_argument,
                    fmt::format("the optimizer kept {} states per element of {} in earlier steps, "
                                "now it should keep {}",
                                kept, shard->name, states));
    }
    const auto type = state_type_of(*shard, options);
    if (kept > 0 && steps(*shard) && type != shard->state_type) {
      return Status(Code::invalid_argument,
                    fmt::format("the optimizer kept the states of {} in another type in earlier "
                                "steps: state_type stays what it was",
                                shard->name));
    }
    if (!shard->swapped || (states == 2 && !type)) continue;
    return Status(Code::not_supported,
                  fmt::format("{} lives on NVMe, where states are AdamW's 2 per element in {}",
                              shard->name, name_of(shard->dtype)));
  }
  return {};
}

Status OptimizerStep::expect_adam_states() const {
  for (const ParamShard* shard : state_.all_shards()) {
    const auto kept = moments_of(*shard).size();
    const auto& segments = shard->map.segments();
    const bool stepped = std::any_of(segments.begin(), segments.end(), [&](const auto& s) {
      return steps(s) && groups_.steps_taken(s.parameter) > 0;
    });
    const bool none = kept == 0 && (!stepped || shard->swapped);
    if (none || (kept == 2 && are_stepped(*shard))) continue;
    return Status(
        Code::not_supported,
        fmt::format("the optimizer keeps {} states per element of {}{}: only AdamW's 2 in {} can "
                    "be read, loaded and saved",
                    kept, shard->name, are_stepped(*shard) ? "" : " in another type",
                    name_of(shard->dtype)));
  }
  return {};
}

AdamNumbers OptimizerStep::adam_numbers(ParameterId parameter, const AdamOptions& step) {
  const ParamGroup* const group = groups_.group_of(parameter);
  TESSERA_ASSERT(group != nullptr, "only what is in a group is stepped");
  const AdamOptions o = group->adam.over(step);
  // Counted by parameter, as torch does: one that was added, or skipped, later has its own t.
  const std::int64_t t = groups_.steps_taken(parameter) + 1;
  auto& [power1, power2] = powers_[parameter.index()];
  return {o.learning_rate,
          o.beta1,
          o.beta2,
          o.epsilon,
          o.weight_decay,
          1 - power1.at(o.beta1, t),
          1 - power2.at(o.beta2, t)};
}

std::int64_t OptimizerStep::beta_multiplications() const {
  std::int64_t all = 0;
  for (const Powers& p : powers_) all += p.beta1.multiplications() + p.beta2.multiplications();
  return all;
}

Compute OptimizerStep::adam_work(const std::vector<ParamShard*>& shards,
                                 const AdamOptions& options) {
  Compute work = state_.shard_work();
  bool has_numbers = options.states == 2;  // only AdamW has
  std::vector<Stepped> stepped;
  stepped.reserve(shards.size());
  work.reads.reserve(shards.size() * (1 + views_per_parameter));
  work.writes.reserve(shards.size() * views_per_parameter);
  for (const ParamShard* shard : shards) {
    if (!shard->gradient.buffer.valid() || !steps(*shard)) continue;
    stepped.push_back({shard->whole,
                       shard->own_group(),
                       shard->map,
                       shard->dtype,
                       shard->moment_dtype(),
                       shard->gradient.dtype,
                       {}});
    stepped.back().steps.reserve(shard->map.segments().size());
    for (const auto& s : shard->map.segments()) {
      if (!steps(s)) continue;
      stepped.back().steps.push_back(
          {s.parameter, adam_numbers(s.parameter, options),
           rounding_key(s.parameter, groups_.steps_taken(s.parameter) + 1)});
    }
    work.reads.push_back(shard->gradient);
    work.writes.push_back(shard->values());
    const auto moments = moments_of(*shard);
    TESSERA_ASSERT(static_cast<std::int32_t>(moments.size()) == options.states,
                   "moments are allocated before the first step");
    for (const BufferId id : moments) {
      work.writes.push_back(shard->moment(id));
      work.cost.elementwise_bytes += 2 * static_cast<double>(shard->moment_bytes().value);
    }
    // Reads gradient and parameter, writes the latter; reads and writes moments.
    work.cost.elementwise_bytes += 3 * static_cast<double>(shard->bytes().value);
    has_numbers &= are_stepped(*shard);
  }
  work.reads.insert(work.reads.end(), work.writes.begin(), work.writes.end());
  if (!has_numbers) return work;
  work.body = [this, stepped = std::move(stepped)](const BodyContext& context) {
    run_adam(context, stepped, state_);
  };
  return work;
}

}  // namespace tessera
