// SPDX-License-Identifier: Apache-2.0
// A runtime that breaks the schedule on the way to a real one: what a careless engine would do.
#pragma once

#include <functional>

#include "tessera/runtime.h"

namespace tessera::test {

class FaultyRuntime final : public Runtime {
 public:
  /// Returns the ops to submit instead of `op`; the last one's event is handed back.
  using OpFault = std::function<std::vector<Op>(const Op& op)>;
  /// May change what a release waits for, or do it elsewhere: return false to skip it.
  using ReleaseFault = std::function<bool(BufferId buffer, EventId& after)>;

  FaultyRuntime(Runtime& real, OpFault op_fault, ReleaseFault release_fault = {})
      : real_(real), op_fault_(std::move(op_fault)), release_fault_(std::move(release_fault)) {}

  const RankSet& world() const override { return real_.world(); }
  const RankSet& local_ranks() const override { return real_.local_ranks(); }
  Result<StreamId> create_stream(std::string_view name, StreamRole role) override {
    return real_.create_stream(name, role);
  }
  Result<CommunicatorId> create_communicator(const RankGroups& groups,
                                             std::string_view name) override {
    return real_.create_communicator(groups, name);
  }
  Result<BufferId> allocate(const Allocation& request) override { return real_.allocate(request); }
  Status release(BufferId buffer, EventId after, const RankSet& where) override {
    if (release_fault_ && !release_fault_(buffer, after)) return {};
    return real_.release(buffer, after, where);
  }
  Result<EventId> submit(const Op& op) override {
    EventId last = last_;
    for (const Op& changed : op_fault_ ? op_fault_(op) : std::vector<Op>{op}) {
      TESSERA_ASSIGN(last, real_.submit(changed));
    }
    last_ = last;
    return last;
  }
  Status wait(EventId event) override { return real_.wait(event); }
  Result<PerRank<float>> read(const View& scalar) override { return real_.read(scalar); }
  PerRank<Time> now() const override { return real_.now(); }

 private:
  Runtime& real_;
  OpFault op_fault_;
  ReleaseFault release_fault_;
  EventId last_;
};

}  // namespace tessera::test
