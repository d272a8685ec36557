// SPDX-License-Identifier: Apache-2.0
// A trace sink that keeps everything in vectors.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "tessera/trace.h"

namespace tessera::test {

struct VectorSink final : TraceSink {
  struct SpanRow {
    std::int32_t op;
    Rank rank;
    Time begin, ready, end;
    bool operator==(const SpanRow&) const = default;
  };
  struct StepRow {
    std::vector<Time> begin, end, compute, communication, exposed, blocking, wait;
    std::vector<Bytes> peak_allocated, peak_reserved;
  };

  TraceRun run;
  std::vector<StreamRole> streams;
  std::map<std::int32_t, TraceOp> ops;                      // string_views are dropped
  std::map<std::int32_t, std::vector<std::int32_t>> after;  // of ops
  std::vector<std::string> labels;
  std::vector<SpanRow> span_rows;
  std::vector<std::string> buffers;  // "0 full of layer, 64"
  std::vector<MemorySample> samples;
  std::vector<PeakMemory> peaks;
  std::vector<StepRow> steps;
  std::vector<std::string> diagnostics;
  std::vector<TraceMemoryShortage> shortages;  // without blocks
  std::vector<MemoryBlock> blocks;             // of all of them

  void begin(const TraceRun& r) override { run = r; }
  void stream(const TraceStream& s) override { streams.push_back(s.role); }
  void communicator(const TraceCommunicator&) override {}
  void unit(const TraceUnit&) override {}
  void op(const TraceOp& o) override {
    labels.emplace_back(o.label);
    TraceOp copy = o;
    copy.unit = copy.module = copy.label = copy.algorithm = {};
    after[o.id].assign(o.after.begin(), o.after.end());
    copy.after = {};
    ops.emplace(o.id, copy);
  }
  void spans(const SpanBatch& b) override {
    for (std::size_t i = 0; i < b.ranks.size(); ++i) {
      span_rows.push_back({b.op, b.ranks[i], b.begin[i], b.ready[i], b.end[i]});
    }
  }
  void buffer(const TraceBuffer& b) override {
    buffers.push_back(std::to_string(b.id) + " " + std::string(b.name) + " of " +
                      std::string(b.unit) + ", " + std::to_string(b.bytes.value));
  }
  void memory(std::span<const MemorySample> s) override {
    samples.insert(samples.end(), s.begin(), s.end());
  }
  void peak_memory(const PeakMemory& p) override { peaks.push_back(p); }
  void rank_steps(const RankStepBatch& b) override {
    auto copy = [](auto span) { return std::vector(span.begin(), span.end()); };
    steps.push_back({copy(b.begin), copy(b.end), copy(b.compute), copy(b.communication),
                     copy(b.exposed), copy(b.blocking), copy(b.wait), copy(b.peak_allocated),
                     copy(b.peak_reserved)});
  }
  void diagnostic(const TraceDiagnostic& d) override { diagnostics.emplace_back(d.message); }
  void memory_shortage(const TraceMemoryShortage& s) override {
    shortages.push_back(s);
    shortages.back().blocks = {};
    blocks.insert(blocks.end(), s.blocks.begin(), s.blocks.end());
  }
  Status finish() override { return {}; }
};

}  // namespace tessera::test
