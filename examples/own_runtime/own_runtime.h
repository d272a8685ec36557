// SPDX-License-Identifier: Apache-2.0
// A runtime of one's own in one file: all ranks in one process, an array of bytes for each of them,
// everything done when `submit` returns. What is legal and where buffers lie is CheckedRuntime's.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <optional>
#include <vector>

#include "tessera/checked_runtime.h"
#include "tessera/number_arrays.h"
#include "tessera/reachable_memory.h"
#include "tessera/runtime_trace.h"

namespace own {

using tessera::Index, tessera::PerRank, tessera::Rank, tessera::RankSet, tessera::Result;
using tessera::Status, tessera::Time, tessera::View;

class OwnRuntime final : public tessera::CheckedRuntime {
 public:
  /// `sink`, if there is one, gets the trace of all ranks and must outlive the runtime.
  explicit OwnRuntime(Rank ranks, tessera::TraceSink* sink = nullptr)
      : CheckedRuntime(RankSet::all(ranks), RankSet::all(ranks)), memory_(at(ranks)) {
    if (sink != nullptr) set_listener(trace_.emplace(*sink, ranks));
  }

  Result<PerRank<float>> read(const View& scalar) override {
    std::vector<float> values(memory_.size());
    world().for_each([&](Rank rank) {
      const Bytes value = bytes(scalar, rank, 0);
      tessera::load_numbers({value, scalar.dtype}, {&values[at(rank)], 1});
    });
    return PerRank<float>(std::move(values));
  }
  PerRank<Time> now() const override {
    const auto since = std::chrono::steady_clock::now() - start_;
    return PerRank<Time>(std::chrono::nanoseconds(since).count());
  }

 private:
  using Bytes = std::span<std::byte>;
  using Inputs = std::vector<std::vector<std::byte>>;  // by index in the group

  Status buffer_placed(tessera::BufferId, const tessera::Allocation& request, const RankSet& ranks,
                       const Placement& placement) override {
    ranks.for_each([&](Rank rank) {
      std::vector<std::byte>& own = memory(rank, request.memory);
      own.resize(std::max(own.size(), at((placement.offset + request.bytes).value)));
    });
    return {};
  }

  Status execute(const tessera::Op& op, tessera::EventId event) override {
    const Time begin = now()[0];
    std::visit([&](const auto& what) { run(what, op.where); }, op.what);
    TESSERA_TRY(body_);
    if (trace_) trace_->ran(event, begin, now()[0]);
    return {};
  }

  // Every operation before has ended, so nothing is left to wait for.
  void run(const tessera::Wait&, const RankSet&) {}
  void run(const tessera::Mark&, const RankSet&) {}
  void run(const tessera::Copy& op, const RankSet& where) {
    where.for_each([&](Rank rank) {
      const Index i = index_in(op.index_in, rank);
      tessera::copy_in_memory(op, [&](const View& view) { return bytes(view, rank, i); });
    });
  }
  void run(const tessera::Compute& op, const RankSet& where) {
    where.for_each([&](Rank rank) {
      const Index i = index_in(op.index_in, rank);
      if (!body_.ok()) return;
      body_ =
          tessera::compute_in_memory(op, rank, [&](const View& v) { return bytes(v, rank, i); });
    });
  }
  void run(const tessera::AllGather& op, const RankSet& where) {
    exchange(op, op.input, op.output, where, [](const Inputs& from, std::size_t, Bytes to) {
      for (const auto& input : from) to = copy(input, to);
    });
  }
  void run(const tessera::Broadcast& op, const RankSet& where) {
    exchange(op, op.data, op.data, where,
             [&](const Inputs& from, std::size_t, Bytes to) { copy(from[at(op.root)], to); });
  }
  void run(const tessera::AllToAll& op, const RankSet& where) {
    exchange(op, op.input, op.output, where, [](const Inputs& from, std::size_t i, Bytes to) {
      const std::size_t part = to.size() / from.size();
      for (const auto& input : from) to = copy(std::span(input).subspan(i * part, part), to);
    });
  }
  void run(const tessera::ReduceScatter& op, const RankSet& where) {
    reduce(op, op.factor, where, at(op.output.numel.value));
  }
  void run(const tessera::AllReduce& op, const RankSet& where) { reduce(op, op.factor, where, 0); }
  void run(const tessera::Reduce& op, const RankSet& where) { reduce(op, 1.0F, where, 0, op.root); }

  // write(inputs of its group, its index, its output) for every rank that takes part.
  template <class Op, class Write>
  void exchange(const Op& op, const View& in, const View& out, const RankSet& where,
                Write&& write) {
    const tessera::RankGroups& groups = communicator(op.communicator).groups;
    for (Index g = 0; g < groups.group_count(); ++g) {
      if (!where.contains(groups.member(g, 0))) continue;
      Inputs inputs;
      for (Index i = 0; i < groups.group_size(g); ++i) {
        const Bytes input = bytes(in, groups.member(g, i), i);
        inputs.emplace_back(input.begin(), input.end());
      }
      for (Index i = 0; i < groups.group_size(g); ++i) {
        write(inputs, at(i), bytes(out, groups.member(g, i), i));
      }
    }
  }
  // Index i keeps the elements from i * step on; with a root, only that one does.
  template <class Op>
  void reduce(const Op& op, float factor, const RankSet& where, std::size_t step, Index root = -1) {
    exchange(op, op.input, op.output, where, [&](const Inputs& from, std::size_t i, Bytes to) {
      if (root >= 0 && i != at(root)) return;
      tessera::RankOrderReduction sum(op.reduction, factor, at(op.input.numel.value));
      for (const auto& input : from) sum.add(input, op.input.dtype);
      sum.finish(to, op.output.dtype, i * step);
    });
  }

  // The rest of `to`, behind what was copied.
  static Bytes copy(std::span<const std::byte> from, Bytes to) {
    std::copy(from.begin(), from.end(), to.begin());
    return to.subspan(from.size());
  }
  static std::size_t at(std::int64_t n) { return static_cast<std::size_t>(n); }
  std::vector<std::byte>& memory(Rank rank, tessera::Memory kind) {
    return memory_[at(rank)][static_cast<std::size_t>(kind)];
  }
  Bytes bytes(const View& view, Rank rank, Index i) {
    const tessera::Bytes begin = bytes_of(view.begin_at(i), view.dtype);
    const tessera::Bytes end = bytes_of(view.end_at(i), view.dtype);
    const Bytes all = memory(rank, buffer(view.buffer).memory);
    return all.subspan(at((offset_of(view.buffer, rank) + begin).value), at((end - begin).value));
  }

  std::vector<std::array<std::vector<std::byte>, tessera::memory_count>> memory_;  // by rank
  std::optional<tessera::RuntimeTrace> trace_;
  tessera::Status body_;  // what a body asked for and did not have
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

}  // namespace own
