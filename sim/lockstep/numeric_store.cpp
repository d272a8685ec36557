// SPDX-License-Identifier: Apache-2.0
#include "sim/lockstep/numeric_store.h"

#include <algorithm>

#include "engine/numbers/number.h"
#include "tessera/reachable_memory.h"

namespace tessera::sim {
namespace {

template <class F>
void for_each_group(const RankSet& where, const RankGroups& groups, F&& f) {
  for (Index g = 0; g < groups.group_count(); ++g) {
    if (where.contains(groups.member(g, 0))) f(g);
  }
}

}  // namespace

Status NumericStore::allocate(BufferId buffer, const Allocation& request) {
  Status status;
  request.where.for_each([&](Rank r) {
    if (request.memory != Memory::nvme) {
      buffers_[buffer][r] = Data(static_cast<std::size_t>(request.bytes.value), std::byte{0xFF});
    } else if (status.ok()) {
      status = swapped_.allocate(buffer, request, r);
    }
  });
  return status;
}

void NumericStore::release(BufferId buffer, const RankSet& ranks) {
  if (swapped_.holds(buffer)) {
    ranks.for_each([&](Rank r) { swapped_.release(buffer, r); });
    return;
  }
  auto& per_rank = buffers_[buffer];
  ranks.for_each([&](Rank r) { per_rank.erase(r); });
  if (per_rank.empty()) buffers_.erase(buffer);
}

std::span<std::byte> NumericStore::bytes(const View& view, Rank rank, Index index) {
  Data& data = buffers_.at(view.buffer).at(rank);
  const auto size = static_cast<std::size_t>(size_of(view.dtype).value);
  const auto begin = static_cast<std::size_t>(view.begin_at(index).value) * size;
  const auto end = static_cast<std::size_t>(view.end_at(index).value) * size;
  return std::span(data).subspan(begin, end - begin);
}

std::span<const std::byte> NumericStore::bytes(const View& view, Rank rank, Index index) const {
  return const_cast<NumericStore*>(this)->bytes(view, rank, index);
}

Status NumericStore::copy(const Copy& copy, const RankSet& where, const RankGroups* index_in) {
  const bool writes = writes_files(copy.route);
  Status status;
  where.for_each([&](Rank r) {
    const Index index = index_in == nullptr ? 0 : index_in->index_of(r);
    if (!uses_files(copy.route)) {
      return copy_in_memory(copy, [&](const View& view) { return bytes(view, r, index); });
    }
    for (const CopyBlocks& piece : copy.pieces) {
      if (!status.ok()) return;
      status = swapped_.move(piece, copy.route, r, bytes(writes ? piece.from : piece.to, r, index));
    }
  });
  return status;
}

Status NumericStore::compute(const Compute& compute, const RankSet& where,
                             const RankGroups* index_in) {
  Status status;
  if (!compute.body && compute.zeroed.empty()) return status;
  where.for_each([&](Rank r) {
    const Index index = index_in == nullptr ? 0 : index_in->index_of(r);
    if (!status.ok()) return;
    status = compute_in_memory(compute, r, [&](const View& v) { return bytes(v, r, index); });
  });
  return status;
}

void NumericStore::all_gather(const AllGather& op, const RankSet& where, const RankGroups& groups) {
  for_each_group(where, groups, [&](Index g) {
    const Index n = groups.group_size(g);
    std::vector<Data> inputs;
    for (Index i = 0; i < n; ++i) {
      const auto source = bytes(op.input, groups.member(g, i), i);
      inputs.emplace_back(source.begin(), source.end());
    }
    for (Index i = 0; i < n; ++i) {
      auto target = bytes(op.output, groups.member(g, i), i);
      for (const Data& input : inputs) {
        std::copy(input.begin(), input.end(), target.begin());
        target = target.subspan(input.size());
      }
    }
  });
}

void NumericStore::reduce_scatter(const ReduceScatter& op, const RankSet& where,
                                  const RankGroups& groups) {
  for_each_group(where, groups, [&](Index g) {
    const Index n = groups.group_size(g);
    const auto shard = static_cast<std::size_t>(op.output.numel.value);
    RankOrderReduction sum(op.reduction, op.factor, shard * static_cast<std::size_t>(n));
    for (Index i = 0; i < n; ++i) {
      sum.add(bytes(op.input, groups.member(g, i), i), op.input.dtype);
    }
    for (Index i = 0; i < n; ++i) {
      const std::size_t first = static_cast<std::size_t>(i) * shard;
      sum.finish(bytes(op.output, groups.member(g, i), i), op.output.dtype, first);
    }
  });
}

void NumericStore::all_reduce(const AllReduce& op, Index only_root, const RankSet& where,
                              const RankGroups& groups) {
  for_each_group(where, groups, [&](Index g) {
    const Index n = groups.group_size(g);
    RankOrderReduction sum(op.reduction, op.factor, static_cast<std::size_t>(op.input.numel.value));
    for (Index i = 0; i < n; ++i) {
      sum.add(bytes(op.input, groups.member(g, i), i), op.input.dtype);
    }
    for (Index i = 0; i < n; ++i) {
      if (only_root >= 0 && i != only_root) continue;
      sum.finish(bytes(op.output, groups.member(g, i), i), op.output.dtype);
    }
  });
}

void NumericStore::all_to_all(const AllToAll& op, const RankSet& where, const RankGroups& groups) {
  for_each_group(where, groups, [&](Index g) {
    const Index n = groups.group_size(g);
    for (Index i = 0; i < n; ++i) {
      const auto target = bytes(op.output, groups.member(g, i), i);
      const std::size_t part = target.size() / static_cast<std::size_t>(n);
      for (Index k = 0; k < n; ++k) {
        const auto source = bytes(op.input, groups.member(g, k), k);
        std::copy_n(source.begin() + static_cast<std::ptrdiff_t>(part) * i, part,
                    target.begin() + static_cast<std::ptrdiff_t>(part) * k);
      }
    }
  });
}

void NumericStore::broadcast(const Broadcast& op, const RankSet& where, const RankGroups& groups) {
  for_each_group(where, groups, [&](Index g) {
    const auto source = bytes(op.data, groups.member(g, op.root), op.root);
    const Data data(source.begin(), source.end());
    for (Index i = 0; i < groups.group_size(g); ++i) {
      std::copy(data.begin(), data.end(), bytes(op.data, groups.member(g, i), i).begin());
    }
  });
}

float NumericStore::value(const View& view, Rank rank, Index index) const {
  return load_number(bytes(view, rank, index), view.dtype, 0);
}

}  // namespace tessera::sim
