// SPDX-License-Identifier: Apache-2.0
// The work of the lockstep core done the classical way: one event per operation and rank in a
// priority queue. It is the oracle for its times and the peer for its speed.
#pragma once

#include <algorithm>
#include <functional>
#include <queue>
#include <vector>

#include "tessera/recording.h"
#include "tessera/sim/cost_model.h"

namespace tessera::test {

/// Timed operations of all ranks with what each must wait for on its own rank.
struct Program {
  struct Step {
    std::int32_t event;  // id of the op
    Time duration;       // nominal
    bool collective;     // over all ranks
    std::vector<std::size_t> successors;
    std::int32_t waits = 0;  // number of predecessors
  };
  std::vector<Step> steps;
};

/// REQUIRES: ops of all ranks, one communicator of all ranks.
inline Program program_of(const Recording& recording, const sim::CostModel& costs) {
  Program program;
  std::vector<std::vector<std::size_t>> pending(recording.streams.size());  // by stream
  std::vector<std::vector<std::size_t>> tail(recording.streams.size());     // its last op and waits
  std::vector<std::vector<std::size_t>> happened;                           // by event
  std::vector<std::size_t> last_collective;
  for (const Record& record : recording.records) {
    if (record.kind != Record::Kind::op) continue;
    const auto s = record.stream.index();
    for (EventId event : record.after) {
      const auto& what = happened[static_cast<std::size_t>(event.value)];
      pending[s].insert(pending[s].end(), what.begin(), what.end());
    }
    if (const auto* wait = std::get_if<Wait>(&record.op.what); wait && wait->stream.valid()) {
      const auto o = wait->stream.index();
      pending[s].insert(pending[s].end(), tail[o].begin(), tail[o].end());
      pending[s].insert(pending[s].end(), pending[o].begin(), pending[o].end());
    }
    const OpKind kind = kind_of(record.op);
    if (kind == OpKind::wait || kind == OpKind::mark) {
      happened.push_back(tail[s]);
      happened.back().insert(happened.back().end(), pending[s].begin(), pending[s].end());
      continue;
    }
    const std::size_t index = program.steps.size();
    std::vector<std::size_t> before = pending[s];
    before.insert(before.end(), tail[s].begin(), tail[s].end());
    Time duration = 0;
    if (const auto* compute = std::get_if<Compute>(&record.op.what)) {
      duration = costs.compute(compute->cost);
    } else if (const auto* copy = std::get_if<Copy>(&record.op.what)) {
      duration = costs.copy(bytes_of(record.op), copy->route);
    } else {
      duration = costs.collective({kind, bytes_of(record.op), recording.world_size, 1, 1});
      before.insert(before.end(), last_collective.begin(), last_collective.end());
      last_collective = {index};
    }
    std::sort(before.begin(), before.end());
    before.erase(std::unique(before.begin(), before.end()), before.end());
    program.steps.push_back({record.event.value,
                             duration,
                             kind <= OpKind::broadcast,
                             {},
                             static_cast<std::int32_t>(before.size())});
    for (std::size_t b : before) program.steps[b].successors.push_back(index);
    pending[s].clear();
    tail[s] = {index};
    happened.push_back({index});
  }
  return program;
}

struct OracleResult {
  std::vector<Time> finish;  // by rank: the end of its last op
  std::vector<Time> ends;    // [step * ranks + rank], if asked for
};

/// `duration(event, rank, nominal)`: what a kernel takes on a rank.
inline OracleResult run_heap(const Program& program, Rank ranks,
                             const std::function<Time(std::int32_t, Rank, Time)>& duration,
                             bool keep_ends) {
  struct Completion {
    Time time;
    std::int32_t step;
    Rank rank;
    bool operator>(const Completion& o) const {
      if (time != o.time) return time > o.time;
      return rank != o.rank ? rank > o.rank : step > o.step;
    }
  };
  const auto n = static_cast<std::size_t>(ranks);
  std::priority_queue<Completion, std::vector<Completion>, std::greater<>> heap;
  std::vector<std::int32_t> waits(program.steps.size() * n);
  std::vector<std::int32_t> missing(program.steps.size(), ranks);
  std::vector<Time> ready(program.steps.size(), 0);
  OracleResult result;
  result.finish.resize(n);
  if (keep_ends) result.ends.resize(program.steps.size() * n);

  auto start = [&](std::size_t k, Rank rank, Time now) {
    const auto& step = program.steps[k];
    if (!step.collective) {
      heap.push(
          {now + duration(step.event, rank, step.duration), static_cast<std::int32_t>(k), rank});
      return;
    }
    ready[k] = std::max(ready[k], now);
    if (--missing[k] > 0) return;
    for (Rank r = 0; r < ranks; ++r) {
      heap.push({ready[k] + step.duration, static_cast<std::int32_t>(k), r});
    }
  };
  for (std::size_t k = 0; k < program.steps.size(); ++k) {
    std::fill_n(waits.begin() + static_cast<std::ptrdiff_t>(k * n), n, program.steps[k].waits);
    if (program.steps[k].waits > 0) continue;
    for (Rank r = 0; r < ranks; ++r) start(k, r, 0);
  }
  while (!heap.empty()) {
    const Completion done = heap.top();
    heap.pop();
    const auto r = static_cast<std::size_t>(done.rank);
    const auto k = static_cast<std::size_t>(done.step);
    result.finish[r] = std::max(result.finish[r], done.time);
    if (keep_ends) result.ends[k * n + r] = done.time;
    for (std::size_t next : program.steps[k].successors) {
      if (--waits[next * n + r] == 0) start(next, done.rank, done.time);
    }
  }
  return result;
}

}  // namespace tessera::test
