// SPDX-License-Identifier: Apache-2.0
#include "engine/checkpoint/engine_state.h"

#include <fmt/format.h>

#include <algorithm>

#include "engine/base/optimizer_step.h"
#include "engine/numbers/arithmetic.h"
#include "tessera/assert.h"

namespace tessera {

Result<EngineState> EngineState::of(Engine& engine) {
  auto bad = [](const char* why) { return Status(Code::not_supported, why); };
  ShardedState* const state = engine.sharded_state();
  if (state == nullptr) return bad("checkpoints can only be made of an engine of this library");
  const Issuer& issuer = state->issuer();
  if (issuer.everyone() != issuer.runtime().world()) {
    return bad("the engine has a part of the ranks only: checkpoints need an engine of all");
  }
  if (state->first_ranks().count() > 1) {
    return bad(
        "the engine trains a model of its own in every process group: checkpoints need one "
        "engine per group");
  }
  return EngineState(*state);
}

const Model& EngineState::model() const { return state_->issuer().model(); }

std::int64_t EngineState::steps_taken(ParameterId parameter) const {
  return state_->parts().optimizer.groups().steps_taken(parameter);
}

bool EngineState::in_a_group(ParameterId parameter) const {
  return state_->parts().optimizer.groups().contains(parameter);
}

Rank EngineState::world_size() const { return state_->issuer().everyone().count(); }

std::vector<Rank> EngineState::local_ranks() const {
  std::vector<Rank> ranks;
  for (const RankRange& range : state_->issuer().runtime().local_ranks().ranges()) {
    for (Rank rank = range.begin; rank < range.end; ++rank) ranks.push_back(rank);
  }
  return ranks;
}

bool EngineState::is_local(Rank rank) const {
  return state_->issuer().runtime().local_ranks().contains(rank);
}

Status EngineState::expect_idle(const char* call) const {
  return state_->parts().calls.expect(CallOrder::Stage::idle, call);
}

Result<std::vector<float>> EngineState::exchange(const std::function<float(Rank)>& value) const {
  Issuer& issuer = state_->issuer();
  const Cause why = issuer.cause("", Reason::none);
  const StreamId compute = issuer.compute_stream();
  TESSERA_ASSIGN(BufferId own, issuer.allocate("checkpoint.agreement", size_of(DType::float32),
                                               MemoryClass::temporary, compute, why));
  const View one = View::whole(own, DType::float32, Numel{1});
  Compute publish{.cost = {.kernels = 0}, .reads = {}, .writes = {one}, .body = {}};
  publish.body = [value](const BodyContext& context) {
    const float mine = value(context.rank());
    context.kernels().write({&mine, 1}, {context.write(0), DType::float32});
  };
  TESSERA_ASSIGN(const EventId published,
                 issuer.submit_on(issuer.everyone(), compute, why, std::move(publish)));
  const auto read = issuer.runtime().read(one);
  // Released before the result is looked at, so that a failure leaves nothing behind.
  TESSERA_TRY(issuer.release(own, published));
  TESSERA_TRY(read.status());
  std::vector<float> all;
  for (Rank rank = 0; rank < world_size(); ++rank) all.push_back((*read)[rank]);
  return all;
}

// The runtime reads one float per rank, which holds 16 bits exactly, so 64 bits take four
// exchanges.
Result<std::vector<std::uint64_t>> EngineState::exchange_wide(
    const std::function<std::uint64_t(Rank)>& value) const {
  std::vector<std::uint64_t> all(static_cast<std::size_t>(world_size()));
  for (int shift = 0; shift < 64; shift += 16) {
    TESSERA_ASSIGN(const auto part, exchange([&](Rank rank) {
                     return static_cast<float>((value(rank) >> shift) & 0xFFFFU);
                   }));
    for (std::size_t r = 0; r < all.size(); ++r) {
      all[r] |= static_cast<std::uint64_t>(part[r]) << shift;
    }
  }
  return all;
}

Status EngineState::agree(const Status& own, const std::string& what) const {
  const auto code = static_cast<float>(own.code());
  // The exchange comes first even where this rank failed: the others wait in it for an answer.
  TESSERA_ASSIGN(const auto all, exchange([code](Rank) { return code; }));
  TESSERA_TRY(own);
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    if (all[rank] == 0) continue;
    const auto failed = static_cast<Code>(static_cast<int>(all[rank]));
    return Status(failed, fmt::format("{} failed on rank {} ({}), whose own message says why", what,
                                      rank, name_of(failed)));
  }
  return {};
}

