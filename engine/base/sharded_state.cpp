// SPDX-License-Identifier: Apache-2.0
#include "engine/base/sharded_state.h"

#include "engine/base/local_parameters.h"

namespace tessera {
std::vector<ParamShard*> ShardedState::local_shards() { return parts().locals.shards(); }

std::vector<ParamShard*> ShardedState::all_shards() {
  std::vector<ParamShard*> all = shards();
  for (ParamShard* own : local_shards()) all.push_back(own);
  return all;
}

Compute ShardedState::shard_work() const {
  Compute work;
  work.index_in = shard_groups().shard;
  return work;
}

Status make_values(ShardedState& state) {
  Issuer& issuer = state.issuer();
  const std::vector<ParamShard*> all = state.all_shards();
  for (std::size_t k = 0; k < all.size();) {
    const std::string_view unit = all[k]->unit;
    Compute init = state.shard_work();
    for (; k < all.size() && all[k]->unit == unit; ++k) {
      init.writes.push_back(all[k]->values());
      init.cost.elementwise_bytes += static_cast<double>(all[k]->bytes().value);
    }
    TESSERA_TRY(
        issuer.submit(issuer.compute_stream(), issuer.cause(unit, Reason::none), std::move(init))
            .status());
  }
  return {};
}

Status write_values(ShardedState& state, const std::function<float(ParameterId, Numel)>& value) {
  Issuer& issuer = state.issuer();
  TESSERA_TRY(state.parts().calls.expect(CallOrder::Stage::idle, "initialise"));
  // First: what was gathered from the old values goes, also if something below fails.
  TESSERA_TRY(state.before_write());
  TESSERA_TRY(state.load_shards(false));
  Compute work = state.shard_work();
  std::vector<ParamShard> order;
  for (const ParamShard* shard : state.all_shards()) {
    work.writes.push_back(shard->values());
    order.push_back(*shard);
  }
  work.body = [&state, order, value](const BodyContext& context) {
    std::vector<float> values;
    for (std::size_t k = 0; k < order.size(); ++k) {
      const Elements into{context.write(k), order[k].dtype};
      for (const ShardPiece& piece :
           order[k].map.pieces(state.index_of(order[k], context.rank()))) {
        values.clear();
        for (std::int64_t i = 0; i < piece.numel.value; ++i) {
          values.push_back(value(piece.parameter, piece.first + Numel{i}));
        }
        context.kernels().write(values, part_of(into, piece));
      }
    }
  };
  return issuer.submit(issuer.compute_stream(), issuer.cause("", Reason::none), std::move(work))
      .status();
}

Status read_values(ShardedState& state, ParameterId id,
                   const std::function<void(Rank, Numel, std::span<const float>)>& read) {
  Issuer& issuer = state.issuer();
  TESSERA_TRY(state.parts().calls.expect(CallOrder::Stage::idle, "inspect_shards", id));
  TESSERA_TRY(state.load_shards(false));
  for (const ParamShard* shard : state.all_shards()) {
    if (!shard->map.holds(id)) continue;
    Compute work = state.shard_work();
    work.reads = {shard->values()};
    work.body = [&state, id, read, held = *shard](const BodyContext& context) {
      for (const ShardPiece& piece : held.map.pieces(state.index_of(held, context.rank()))) {
        if (piece.parameter != id) continue;
        std::vector<float> values(static_cast<std::size_t>(piece.numel.value));
        context.kernels().read(part_of(ConstElements{context.read(0), held.dtype}, piece), values);
        read(context.rank(), piece.first, values);
      }
    };
    TESSERA_ASSIGN(
        const EventId seen,
        issuer.submit(issuer.compute_stream(), issuer.cause("", Reason::none), std::move(work)));
    TESSERA_TRY(issuer.runtime().wait(seen));
  }
  return {};
}

}  // namespace tessera
