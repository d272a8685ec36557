// SPDX-License-Identifier: Apache-2.0
// A TraceSink that keeps what it gets, as lines that tests can compare.
#pragma once

#include <fmt/format.h>

#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tessera/assert.h"
#include "tessera/trace.h"

namespace tessera::test {

class RecordedTrace : public TraceSink {
 public:
  struct Span {
    Time begin = 0, ready = 0, end = 0;
  };
  struct OpRow {
    OpKind kind = OpKind::compute;
    std::int32_t stream = 0;
    std::int32_t communicator = -1;
    std::int32_t step = 0;
    std::string algorithm;
  };
  struct Step {
    Time begin = 0, end = 0, compute = 0, communication = 0, exposed = 0, blocking = 0, wait = 0;
    Bytes peak_allocated{};
  };

  std::vector<std::string> order;  // what does not depend on time, in the order of the calls
  std::vector<std::string> peaks;
  std::map<std::int32_t, OpRow> ops;
  std::map<std::int32_t, std::map<Rank, Span>> spans_of;  // by op
  std::map<std::int32_t, std::map<Rank, Time>> kernels;   // by op
  std::map<Rank, std::vector<MemorySample>> memory_of;
  std::vector<std::vector<Step>> steps;  // by rank
  std::vector<std::string> diagnostics;

  void begin(const TraceRun&) override {}
  void stream(const TraceStream& s) override {
    order.push_back(fmt::format("stream {} {} {}", s.id, s.name, static_cast<int>(s.role)));
  }
  void communicator(const TraceCommunicator& c) override {
    order.push_back(
        fmt::format("communicator {} {} {} {}", c.id, c.name, c.group_size, c.group_count));
  }
  void unit(const TraceUnit&) override {}
  void kernel(const TraceKernel& k) override {
    TESSERA_ASSERT(kernels[k.op].emplace(k.rank, k.time).second, "one of a rank and an op");
  }
  void op(const TraceOp& o) override {
    ops[o.id] = {o.kind, o.stream, o.communicator, o.step, std::string(o.algorithm)};
    order.push_back(fmt::format(
        "op {} {} stream {} communicator {} step {}.{} {} {} unit '{}' module '{}' '{}' bytes {} "
        "dtype {} flops {} after {}",
        o.id, name_of(o.kind), o.stream, o.communicator, o.step, o.micro_batch, name_of(o.phase),
        name_of(o.reason), o.unit, o.module, o.label, o.bytes.value, name_of(o.dtype), o.flops,
        fmt::join(o.after, ",")));
  }
  void spans(const SpanBatch& batch) override {
    for (std::size_t k = 0; k < batch.ranks.size(); ++k) {
      spans_of[batch.op][batch.ranks[k]] = {batch.begin[k], batch.ready[k], batch.end[k]};
    }
  }
  void buffer(const TraceBuffer& b) override {
    order.push_back(fmt::format("buffer {} '{}' unit '{}' {} {}", b.id, b.name, b.unit,
                                name_of(b.memory_class), b.bytes.value));
  }
  void memory(std::span<const MemorySample> samples) override {
    for (const MemorySample& sample : samples) memory_of[sample.rank].push_back(sample);
  }
  void peak_memory(const PeakMemory& p) override {
    std::string classes;
    for (Bytes bytes : p.by_class) classes += fmt::format(" {}", bytes.value);
    peaks.push_back(fmt::format("step {} ranks {}-{}: {} of {}:{}", p.step, p.first_rank,
                                p.end_rank, p.allocated.value, p.reserved.value, classes));
  }
  void rank_steps(const RankStepBatch& b) override {
    steps.emplace_back();
    for (std::size_t r = 0; r < b.begin.size(); ++r) {
      steps.back().push_back({b.begin[r], b.end[r], b.compute[r], b.communication[r], b.exposed[r],
                              b.blocking[r], b.wait[r], b.peak_allocated[r]});
    }
  }
  void diagnostic(const TraceDiagnostic& d) override {
    diagnostics.push_back(fmt::format("{}: {}", d.code, d.message));
  }
  Status finish() override { return {}; }
};

// Does what was deferred when the run is over and its runtime is gone.
class LateTrace final : public RecordedTrace {
 public:
  void defer(Bytes, std::function<void(TraceSink&)> work) override {
    works_.push_back(std::move(work));
  }
  void catch_up() {
    for (auto& work : std::exchange(works_, {})) work(*this);
  }

 private:
  std::vector<std::function<void(TraceSink&)>> works_;
};

}  // namespace tessera::test
