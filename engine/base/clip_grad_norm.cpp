// SPDX-License-Identifier: Apache-2.0
// clip_grad_norm: the norm of sharded gradients is one all_reduce of one number away.
#include <fmt/format.h>

#include <cmath>

#include "engine/base/optimizer_step.h"
#include "engine/numbers/arithmetic.h"
#include "tessera/finite_step.h"

namespace tessera {
namespace {

Norm norm_of(double norm_type) {
  if (std::isinf(norm_type)) return Norm::largest;
  return norm_type == 1 ? Norm::l1 : Norm::l2;
}

struct Part {
  bool whole;
  Index own_group;
  ShardMap map;
  DType dtype;
};

std::vector<Part> parts_of(const std::vector<ParamShard*>& shards, std::vector<View>& views) {
  std::vector<Part> parts;
  for (const ParamShard* shard : shards) {
    if (!shard->gradient.buffer.valid()) continue;
    parts.push_back({shard->whole, shard->own_group(), shard->map, shard->gradient.dtype});
    views.push_back(shard->gradient);
  }
  return parts;
}

double bytes_of_views(const std::vector<View>& views) {
  double sum = 0;
  for (const View& v : views) sum += static_cast<double>(bytes_of(v.numel, v.dtype).value);
  return sum;
}

}  // namespace

// This rank's share of the norm: the sum of |g| or g^2 over its shards, or the largest |g|.
Compute OptimizerStep::local_norm(const std::vector<ParamShard*>& shards, const View& into,
                                  double norm_type) {
  Compute work;
  std::vector<ParamShard*> counted;
  for (ParamShard* shard : shards) {
    if (scheme_.in_norm(*shard)) counted.push_back(shard);
  }
  auto parts = parts_of(counted, work.reads);
  work.writes = {into};
  work.zeroed = {0};
  work.cost.elementwise_bytes = bytes_of_views(work.reads);
  work.body = [this, parts = std::move(parts),
               norm = norm_of(norm_type)](const BodyContext& context) {
    const Elements one{context.write(0), DType::float32};
    const Index index = state_.shard_index(context.rank());
    for (std::size_t k = 0; k < parts.size(); ++k) {
      const Part& part = parts[k];
      // Counted once, by the first of the group, or of the world's groups.
      if (part.own_group > 0 ? context.rank() >= part.own_group : part.whole && index != 0)
        continue;
      const Index own = part.own_group > 0 ? static_cast<Index>(context.rank()) : index;
      for (const ShardPiece& piece : part.map.pieces(own, /*trained_only=*/true)) {
        const ConstElements gradient{context.read(k), part.dtype};
        context.kernels().add_norm(norm, part_of(gradient, piece), one);
      }
    }
  };
  return work;
}

namespace {

Compute scaled_gradients(const std::vector<ParamShard*>& shards, const View& norm, float max_norm,
                         double norm_type, const std::function<void(Rank, float)>& total) {
  Compute work;
  const auto parts = parts_of(shards, work.writes);
  work.reads = {norm};
  work.reads.insert(work.reads.end(), work.writes.begin(), work.writes.end());
  work.cost.elementwise_bytes = 2 * bytes_of_views(work.writes);
  work.body = [parts, max_norm, norm = norm_of(norm_type), total](const BodyContext& context) {
    const ConstElements sum{context.read(0), DType::float32};
    if (total) {
      float all = 0;
      context.kernels().read(sum, {&all, 1});
      total(context.rank(), norm == Norm::l2 ? std::sqrt(all) : all);
    }
    for (std::size_t k = 0; k < parts.size(); ++k) {
      context.kernels().clip(norm, sum, max_norm, {context.write(k), parts[k].dtype});
    }
  };
  return work;
}

// NaN differs from itself, so ranks are asked whether theirs is a number.
Result<bool> all_finite(const PerRank<float>& norms, const RankSet& everyone) {
  const Rank first = everyone.first();
  for (const RankRange& range : everyone.ranges()) {
    for (Rank rank = range.begin; rank < range.end; ++rank) {
      if (std::isfinite(norms[rank]) == std::isfinite(norms[first])) continue;
      return Status(Code::divergent,
                    fmt::format("the norm of the gradients is {} on rank {}, but {} on rank {}: "
                                "ranks would step differently",
                                norms[first], first, norms[rank], rank));
    }
  }
  return std::isfinite(norms[first]);
}

}  // namespace

Status OptimizerStep::clip(float max_norm, double norm_type,
                           const std::function<void(Rank, float)>& total) {
  TESSERA_TRY(state_.parts().calls.expect(CallOrder::Stage::idle, "clip_grad_norm"));
  const bool largest = std::isinf(norm_type);
  if (!largest && norm_type != 1 && norm_type != 2) {
    return Status(Code::not_supported,
                  fmt::format("clip_grad_norm: norm {} is not supported, choose 1, 2 or infinity",
                              norm_type));
  }
  if (!(max_norm > 0)) {
    return Status(Code::invalid_argument,
                  fmt::format("clip_grad_norm: max_norm must be above 0, found {}", max_norm));
  }
  TESSERA_TRY(scheme_.complete_gradients());
  const Cause why = issuer_.cause("", Reason::clip);
  const StreamId compute = issuer_.compute_stream();
  const bool asked = norm_is_finite_ != nullptr;
  TESSERA_ASSIGN(BufferId norm, asked ? issuer_.allocate_answer("grad_norm", why)
                                      : issuer_.allocate("grad_norm", size_of(DType::float32),
                                                         MemoryClass::temporary, compute, why));
  const View one = View::whole(norm, DType::float32, Numel{1});
  auto measured = [&](const auto& shards) { return local_norm(shards, one, norm_type); };
  const RankSet& active = issuer_.active();
  TESSERA_TRY(issuer_.submit_by_shard(active, why, state_.all_shards(), measured).status());
  // Sums of powers add up over ranks, roots do not: the root is taken where gradients are scaled.
  if (const CommunicatorId group = scheme_.norm_group(); group.valid()) {
    const Reduction reduction = largest ? Reduction::max : Reduction::sum;
    TESSERA_TRY(issuer_.submit(compute, why, AllReduce{group, one, one, reduction}).status());
  }
  auto scales = [&](const auto& shards) {
    return scaled_gradients(shards, one, max_norm, norm_type, total);
  };
  TESSERA_ASSIGN(EventId scaled, issuer_.submit_by_shard(active, why, state_.all_shards(), scales));
  if (asked) {
    TESSERA_ASSIGN(const PerRank<float> norms, issuer_.runtime().read(one));
    TESSERA_ASSIGN(*norm_is_finite_, all_finite(norms, issuer_.everyone()));
    const RankSet& world = issuer_.runtime().world();
    if (world != issuer_.everyone()) {  // whose other ranks have scaled nothing
      TESSERA_ASSIGN(scaled, issuer_.submit_on(world, compute, why, declare_read({one})));
    }
  }
  return issuer_.release(norm, scaled);
}

namespace {

Status from_elsewhere() {
  return Status(Code::not_supported, "steps can only be skipped of an engine of this library");
}

}  // namespace

Result<bool> clip_finite_grad_norm(Engine& engine, float max_norm, double norm_type,
                                   const std::function<void(Rank, float)>& total) {
  ShardedState* const state = engine.sharded_state();
  if (state == nullptr) return from_elsewhere();
  OptimizerStep& optimizer = state->parts().optimizer;
  bool finite = true;
  optimizer.watch_norm(&finite);
  const Status clipped = engine.clip_grad_norm(max_norm, norm_type, total);
  optimizer.watch_norm(nullptr);
  TESSERA_TRY(clipped);
  return finite;
}

Status skip_step(Engine& engine) {
  ShardedState* const state = engine.sharded_state();
  return state == nullptr ? from_elsewhere() : state->parts().optimizer.skip();
}

}  // namespace tessera