// Bodies share its ownership, because they may run after a failure has been returned.
struct EngineState::Writing {
  const std::vector<std::int64_t>* steps;
  Source source;
  Status failed;
  std::vector<float> values;

  // Fills one tensor of a shard. After a failure the remaining elements become zero, without
  // reading on: bodies cannot stop the run, and every rank must execute the same operations.
  void fill(const BodyContext& context, const ShardMap& map, Index index, StateTensor tensor,
            const Elements& into) {
    TESSERA_ASSERT(tensor == StateTensor::value || steps != nullptr,
                   "moments are written with the steps that they had");
    for (const ShardPiece& piece : map.pieces(index)) {
      const auto numel = static_cast<std::size_t>(piece.numel.value);
      values.assign(numel, 0.0F);
      const auto p = piece.parameter.index();
      const bool stored = tensor == StateTensor::value || (*steps)[p] > 0;
      if (stored && failed.ok()) {
        failed = source(context.rank(), piece.parameter, tensor, piece.first, values);
      }
      context.kernels().write(values, part_of(into, piece));
    }
  }
};

Status EngineState::write_to(const RankSet& ranks, Compute work) const {
  Issuer& issuer = state_->issuer();
  return issuer
      .submit_on(ranks, issuer.compute_stream(), issuer.cause("", Reason::offload), std::move(work))
      .status();
}

Status EngineState::write_values(const std::shared_ptr<Writing>& writing) const {
  for (const ParamShard* shard : state_->all_shards()) {
    Compute work = state_->shard_work();
    work.writes = {shard->values()};
    work.cost.elementwise_bytes = static_cast<double>(shard->bytes().value);
    work.body = [state = state_, writing, held = *shard](const BodyContext& context) {
      writing->fill(context, held.map, state->index_of(held, context.rank()), StateTensor::value,
                    {context.write(0), held.dtype});
    };
    TESSERA_TRY(write_to(state_->issuer().everyone(), std::move(work)));
  }
  return {};
}

Status EngineState::write_moments(const std::shared_ptr<Writing>& writing) const {
  for (const ParamShard* shard : state_->all_shards()) {
    if (!shard->exp_avg.valid()) continue;
    Compute work;
    for (const BufferId id : {shard->exp_avg, shard->exp_avg_sq}) {
      work.writes.push_back(shard->moment(id));
    }
    work.cost.elementwise_bytes = 2 * static_cast<double>(shard->moment_bytes().value);
    work.body = [state = state_, writing, held = *shard](const BodyContext& context) {
      const Index index = state->index_of(held, context.rank());
      const DType dtype = held.moment_dtype();
      writing->fill(context, held.map, index, StateTensor::exp_avg, {context.write(0), dtype});
      writing->fill(context, held.map, index, StateTensor::exp_avg_sq, {context.write(1), dtype});
    };
    TESSERA_TRY(write_to(shard->where.empty() ? state_->issuer().everyone() : shard->where,
                         std::move(work)));
  }
  return {};
}

Status EngineState::write(const std::vector<std::int64_t>* steps, const Source& source) const {
  Issuer& issuer = state_->issuer();
  OptimizerStep& optimizer = state_->parts().optimizer;
  TESSERA_ASSERT(steps == nullptr || steps->size() == model().parameters.size(),
                 "a number of steps for every parameter");
  TESSERA_TRY(state_->before_write());
  const auto writing = std::make_shared<Writing>(Writing{steps, source, {}, {}});
  const bool any = steps != nullptr &&
                   std::any_of(steps->begin(), steps->end(), [](std::int64_t n) { return n > 0; });
  TESSERA_TRY(state_->load_shards(any));
  if (steps != nullptr) {
    for (std::size_t p = 0; p < steps->size(); ++p) {
      optimizer.set_steps_taken(ParameterId{static_cast<std::int32_t>(p)}, (*steps)[p]);
    }
    // Moments that exist are written even where the checkpoint has none: those of now are not its.
    if (any) TESSERA_TRY(optimizer.allocate_moments());
    TESSERA_TRY(write_moments(writing));
  }
  TESSERA_TRY(write_values(writing));
  TESSERA_ASSIGN(const EventId written,
                 issuer.submit_on(issuer.everyone(), issuer.compute_stream(),
                                  issuer.cause("", Reason::offload), declare_read({})));
  TESSERA_TRY(issuer.runtime().wait(written));
  return writing->failed;
}

}  // namespace tessera
