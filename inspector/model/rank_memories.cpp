// SPDX-License-Identifier: Apache-2.0
#include "inspector/model/rank_memories.h"

#include <algorithm>
#include <utility>

#include "inspector/model/forget_old.h"
#include "inspector/model/step_memory.h"

namespace tessera::inspector {

void RankMemories::look_at(Time from, Time to) {
  if (window_.whole()) return;
  // Of whole steps, as those say what was held before.
  const std::int32_t first = std::max(trace_.step_at(from) - 1, 0);
  const std::int32_t last =
      std::min(trace_.step_at(std::max(from, to - 1)) + 1, trace_.last_step());
  if (window_.look_at(trace_.step_range(first).first, trace_.step_range(last).second)) {
    memories_.clear();
  }
}

void RankMemories::begin_frame() {
  constexpr std::size_t samples_most = 4'000'000;  // of about 40 bytes
  constexpr std::size_t around_kept = 8;           // of about three steps each
  ++frame_;
  forget_old(memories_, frame_, samples_most,
             [](const RankMemory& memory) { return memory.samples.time.size(); });
  if (around_.size() > around_kept) around_.clear();
}

std::optional<std::pair<Rank, Status>> RankMemories::take_problem() {
  return std::exchange(problem_, std::nullopt);
}

const RankMemory& RankMemories::of(Rank rank) {
  RankMemory& memory = memories_[rank];
  memory.used = frame_;
  const bool known = memory.serial != 0 && memory.by_steps == window_.crowded();
  if (!trace_.recorded(rank) || known) return memory;
  memory = RankMemory();
  memory.used = frame_;
  memory.serial = ++serial_;
  memory.by_steps = window_.crowded();
  if (memory.by_steps) {
    set_samples(memory, series_of_peaks(trace_, rank));
  } else {
    load(rank, window_.range().first, window_.range().second, memory);
  }
  return memory;
}

const RankMemory& RankMemories::around(Rank rank, std::int32_t step) {
  if (window_.whole()) return of(rank);
  const auto [it, is_new] = around_.try_emplace({rank, step});
  RankMemory& memory = it->second;
  if (!is_new || !trace_.recorded(rank)) return memory;
  memory.serial = ++serial_;
  load(rank, trace_.step_range(std::max(step - 1, 0)).first,
       trace_.step_range(std::min(step + 1, trace_.last_step())).second + 1, memory);
  return memory;
}

void RankMemories::load(Rank rank, Time from, Time to, RankMemory& memory) {
  const auto read = [&]() -> Result<storage::MemorySeries> {
    if (window_.whole()) return trace_.reader().memory(rank);
    TESSERA_ASSIGN(storage::MemorySeries samples, trace_.reader().memory(rank, from, to));
    TESSERA_ASSIGN(const auto held, trace_.reader().held_before(rank, from));
    hold_before(held, from, samples);
    return samples;
  };
  auto samples = read();
  if (!samples.ok()) {
    memory.problem = samples.status();
    problem_ = {rank, memory.problem};
    return;
  }
  if (!window_.whole()) memory.reach = {from, to};
  set_samples(memory, std::move(samples).value());
}

}  // namespace tessera::inspector
