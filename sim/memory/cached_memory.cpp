// SPDX-License-Identifier: Apache-2.0
#include "sim/memory/cached_memory.h"

#include <algorithm>

namespace tessera::sim {

CachedMemory::Taken CachedMemory::allocate(BufferId id, Bytes bytes, StreamId stream,
                                           const RankSet& ranks, Time now) {
  Taken taken;
  const auto take = [&](const RankSet&, Account& account) -> Status {
    const auto given = account.allocator.allocate(bytes, stream, now);
    account.held.emplace(id, Held{given.block, stream});
    account.peak = std::max(account.peak, account.allocator.reserved());
    taken.reserved = std::max(taken.reserved, account.allocator.reserved());
    taken.retried |= given.retried;
    taken.fits &= given.fits;
    return {};
  };
  const Status status = ranks_.for_each_in(ranks, take);
  TESSERA_ASSERT(status.ok(), "accounts do not fail");
  highest_ = std::max(highest_, taken.reserved);
  return taken;
}

void CachedMemory::release(BufferId id, const RankSet& ranks, const UseOf& use_of) {
  const auto give = [&](const RankSet& alike, Account& account) -> Status {
    const auto found = account.held.find(id);
    TESSERA_ASSERT(found != account.held.end(), "only handed out buffers can be released");
    const Held held = found->second;
    account.held.erase(found);
    if (const auto use = use_of(held.stream, alike.first())) {
      account.allocator.release(held.block, use->user, use->done);
    } else {
      account.allocator.release(held.block);
    }
    return {};
  };
  const Status status = ranks_.for_each_in(ranks, give);
  TESSERA_ASSERT(status.ok(), "accounts do not fail");
}

void CachedMemory::restart_peaks() {
  for (auto& c : ranks_.all()) c.state.peak = c.state.allocator.reserved();
}

}  // namespace tessera::sim
