// SPDX-License-Identifier: Apache-2.0
#include "sim/memory/cached_memory.h"

#include <algorithm>
#include <map>
#include <utility>

namespace tessera::sim {

CachedMemory::Held& CachedMemory::held_by(BufferId id, StreamId stream) {
  if (Held* const known = held_.find(id)) return *known;
  if (places_.empty()) places_.push_back(place_count_++);
  Held& held = held_.add(id, {places_.back(), stream, 0});
  places_.pop_back();
  return held;
}

CachedMemory::Held CachedMemory::given_back(BufferId id, const RankSet& ranks) {
  Held* const held = held_.find(id);
  TESSERA_ASSERT(held != nullptr, "only handed out buffers can be released");
  const Held before = *held;
  held->ranks -= ranks.count();
  if (held->ranks > 0) return before;
  places_.push_back(held->place);
  held_.erase(id);
  return before;
}

CachingAllocator::Given CachedMemory::carry_out(Account& account, const Call& call) {
  const auto place = static_cast<std::size_t>(call.place);
  CachingAllocator& allocator = account.allocator;
  if (call.bytes == release_call) {
    const auto block = std::exchange(account.blocks[place], -1);
    if (call.stream < 0) {
      allocator.release(block);
    } else {
      allocator.release(block, StreamId{call.stream}, call.time);
    }
    return {};
  }
  const auto given = allocator.allocate(Bytes{call.bytes}, StreamId{call.stream}, call.time);
  if (account.blocks.size() <= place) account.blocks.resize(place + 1);
  account.blocks[place] = given.block;
  account.peak = std::max(account.peak, allocator.reserved());
  highest_ = std::max(highest_, allocator.reserved());
  return given;
}

void CachedMemory::settle(Account& account) {
  for (const Call& call : account.waiting) carry_out(account, call);
  account.waiting.clear();
  account.taken_by_them = {};
}

void CachedMemory::settle() {
  for (auto& c : ranks_.all()) settle(c.state);
}

void CachedMemory::put_off(Account& account, const Call& call) {
  account.waiting.push_back(call);
  if (account.waiting.size() * ranks_.all().size() > waiting_most) settle(account);
}

CachedMemory::Taken CachedMemory::allocate(BufferId id, Bytes bytes, StreamId stream,
                                           const RankSet& ranks, Time now, bool tells) {
  Held& held = held_by(id, stream);
  held.ranks += ranks.count();
  const Call call{now, bytes.value, static_cast<std::int32_t>(held.place), stream.value};
  Taken taken;
  const auto take = [&](const RankSet&, Account& account) -> Status {
    const Bytes most = account.taken_by_them + CachingAllocator::most_taken(bytes);
    if (!tells && account.allocator.has_room(most)) {
      account.taken_by_them = most;
      put_off(account, call);
      return {};
    }
    settle(account);
    const auto given = carry_out(account, call);
    taken.reserved = std::max(taken.reserved, account.allocator.reserved());
    taken.retried |= given.retried;
    taken.fits &= given.fits;
    return {};
  };
  const Status status = ranks_.for_each_in(ranks, take);
  TESSERA_ASSERT(status.ok(), "accounts do not fail");
  return taken;
}

std::vector<CachedMemory::Piece> CachedMemory::pieces_at_failure(Rank rank) const {
  const Account& account = ranks_.of(rank).state;
  std::map<CachingAllocator::BlockId, BufferId> buffers;
  held_.any_of([&](BufferId id, const Held& held) {
    const bool here = held.place < account.blocks.size() && account.blocks[held.place] >= 0;
    if (here) buffers[account.blocks[held.place]] = id;
    return false;
  });
  std::vector<Piece> out;
  for (const CachingAllocator::Piece& piece : account.allocator.pieces_at_failure()) {
    const auto found = buffers.find(piece.block);
    out.push_back({piece, found == buffers.end() ? BufferId{} : found->second});
  }
  return out;
}

void CachedMemory::restart_peaks() {
  for (auto& c : ranks_.all()) c.state.peak = c.state.allocator.reserved();
}

}  // namespace tessera::sim
