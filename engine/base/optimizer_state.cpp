// SPDX-License-Identifier: Apache-2.0
#include "tessera/optimizer_state.h"

#include <fmt/format.h>

#include <algorithm>

#include "engine/base/optimizer_step.h"
#include "engine/numbers/arithmetic.h"
#include "tessera/assert.h"

namespace tessera {

/// The operations on an engine's optimizer state.
class OptimizerStateOps {
 public:
  using Range = std::function<void(Rank, const StateRange&)>;

  explicit OptimizerStateOps(ShardedState& state) : state_(state), issuer_(state.issuer()) {}

  const Model& model() const { return issuer_.model(); }
  const ParamGroups& param_groups() const { return state_.parts().optimizer.groups(); }
  RankSet ranks_of(Rank recipient) const {
    return recipient == all_ranks ? issuer_.everyone()
                                  : issuer_.everyone().intersect(RankSet::single(recipient));
  }
  Status expect_idle(const char* call) const {
    return state_.parts().calls.expect(CallOrder::Stage::idle, call);
  }
  Status expect_adam_states() const { return state_.parts().optimizer.expect_adam_states(); }
  Status read(const std::vector<StateTensor>& tensors, const RankSet& recipients, Bytes staging,
              const Range& range);
  Status write(const std::vector<const ParameterState*>& states);

 private:
  // A piece of one moment of one shard: the same elements of every rank's shard.
  struct Slice {
    const ParamShard* shard;
    StateTensor tensor;
    Numel first, numel;  // in the shard
    Index parts;         // that lie one behind another in the staging buffer
  };

  ShardGroups groups_of(const ParamShard& shard) const { return state_.groups_of(shard); }
  // Parts of the shard's parameter that lie on different ranks.
  Index parts_of(const ParamShard& shard) const { return shard.whole ? 1 : groups_of(shard).size; }
  Status read(const ParamShard& shard, StateTensor tensor);
  Status fetch(const Slice& slice);
  Status show(const Slice& slice);
  static DType dtype_of(const ParamShard& shard, StateTensor tensor) {
    return tensor == StateTensor::value ? shard.dtype : shard.moment_dtype();
  }
  View staged(const Slice& s) const {
    return View::whole(staging_, dtype_of(*s.shard, s.tensor), s.numel * s.parts);
  }
  static bool exists(const ParamShard& shard, StateTensor tensor) {
    return tensor == StateTensor::value || shard.exp_avg.valid();
  }
  // Elements of what the rank holds.
  static View source(const Slice& s) {
    if (s.tensor == StateTensor::value) {
      View values = s.shard->values();
      values.first += s.first;
      values.numel = s.numel;
      return values;
    }
    const BufferId id = s.tensor == StateTensor::exp_avg ? s.shard->exp_avg : s.shard->exp_avg_sq;
    return View::part(id, s.shard->moment_dtype(), s.first, s.numel);
  }
  // The ranks that have it; no ranks: all.
  static RankSet only_on(const Slice& s) {
    return s.tensor == StateTensor::value ? RankSet() : s.shard->where;
  }
  Cause why() const { return issuer_.cause("", Reason::summon); }

