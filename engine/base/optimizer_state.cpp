// SPDX-License-Identifier: Apache-2.0
#include "tessera/optimizer_state.h"

#include <fmt/format.h>

#include <algorithm>

#include "engine/base/engine_base.h"

namespace tessera {

/// The operations on an engine's optimizer state.
class OptimizerStateOps {
 public:
  using Range = std::function<void(Rank, const StateRange&)>;

  explicit OptimizerStateOps(EngineBase& engine)
      : engine_(engine), groups_(engine.shard_groups()) {}

  const Model& model() const { return engine_.model_; }
  const ParamGroups& param_groups() const { return engine_.param_groups_; }
  RankSet ranks_of(Rank recipient) const {
    return recipient == all_ranks ? engine_.everyone_
                                  : engine_.everyone_.intersect(RankSet::single(recipient));
  }
  Status expect_idle(const char* call) const {
    return engine_.expect(EngineBase::Stage::idle, call);
  }
  Status read(const std::vector<StateTensor>& tensors, const RankSet& recipients, Bytes staging,
              const Range& range);
  Status write(const std::vector<const ParameterState*>& states);

 private:
  // A piece of one moment of one Held: the same elements of every rank's shard.
  struct Slice {
    const Held* held;
    StateTensor tensor;
    Numel first, numel;  // in the shard
    Index parts;         // that lie one behind another in the staging buffer
  };

  bool sharded(const Held& held) const { return !held.whole && groups_.size > 1; }
  Status read(const Held& held, StateTensor tensor);
  Status fetch(const Slice& slice);
  Status show(const Slice& slice);
  View staged(const Slice& s) const {
    return View::whole(staging_, s.held->dtype, s.numel * s.parts);
  }
  static bool exists(const Held& held, StateTensor tensor) {
    return tensor == StateTensor::value || held.exp_avg.valid();
  }
  // Elements of what the rank holds.
  static View source(const Slice& s) {
    if (s.tensor == StateTensor::value) {
      View values = s.held->values();
      values.first += s.first;
      values.numel = s.numel;
      return values;
    }
    const BufferId id = s.tensor == StateTensor::exp_avg ? s.held->exp_avg : s.held->exp_avg_sq;
    return View::part(id, s.held->dtype, s.first, s.numel);
  }
  // The ranks that have it; no ranks: all.
  static RankSet only_on(const Slice& s) {
    return s.tensor == StateTensor::value ? RankSet() : s.held->where;
  }
  Cause why() const { return engine_.cause("", Reason::summon); }

