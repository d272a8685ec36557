// SPDX-License-Identifier: Apache-2.0
// A runtime that another one carries out, and that lists what it is asked for: two backends are
// asked for the same, in the same order, or the first line that differs says where they part.
#pragma once

#include <fmt/format.h>

#include <string>
#include <vector>

#include "engine/runtime/access.h"
#include "engine/runtime/op_checks.h"
#include "tessera/runtime.h"

namespace tessera::test {

class ListingRuntime : public Runtime {
 public:
  ListingRuntime(Runtime& backend, std::vector<std::string>& lines)
      : backend_(backend), lines_(lines) {}

  const RankSet& world() const override { return backend_.world(); }
  const RankSet& local_ranks() const override { return backend_.local_ranks(); }
  PerRank<Time> now() const override { return backend_.now(); }
  Processor processor() const override { return backend_.processor(); }

  Result<StreamId> create_stream(std::string_view name, StreamRole role) override {
    lines_.push_back(fmt::format("stream {} {}", name, static_cast<int>(role)));
    return backend_.create_stream(name, role);
  }
  Result<CommunicatorId> create_communicator(const RankGroups& groups,
                                             std::string_view name) override {
    lines_.push_back(fmt::format("communicator {} of {}", name, groups.ranks().to_string()));
    return backend_.create_communicator(groups, name);
  }
  Result<BufferId> allocate(const Allocation& request) override {
    lines_.push_back(fmt::format(
        "allocate {}: {} bytes of memory {}, stream {}, for {}", request.name, request.bytes.value,
        static_cast<int>(request.memory), request.stream.value, request.where.to_string()));
    return backend_.allocate(request);
  }
  Status release(BufferId buffer, EventId after, const RankSet& where) override {
    lines_.push_back(fmt::format("release buffer {} after {} for {}", buffer.value, after.value,
                                 where.to_string()));
    return backend_.release(buffer, after, where);
  }
  Result<EventId> submit(const Op& op) override {
    lines_.push_back(line(op));
    return backend_.submit(op);
  }
  Status wait(EventId event) override {
    lines_.push_back(fmt::format("wait for {}", event.value));
    return backend_.wait(event);
  }
  Result<PerRank<float>> read(const View& scalar) override {
    lines_.push_back(fmt::format("read buffer {}", scalar.buffer.value));
    return backend_.read(scalar);
  }

 private:
  static std::string line(const Op& op) {
    std::string text = fmt::format("{} on stream {} for {} after", describe(op), op.stream.value,
                                   op.where.to_string());
    for (EventId event : op.after) text += fmt::format(" {}", event.value);
    for (const Access& a : accesses_of(op)) {
      text += fmt::format("; {} {} [{} + {} * i, {} bytes] to {}", a.write ? "writes" : "reads",
                          a.buffer.value, a.begin, a.step, a.length, a.end);
    }
    return text;
  }

  Runtime& backend_;
  std::vector<std::string>& lines_;
};

}  // namespace tessera::test
