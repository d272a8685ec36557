// SPDX-License-Identifier: Apache-2.0
// clip_grad_norm: the norm of sharded gradients is one all_reduce of one number away.
#include <fmt/format.h>

#include <cmath>

#include "engine/base/engine_base.h"

namespace tessera {
namespace {

Norm norm_of(double norm_type) {
  if (std::isinf(norm_type)) return Norm::largest;
  return norm_type == 1 ? Norm::l1 : Norm::l2;
}

struct Part {
  bool whole;
  ShardMap map;
  DType dtype;
};

std::vector<Part> parts_of(const std::vector<Held*>& held, std::vector<View>& views) {
  std::vector<Part> parts;
  for (const Held* h : held) {
    if (!h->gradient.buffer.valid()) continue;
    parts.push_back({h->whole, h->map, h->gradient.dtype});
    views.push_back(h->gradient);
  }
  return parts;
}

double bytes_of_views(const std::vector<View>& views) {
  double sum = 0;
  for (const View& v : views) sum += static_cast<double>(bytes_of(v.numel, v.dtype).value);
  return sum;
}

}  // namespace

// What this rank's shards add to the norm: the sum of |g| or g^2, or the largest |g|.
Compute EngineBase::local_norm(const std::vector<Held*>& held, const View& into, double norm_type) {
  Compute work;
  std::vector<Held*> counted;
  for (Held* h : held) {
    if (in_norm(*h)) counted.push_back(h);
  }
  auto parts = parts_of(counted, work.reads);
  work.writes = {into};
  work.zeroed = {0};
  work.cost.elementwise_bytes = bytes_of_views(work.reads);
  work.body = [this, parts = std::move(parts),
               norm = norm_of(norm_type)](const BodyContext& context) {
    const Elements one{context.write(0), DType::float32};
    const Index index = shard_index(context.rank());
    for (std::size_t k = 0; k < parts.size(); ++k) {
      if (parts[k].whole && index != 0) continue;  // counted once, by the first of the group
      for (const ShardPiece& piece : parts[k].map.pieces(index, /*trained_only=*/true)) {
        const ConstElements gradient{context.read(k), parts[k].dtype};
        context.kernels().add_norm(norm, part_of(gradient, piece), one);
      }
    }
  };
  return work;
}

namespace {

Compute scaled_gradients(const std::vector<Held*>& held, const View& norm, float max_norm,
                         double norm_type, const std::function<void(Rank, float)>& total) {
  Compute work;
  const auto parts = parts_of(held, work.writes);
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

}  // namespace

Status EngineBase::clip_grad_norm(float max_norm, double norm_type,
                                  const std::function<void(Rank, float)>& total) {
  TESSERA_TRY(expect(Stage::idle, "clip_grad_norm"));
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
  TESSERA_TRY(settle_gradients());
  const Cause why = cause("", Reason::clip);
  TESSERA_ASSIGN(BufferId norm, allocate("grad_norm", size_of(DType::float32),
                                         MemoryClass::temporary, compute_, why));
  const View one = View::whole(norm, DType::float32, Numel{1});
  auto measured = [&](const std::vector<Held*>& held) { return local_norm(held, one, norm_type); };
  TESSERA_TRY(submit_by_shard(active_, why, all_held(), measured).status());
  if (norm_group().valid()) {
    const Reduction reduction = largest ? Reduction::max : Reduction::sum;
    TESSERA_TRY(submit(compute_, why, AllReduce{norm_group(), one, one, reduction}).status());
  }
  auto scales = [&](const std::vector<Held*>& held) {
    return scaled_gradients(held, one, max_norm, norm_type, total);
  };
  TESSERA_ASSIGN(const EventId scaled, submit_by_shard(active_, why, all_held(), scales));
  return release(norm, scaled);
}

}  // namespace tessera