  EngineBase& engine_;
  const ShardGroups groups_;
  RankSet recipients_;
  Bytes room_{};
  const Range* range_ = nullptr;
  BufferId staging_;
};

Status OptimizerStateOps::read(const std::vector<StateTensor>& tensors, const RankSet& recipients,
                               Bytes staging, const Range& range) {
  recipients_ = recipients;
  range_ = &range;
  TESSERA_TRY(engine_.hold_all(false));
  Bytes least{};
  Bytes most{};
  const std::vector<Held*> all = engine_.all_held();
  for (const Held* h : all) {
    if (!exists(*h, tensors.front())) continue;
    const Bytes element = size_of(h->dtype) * (sharded(*h) ? groups_.size : 1);
    least = std::max(least, element);
    most = std::max(most, element * h->map.shard().value);
  }
  if (most == Bytes{0}) return {};
  if (staging < least) {
    return Status(Code::invalid_argument,
                  fmt::format("staging of {} bytes has no room for one element of every rank: give "
                              "at least {}",
                              staging.value, least.value));
  }
  room_ = std::min(staging, most);
  TESSERA_ASSIGN(staging_, engine_.allocate("optimizer_state.staging", room_,
                                            MemoryClass::temporary, engine_.compute_, why()));
  for (const Held* h : all) {
    for (const StateTensor tensor : tensors) {
      if (exists(*h, tensor)) TESSERA_TRY(read(*h, tensor));
    }
  }
  Compute last{.cost = {.kernels = 0}, .reads = {}, .writes = {}, .body = {}};
  TESSERA_ASSIGN(const EventId done, engine_.submit(engine_.compute_, why(), std::move(last)));
  TESSERA_TRY(engine_.release(staging_, done));
  return engine_.runtime_.wait(done);
}

Status OptimizerStateOps::read(const Held& held, StateTensor tensor) {
  const Index parts = sharded(held) ? groups_.size : 1;
  const Numel at_once{room_.value / size_of(held.dtype).value / parts};
  for (Numel first{}; first < held.map.shard(); first += at_once) {
    const Slice slice{&held, tensor, first, std::min(at_once, held.map.shard() - first), parts};
    TESSERA_TRY(fetch(slice));
    TESSERA_TRY(show(slice));
  }
  return {};
}

// Into the staging buffer of every rank.
Status OptimizerStateOps::fetch(const Slice& s) {
  const CopyRoute route = *route_between(s.held->memory, Memory::device);
  if (sharded(*s.held)) {
    View own = source(s);
    if (route != CopyRoute::on_device) {  // a collective reads device memory
      own = View::shard(staging_, s.held->dtype, s.numel, s.parts);
      TESSERA_TRY(engine_
                      .submit(engine_.compute_, why(),
                              Copy{.index_in = groups_.shard,
                                   .pieces = {{.from = source(s), .to = own}},
                                   .route = route})
                      .status());
    }
    return engine_.submit(engine_.compute_, why(), AllGather{groups_.shard, own, staged(s)})
        .status();
  }
  const RankSet some = only_on(s);
  TESSERA_TRY(engine_
                  .submit_on(some.empty() ? engine_.everyone_ : some, engine_.compute_, why(),
                             Copy{.pieces = {{.from = source(s), .to = staged(s)}}, .route = route})
                  .status());
  if (some.empty() || !groups_.replica.valid()) return {};
  return engine_
      .submit(engine_.compute_, why(),
              Broadcast{groups_.replica, staged(s), engine_.owner_place(*s.held)})
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
    for (ShardPiece piece : s.held->map.pieces(part)) {
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
  look.body = [all = std::move(all), dtype = s.held->dtype,
               range = *range_](const BodyContext& context) {
    std::vector<float> values;
    for (const auto& [piece, tensor] : all) {
      values.resize(static_cast<std::size_t>(piece.numel.value));
      context.kernels().read(part_of(ConstElements{context.read(0), dtype}, piece), values);
      range(context.rank(), {piece.parameter, tensor, piece.first, values});
    }
  };
  TESSERA_TRY(engine_.submit_on(recipients_, engine_.compute_, why(), std::move(look)).status());
  // A gathered result is used everywhere, even where nobody looks.
  const RankSet others = engine_.everyone_.minus(recipients_);
  if (others.empty()) return {};
  Compute unused{.cost = {.kernels = 0}, .reads = {staged(s)}, .writes = {}, .body = {}};
  return engine_.submit_on(others, engine_.compute_, why(), std::move(unused)).status();
}

// States by ParameterId; nullptr: none.
Status OptimizerStateOps::write(const std::vector<const ParameterState*>& states) {
  for (std::size_t p = 0; p < states.size(); ++p) {
    const ParameterId id{static_cast<std::int32_t>(p)};
    engine_.param_groups_.set_steps_taken(id, states[p] == nullptr ? 0 : states[p]->step);
  }
  TESSERA_TRY(engine_.hold_all(true));
  TESSERA_TRY(engine_.allocate_optimizer_state());
  EventId written;
  for (Held* h : engine_.all_held()) {
    if (!h->exp_avg.valid()) continue;
    Compute work;
    for (const BufferId id : {h->exp_avg, h->exp_avg_sq}) {
      work.writes.push_back(View::whole(id, h->dtype, h->map.shard()));
    }
    work.cost.elementwise_bytes = 2 * static_cast<double>(bytes_of(h->map.shard(), h->dtype).value);
    work.body = [this, &states, map = h->map, whole = h->whole,
                 dtype = h->dtype](const BodyContext& context) {
      const Index index = whole ? 0 : engine_.shard_index(context.rank());
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
    const RankSet& where = h->where.empty() ? engine_.everyone_ : h->where;
    TESSERA_TRY(engine_.submit_on(where, engine_.compute_, why(), std::move(work)).status());
  }
  Compute last{.cost = {.kernels = 0}, .reads = {}, .writes = {}, .body = {}};
  TESSERA_ASSIGN(written, engine_.submit(engine_.compute_, why(), std::move(last)));
  return engine_.runtime_.wait(written);
}

namespace {

Result<EngineBase*> base_of(Engine& engine) {
  auto* base = dynamic_cast<EngineBase*>(&engine);
  if (base != nullptr) return base;
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
  TESSERA_ASSIGN(EngineBase* const base, base_of(engine));
  OptimizerStateOps ops(*base);
  TESSERA_TRY(ops.expect_idle(call));
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

Result<OptimizerState> consolidate_optimizer_state(Engine& engine,
                                                   const ReadStateOptions& options) {
  TESSERA_ASSIGN(EngineBase* const base, base_of(engine));
  const OptimizerStateOps ops(*base);
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
  TESSERA_ASSIGN(EngineBase* const base, base_of(engine));
  OptimizerStateOps ops(*base);
  TESSERA_TRY(ops.expect_idle("load_optimizer_state"));
  std::vector<const ParameterState*> by_id(ops.model().parameters.size(), nullptr);
  for (const ParameterState& one : state.parameters) {
    const ParameterId id = ops.model().find_parameter(one.name);
    TESSERA_TRY(check(ops, one, id));
    by_id[id.index()] = &one;
  }
  return ops.write(by_id);
}

}  // namespace tessera