  ShardedState& state_;
  Issuer& issuer_;
  RankSet recipients_;
  Bytes staged_bytes_{};
  const Range* range_ = nullptr;
  BufferId staging_;
};

Status OptimizerStateOps::read(const std::vector<StateTensor>& tensors, const RankSet& recipients,
                               Bytes staging, const Range& range) {
  recipients_ = recipients;
  range_ = &range;
  TESSERA_TRY(state_.load_shards(false));
  Bytes least{};
  Bytes most{};
  const std::vector<ParamShard*> all = state_.all_shards();
  for (const ParamShard* shard : all) {
    if (!exists(*shard, tensors.front())) continue;
    const Bytes element = size_of(dtype_of(*shard, tensors.front())) * parts_of(*shard);
    least = std::max(least, element);
    most = std::max(most, element * shard->map.shard().value);
  }
  if (most == Bytes{0}) return {};
  if (staging < least) {
    return Status(Code::invalid_argument,
                  fmt::format("staging of {} bytes has no room for one element of every rank: give "
                              "at least {}",
                              staging.value, least.value));
  }
  staged_bytes_ = std::min(staging, most);
  TESSERA_ASSIGN(staging_,
                 issuer_.allocate("optimizer_state.staging", staged_bytes_, MemoryClass::temporary,
                                  issuer_.compute_stream(), why()));
  for (const ParamShard* shard : all) {
    for (const StateTensor tensor : tensors) {
      if (exists(*shard, tensor)) TESSERA_TRY(read(*shard, tensor));
    }
  }
  TESSERA_ASSIGN(const EventId done,
                 issuer_.submit(issuer_.compute_stream(), why(), declare_read({})));
  TESSERA_TRY(issuer_.release(staging_, done));
  return issuer_.runtime().wait(done);
}

Status OptimizerStateOps::read(const ParamShard& shard, StateTensor tensor) {
  const Index parts = parts_of(shard);
  const Numel at_once{staged_bytes_.value / size_of(dtype_of(shard, tensor)).value / parts};
  TESSERA_ASSERT(at_once > Numel{0} || shard.map.shard() == Numel{0},
                 "the staging buffer has room for an element of every rank");
  for (Numel first{}; first < shard.map.shard(); first += at_once) {
    const Slice slice{&shard, tensor, first, std::min(at_once, shard.map.shard() - first), parts};
    TESSERA_TRY(fetch(slice));
    TESSERA_TRY(show(slice));
  }
  return {};
}

// Into the staging buffer of every rank.
Status OptimizerStateOps::fetch(const Slice& s) {
  const CopyRoute route = *route_between(s.shard->memory, Memory::device);
  const ShardGroups groups = groups_of(*s.shard);
  if (s.parts > 1) {
    View own = source(s);
    if (route != CopyRoute::on_device) {  // a collective reads device memory
      own = View::shard(staging_, dtype_of(*s.shard, s.tensor), s.numel, s.parts);
      TESSERA_TRY(issuer_
                      .submit(issuer_.compute_stream(), why(),
                              Copy{.index_in = groups.shard,
                                   .pieces = {{.from = source(s), .to = own}},
                                   .route = route})
                      .status());
    }
    return issuer_.submit(issuer_.compute_stream(), why(), AllGather{groups.shard, own, staged(s)})
        .status();
  }
  const RankSet some = only_on(s);
  TESSERA_TRY(issuer_
                  .submit_on(some.empty() ? issuer_.everyone() : some, issuer_.compute_stream(),
                             why(),
                             Copy{.pieces = {{.from = source(s), .to = staged(s)}}, .route = route})
                  .status());
  if (some.empty() || !groups.replica.valid()) return {};
  return issuer_
      .submit(issuer_.compute_stream(), why(), Broadcast{groups.replica, staged(s), s.shard->owner})
      .status();
}

// The recipients look at those elements that belong to a parameter with state.
Status OptimizerStateOps::show(const Slice& s) {
  struct Shown {
    ShardPiece piece;  // offset: in the staging buffer
    StateTensor tensor;
  };
  std::vector<Shown> all;
  for (Index part = 0; part < s.parts; ++part) {
    for (ShardPiece piece : s.shard->map.pieces(part)) {
      const bool stepped = param_groups().steps_taken(piece.parameter) > 0;
      if (s.tensor != StateTensor::value && !stepped) continue;
      const Numel begin = std::max(piece.offset, s.first);
      const Numel end = std::min(piece.offset + piece.numel, s.first + s.numel);
      if (begin >= end) continue;
      piece.first += begin - piece.offset;
      piece.offset = s.numel * part + (begin - s.first);
      piece.numel = end - begin;
      all.push_back({piece, s.tensor});
    }
  }
  Compute look;
  look.reads = {staged(s)};
  look.cost.kernels = 0;
  look.body = [all = std::move(all), dtype = dtype_of(*s.shard, s.tensor),
               range = *range_](const BodyContext& context) {
    std::vector<float> values;
    for (const auto& [piece, tensor] : all) {
      values.resize(static_cast<std::size_t>(piece.numel.value));
      context.kernels().read(part_of(ConstElements{context.read(0), dtype}, piece), values);
      range(context.rank(), {piece.parameter, tensor, piece.first, values});
    }
  };
  TESSERA_TRY(
      issuer_.submit_on(recipients_, issuer_.compute_stream(), why(), std::move(look)).status());
  // A gathered result is used everywhere, even where nobody looks.
  const RankSet others = issuer_.everyone().minus(recipients_);
  if (others.empty()) return {};
  return issuer_.submit_on(others, issuer_.compute_stream(), why(), declare_read({staged(s)}))
      .status();
}

// States by ParameterId; nullptr: none.
Status OptimizerStateOps::write(const std::vector<const ParameterState*>& states) {
  for (std::size_t p = 0; p < states.size(); ++p) {
    const ParameterId id{static_cast<std::int32_t>(p)};
    state_.parts().optimizer.set_steps_taken(id, states[p] == nullptr ? 0 : states[p]->step);
  }
  TESSERA_TRY(state_.load_shards(true));
  TESSERA_TRY(state_.parts().optimizer.allocate_moments());
  EventId written;
  for (const ParamShard* shard : state_.all_shards()) {
    if (!shard->exp_avg.valid()) continue;
    Compute work;
    for (const BufferId id : {shard->exp_avg, shard->exp_avg_sq}) {
      work.writes.push_back(shard->moment(id));
    }
    work.cost.elementwise_bytes = 2 * static_cast<double>(shard->moment_bytes().value);
    work.body = [this, &states, map = shard->map, whole = shard->whole,
                 own_group = shard->own_group(),
                 dtype = shard->moment_dtype()](const BodyContext& context) {
      const Index index = state_.index_of(whole, own_group, context.rank());
      for (const ShardPiece& piece : map.pieces(index)) {
        const auto* state = states[piece.parameter.index()];
        const auto count = static_cast<std::size_t>(piece.numel.value);
        const std::vector<float> zeros(state == nullptr ? count : 0);
        for (std::size_t k = 0; k < 2; ++k) {
          std::span<const float> values = zeros;
          if (state != nullptr) {
            values = std::span(k == 0 ? state->exp_avg : state->exp_avg_sq)
                         .subspan(static_cast<std::size_t>(piece.first.value), count);
          }
          context.kernels().write(values, part_of(Elements{context.write(k), dtype}, piece));
        }
      }
    };
    const RankSet& where = shard->where.empty() ? issuer_.everyone() : shard->where;
    TESSERA_TRY(
        issuer_.submit_on(where, issuer_.compute_stream(), why(), std::move(work)).status());
  }
  TESSERA_ASSIGN(written, issuer_.submit(issuer_.compute_stream(), why(), declare_read({})));
  return issuer_.runtime().wait(written);
}

namespace {

Result<ShardedState*> state_of(Engine& engine) {
  ShardedState* const state = engine.sharded_state();
  if (state != nullptr) return state;
  return Status(Code::not_supported,
                "optimizer state can only be taken from an engine of this library");
}

Status check(const OptimizerStateOps& ops, const ParameterState& state, ParameterId id) {
  auto bad = [](std::string message) { return Status(Code::invalid_argument, std::move(message)); };
  if (!id.valid()) {
    return bad(fmt::format("optimizer state of {}: {} has no such parameter", state.name,
                           ops.model().name));
  }
  const auto numel = static_cast<std::size_t>(ops.model().parameter(id).numel().value);
  if (state.exp_avg.size() != numel || state.exp_avg_sq.size() != numel) {
    return bad(fmt::format("optimizer state of {} has {} and {} elements, the parameter {}",
                           state.name, state.exp_avg.size(), state.exp_avg_sq.size(), numel));
  }
  if (!ops.param_groups().contains(id)) {
    return bad(
        fmt::format("optimizer state of {}, which is in no param group: add it to one "
                    "before",
                    state.name));
  }
  return state.step >= 1 ? Status{}
                         : bad(fmt::format("optimizer state of {}: step must be at least 1, "
                                           "found {}",
                                           state.name, state.step));
}

}  // namespace

namespace {

Status read_state(Engine& engine, const char* call, const std::vector<StateTensor>& tensors,
                  const ReadStateOptions& options, const OptimizerStateOps::Range& range) {
  TESSERA_ASSIGN(ShardedState* const sharded, state_of(engine));
  OptimizerStateOps ops(*sharded);
  TESSERA_TRY(ops.expect_idle(call));
  if (tensors.front() != StateTensor::value) TESSERA_TRY(ops.expect_adam_states());
  const RankSet recipients = ops.ranks_of(options.recipient);
  if (recipients.empty()) {
    return Status(Code::invalid_argument,
                  fmt::format("recipient {} of {} takes no part: choose one of ranks {}",
                              options.recipient, call, ops.ranks_of(all_ranks).to_string()));
  }
  return ops.read(tensors, recipients, options.staging, range);
}

}  // namespace

Status read_optimizer_state(Engine& engine, const ReadStateOptions& options,
                            const std::function<void(Rank, const StateRange&)>& range) {
  return read_state(engine, "read_optimizer_state", {StateTensor::exp_avg, StateTensor::exp_avg_sq},
                    options, range);
}

Status read_parameters(Engine& engine, const ReadStateOptions& options,
                       const std::function<void(Rank, const StateRange&)>& range) {
  return read_state(engine, "read_parameters", {StateTensor::value}, options, range);
}

Status keep_optimizer_states_as(Engine& engine, std::optional<StateType> type) {
  TESSERA_ASSIGN(ShardedState* const sharded, state_of(engine));
  return sharded->parts().optimizer.keep_states_as(type);
}

Result<OptimizerState> consolidate_optimizer_state(Engine& engine,
                                                   const ReadStateOptions& options) {
  TESSERA_ASSIGN(ShardedState* const sharded, state_of(engine));
  const OptimizerStateOps ops(*sharded);
  std::vector<ParameterState> all(ops.model().parameters.size());
  auto keep = [&, first = ops.ranks_of(options.recipient)](Rank rank, const StateRange& range) {
    if (rank != first.first()) return;
    const Parameter& parameter = ops.model().parameter(range.parameter);
    ParameterState& state = all[range.parameter.index()];
    auto& into = range.tensor == StateTensor::exp_avg ? state.exp_avg : state.exp_avg_sq;
    into.resize(static_cast<std::size_t>(parameter.numel().value));
    std::copy(range.values.begin(), range.values.end(), into.begin() + range.first.value);
  };
  TESSERA_TRY(read_optimizer_state(engine, options, keep));
  OptimizerState out;
  for (std::size_t p = 0; p < all.size(); ++p) {
    const ParameterId id{static_cast<std::int32_t>(p)};
    all[p].step = ops.param_groups().steps_taken(id);
    if (all[p].step == 0) continue;
    all[p].name = ops.model().parameter(id).name;
    out.parameters.push_back(std::move(all[p]));
  }
  return out;
}

Status load_optimizer_state(Engine& engine, const OptimizerState& state) {
  TESSERA_ASSIGN(ShardedState* const sharded, state_of(engine));
  OptimizerStateOps ops(*sharded);
  TESSERA_TRY(ops.expect_idle("load_optimizer_state"));
  TESSERA_TRY(ops.expect_adam_states());
  std::vector<const ParameterState*> by_id(ops.model().parameters.size(), nullptr);
  for (const ParameterState& one : state.parameters) {
    const ParameterId id = ops.model().find_parameter(one.name);
    TESSERA_TRY(check(ops, one, id));
    by_id[id.index()] = &one;
  }
  return ops.write(by_id);
}

}  // namespace tessera
