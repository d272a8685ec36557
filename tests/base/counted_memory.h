// SPDX-License-Identifier: Apache-2.0
// A runtime that carries out what another does, and counts the bytes that one rank has of each
// class of memory.
#pragma once

#include <algorithm>
#include <map>

#include "tessera/runtime.h"

namespace tessera::test {

class CountedMemory final : public Runtime {
 public:
  explicit CountedMemory(Runtime& inner) : inner_(inner) {}

  Bytes held(MemoryClass memory_class, Rank rank = 0) const {
    const auto found = held_.find({memory_class, rank});
    return found == held_.end() ? Bytes{0} : found->second;
  }
  /// The most that `rank` ever had on the device, of all classes together.
  Bytes peak(Rank rank = 0) const { return peak_.count(rank) == 0 ? Bytes{0} : peak_.at(rank); }
  Bytes bytes_now(Rank rank = 0) const { return now_.count(rank) == 0 ? Bytes{0} : now_.at(rank); }
  void forget_peak() { peak_ = now_; }

  const RankSet& world() const override { return inner_.world(); }
  const RankSet& local_ranks() const override { return inner_.local_ranks(); }
  Result<StreamId> create_stream(std::string_view name, StreamRole role) override {
    return inner_.create_stream(name, role);
  }
  Result<CommunicatorId> create_communicator(const RankGroups& groups,
                                             std::string_view name) override {
    return inner_.create_communicator(groups, name);
  }
  Result<BufferId> allocate(const Allocation& request) override {
    auto id = inner_.allocate(request);
    if (!id.ok()) return id;
    sizes_[*id] = {request.bytes, request.memory_class, request.memory};
    add(sizes_[*id], request.where, request.bytes);
    return id;
  }
  Status release(BufferId buffer, EventId after, const RankSet& where) override {
    TESSERA_TRY(inner_.release(buffer, after, where));
    add(sizes_.at(buffer), where, -sizes_.at(buffer).bytes);
    return {};
  }
  Result<EventId> submit(const Op& op) override { return inner_.submit(op); }
  Status wait(EventId event) override { return inner_.wait(event); }
  Result<PerRank<float>> read(const View& scalar) override { return inner_.read(scalar); }
  PerRank<Time> now() const override { return inner_.now(); }

 private:
  struct Size {
    Bytes bytes{};
    MemoryClass memory_class = MemoryClass::temporary;
    Memory memory = Memory::device;
  };
  void add(const Size& size, const RankSet& where, Bytes bytes) {
    for (const RankRange& range : where.ranges()) {
      for (Rank r = range.begin; r < range.end; ++r) {
        held_[{size.memory_class, r}] += bytes;
        if (size.memory != Memory::device) continue;
        now_[r] += bytes;
        peak_[r] = std::max(peak_[r], now_[r]);
      }
    }
  }

  Runtime& inner_;
  std::map<BufferId, Size> sizes_;
  std::map<std::pair<MemoryClass, Rank>, Bytes> held_;
  std::map<Rank, Bytes> now_, peak_;
};

}  // namespace tessera::test
