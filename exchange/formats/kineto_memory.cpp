// SPDX-License-Identifier: Apache-2.0
#include "exchange/formats/kineto_memory.h"

#include <algorithm>
#include <unordered_map>

namespace tessera::exchange {
namespace {

struct Live {
  std::size_t sample = 0;
  Phase phase = Phase::none;
};

MemoryClass class_by_life(Phase begin, Phase end) {
  if (begin == Phase::none || end == Phase::none) return MemoryClass::unknown;
  if (begin == end) return MemoryClass::temporary;
  const bool activation = begin == Phase::forward && end == Phase::backward;
  return activation ? MemoryClass::activations : MemoryClass::unknown;
}

}  // namespace

void add_kineto_memory(const KinetoFile& file, const KinetoContexts& contexts, ImportedRank& rank,
                       ImportedRun& run) {
  std::vector<KinetoMemory> events = file.memory;
  const bool device = std::any_of(events.begin(), events.end(),
                                  [](const KinetoMemory& m) { return m.device >= 0; });
  const auto of_host =
      std::erase_if(events, [&](const KinetoMemory& m) { return (m.device >= 0) != device; });
  if (of_host > 0) run.lost("memory events of the host", static_cast<std::int64_t>(of_host));
  std::stable_sort(events.begin(), events.end(),
                   [](const KinetoMemory& a, const KinetoMemory& b) { return a.time < b.time; });
  std::vector<KinetoContexts::Question> questions;
  for (std::size_t i = 0; i < events.size(); ++i) {
    questions.push_back({events[i].time, events[i].thread, static_cast<std::int64_t>(i)});
  }
  std::vector<KinetoContext> in(events.size());
  contexts.answer(std::move(questions), [&](std::int64_t id, const KinetoContext& context) {
    in[static_cast<std::size_t>(id)] = context;
  });
  const std::size_t first = rank.memory.size();
  std::unordered_map<std::uint64_t, Live> live;
  for (std::size_t i = 0; i < events.size(); ++i) {
    const KinetoMemory& event = events[i];
    ImportedMemory sample{event.time, event.delta, event.allocated, event.reserved};
    sample.memory_class = MemoryClass::unknown;
    if (event.delta > Bytes{}) {
      sample.memory_class = in[i].memory_class;
      sample.unit = in[i].unit;
      live[event.address] = {first + i, in[i].phase};
    } else if (const auto found = live.find(event.address); found != live.end()) {
      ImportedMemory& allocation = rank.memory[found->second.sample];
      if (allocation.memory_class == MemoryClass::unknown) {
        allocation.memory_class = class_by_life(found->second.phase, in[i].phase);
      }
      sample.memory_class = allocation.memory_class;
      sample.unit = allocation.unit;
      live.erase(found);
    }
    rank.memory.push_back(sample);
  }
  if (!events.empty() && !device) {
    run.warn("memory is the host's, as no device has any: what is reserved is not known");
  }
}

}  // namespace tessera::exchange
