// SPDX-License-Identifier: Apache-2.0
// A runtime that another one carries out, and that lists what it is asked for: two carriers are
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
  ListingRuntime(Runtime& carrier, std::vector<std::string>& lines)
      : carrier_(carrier), lines_(lines) {}

  const RankSet& world() const override { return carrier_.world(); }
  const RankSet& carried() const override { return carrier_.carried(); }
  PerRank<Time> now() const override { return carrier_.now(); }
  Processor processor() const override { return carrier_.processor(); }

  Result<StreamId> create_stream(std::string_view name, StreamRole role) override {
    lines_.push_back(fmt::format("stream {} {}", name, static_cast<int>(role)));
    return carrier_.create_stream(name, role);
  }
  Result<CommunicatorId> create_communicator(const RankGroups& groups,
                                             std::string_view name) override {
    lines_.push_back(fmt::format("communicator {} of {}", name, groups.ranks().to_string()));
    return carrier_.create_communicator(groups, name);
  }
  Result<BufferId> allocate(const Allocation& request) override {
    lines_.push_back(fmt::format(
        "allocate {}: {} bytes of memory {}, stream {}, for {}", request.name, request.bytes.value,
        static_cast<int>(request.memory), request.stream.value, request.where.to_string()));
    return carrier_.allocate(request);
  }
  Status release(BufferId buffer, EventId after, const RankSet& where) override {
    lines_.push_back(fmt::format("release buffer {} after {} for {}", buffer.value, after.value,
                                 where.to_string()));
    return carrier_.release(buffer, after, where);
  }
  Result<EventId> submit(const Op& op) override {
    lines_.push_back(line(op));
    return carrier_.submit(op);
  }
  Status wait(EventId event) override {
    lines_.push_back(fmt::format("wait for {}", event.value));
    return carrier_.wait(event);
  }
  Result<PerRank<float>> read(const View& scalar) override {
    lines_.push_back(fmt::format("read buffer {}", scalar.buffer.value));
    return carrier_.read(scalar);
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

  Runtime& carrier_;
  std::vector<std::string>& lines_;
};

}  // namespace tessera::test
