// SPDX-License-Identifier: Apache-2.0
// Real bytes for every buffer of every rank: the simulator's optional numbers.
//
// The idea: operations are carried out when they are submitted. That gives the result of any real
// schedule, because the happens-before check has shown that no two of them race. Reductions add in
// rank order, in float32.
#pragma once

#include <map>
#include <vector>

#include "engine/swap/swap_store.h"
#include "tessera/op.h"

namespace tessera::sim {

class NumericStore {
 public:
  explicit NumericStore(SwapStore swapped) : swapped_(std::move(swapped)) {}

  /// On each of `ranks`, filled with what is NaN in every dtype: whoever forgets to write notices.
  /// Fails: io_error, invalid_argument (on NVMe, see SwapStore).
  Status allocate(BufferId buffer, const Allocation& request);
  void release(BufferId buffer, const RankSet& ranks);

  /// Fails: io_error.
  Status copy(const Copy& copy, const RankSet& where, const RankGroups* index_in);
  /// Fails: as run_body.
  Status compute(const Compute& compute, const RankSet& where, const RankGroups* index_in);
  void all_gather(const AllGather& op, const RankSet& where, const RankGroups& groups);
  void reduce_scatter(const ReduceScatter& op, const RankSet& where, const RankGroups& groups);
  /// only_root: the index that receives, or -1 for all.
  void all_reduce(const AllReduce& op, Index only_root, const RankSet& where,
                  const RankGroups& groups);
  void all_to_all(const AllToAll& op, const RankSet& where, const RankGroups& groups);
  void broadcast(const Broadcast& op, const RankSet& where, const RankGroups& groups);

  /// Element 0 of `view` on `rank`. REQUIRES: allocated there.
  float value(const View& view, Rank rank, Index index) const;

 private:
  using Data = std::vector<std::byte>;
  std::span<std::byte> bytes(const View& view, Rank rank, Index index);
  std::span<const std::byte> bytes(const View& view, Rank rank, Index index) const;

  std::map<BufferId, std::map<Rank, Data>> buffers_;
  SwapStore swapped_;
};

}  // namespace tessera::sim
