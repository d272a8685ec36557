// SPDX-License-Identifier: Apache-2.0
#include "tessera/join.h"

#include <fmt/format.h>

#include "engine/schemes/replicate/replicate_engine.h"
#include "tessera/assert.h"

namespace tessera {
namespace {

constexpr std::int32_t shadow_steps_max = 1000;  // more are probably a mistake

Status refuse(std::string message) { return Status(Code::invalid_argument, std::move(message)); }

}  // namespace

Result<Join> Join::enter(Engine& engine, const JoinOptions& options) {
  GradientReducer* const reducer = engine.gradient_reducer();
  if (reducer == nullptr) return refuse("Join is for engines made by replicate, this one shards");
  TESSERA_TRY(reducer->enter_join(options));
  return Join(*reducer);
}

Status Join::step(const RankSet& with_input) { return reducer_->announce(with_input); }
Status Join::finish() { return reducer_->leave_join(); }
const std::string& Join::warning() const { return reducer_->join_warning(); }

Status ReplicateEngine::enter_join(const JoinOptions& options) {
  TESSERA_TRY(expect(Stage::idle, "Join::enter"));
  if (join_.entered) return refuse("this engine is being joined already: finish that Join first");
  if (micro_batch_ > 0) return refuse("Join::enter was called in the middle of a step");
  if (everyone_ != runtime_.world() || groups_.group_count() > 1) {
    return refuse("Join is for one group of all ranks, and this engine has process groups");
  }
  join_ = {.options = options, .entered = true, .warning = {}};
  return {};
}

Status ReplicateEngine::announce(const RankSet& with_input) {
  TESSERA_TRY(expect(Stage::idle, "Join::step"));
  if (!join_.entered) return refuse("Join::step was called after Join::finish");
  if (micro_batch_ > 0) {
    return refuse("Join::step was called in the middle of a step: ranks join between steps");
  }
  if (with_input.empty()) return refuse("no rank has inputs: all have joined, call Join::finish");
  if (const RankSet unknown = with_input.minus(everyone_); !unknown.empty()) {
    return refuse(fmt::format("ranks {} cannot have inputs: the world is {}", unknown.to_string(),
                              everyone_.to_string()));
  }
  if (const RankSet back = with_input.minus(active_); !back.empty()) {
    return refuse(
        fmt::format("ranks {} have joined: they cannot have inputs again before "
                    "Join::finish",
                    back.to_string()));
  }
  const RankSet without = everyone_.minus(with_input);
  if (join_.options.throw_on_early_termination && !without.empty()) {
    return refuse(
        fmt::format("step {}: ranks {} ran out of inputs, which ends training on every "
                    "rank because throw_on_early_termination is set",
                    step_, without.to_string()));
  }
  active_ = with_input;
  join_.announced = true;
  if (!without.empty() && ++join_.shadow_steps == shadow_steps_max + 1) {
    join_.warning = fmt::format("ranks {} have shadowed more than {} steps: inputs are very uneven",
                                without.to_string(), shadow_steps_max);
  }
  return {};
}

float ReplicateEngine::divisor() const {
  const bool all = !join_.entered || join_.options.divide_by_initial_world_size;
  return static_cast<float>(all ? world_size_ : active_.count());
}

// Every forward pass begins with this. Ranks that joined follow it without inputs.
Status ReplicateEngine::announce_forward() {
  auto is_active = [ranks = active_](Rank r) { return ranks.contains(r) ? 1.0F : 0.0F; };
  if (join_.entered) {
    if (micro_batch_ == 0 && !std::exchange(join_.announced, false)) {
      return refuse(
          fmt::format("step {} began before Join::step said which ranks have inputs", step_));
    }
    TESSERA_TRY(agree_on_number("ranks_with_inputs", Reduction::sum, is_active));
  }
  if (trains()) TESSERA_TRY(rebuild_if_due());
  TESSERA_TRY(sync_buffers());
  if (!join_.entered) return {};
  return agree_on_number("requires_sync", Reduction::sum,
                         [sync = sync_, is_active](Rank r) { return sync ? is_active(r) : 0.0F; });
}

// One int32 per rank. The engine carries every rank, so it knows the outcome; ranks must not.
Status ReplicateEngine::agree_on_number(const std::string& name, Reduction reduction,
                                        std::function<float(Rank)> value) {
  if (world_size_ == 1) return {};
  const Cause why = cause("root", Reason::order);
  const Numel one{1};
  TESSERA_ASSIGN(BufferId buffer,
                 allocate(name, bytes_of(one, DType::int32), MemoryClass::temporary, nccl_, why));
  const View all = View::whole(buffer, DType::int32, one);
  Compute fill;
  fill.writes = {all};
  fill.body = [value = std::move(value)](const BodyContext& context) {
    const float own = value(context.rank());
    context.kernels().write({&own, 1}, {context.write(0), DType::int32});
  };
  TESSERA_TRY(submit_on(everyone_, nccl_, why, std::move(fill)).status());
  TESSERA_ASSIGN(const EventId reduced, submit(nccl_, why, AllReduce{world_, all, all, reduction}));
  TESSERA_TRY(wait_event(compute_, reduced, why));
  Compute use;
  use.reads = {all};
  TESSERA_ASSIGN(const EventId used, submit_on(everyone_, compute_, why, std::move(use)));
  return release(buffer, used);
}

Status ReplicateEngine::leave_join() {
  TESSERA_TRY(expect(Stage::idle, "Join::finish"));
  if (!join_.entered) return refuse("Join::finish was called twice");
  if (micro_batch_ > 0) return refuse("Join::finish was called in the middle of a step");
  const RankSet longest = std::exchange(active_, everyone_);
  join_.entered = false;
  TESSERA_ASSERT(!longest.empty(), "a step without inputs on any rank was refused");
  const Rank root = longest.ranges().back().end - 1;
  TESSERA_TRY(agree_on_number("model_root", Reduction::max, [longest](Rank r) {
    return longest.contains(r) ? static_cast<float>(r) : -1.0F;
  }));
  return world_size_ == 1 ? Status{} : broadcast_state(root);
}

}  // namespace tessera
