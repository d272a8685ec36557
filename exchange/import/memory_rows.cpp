// SPDX-License-Identifier: Apache-2.0
#include "exchange/import/memory_rows.h"

#include <algorithm>
#include <limits>
#include <map>
#include <tuple>

namespace tessera::exchange {
namespace {

/// Rows of buffers by name, unit, class and size.
class BufferRows {
 public:
  BufferRows(const ImportedRun& run, TraceSink& sink) : run_(run), sink_(sink) {}

  std::int32_t row_of(const ImportedMemory& sample) {
    const Bytes size = sample.delta.value < 0 ? -sample.delta : sample.delta;
    const auto next = static_cast<std::int32_t>(rows_.size());
    const auto [found, added] =
        rows_.try_emplace({sample.name, sample.unit, sample.memory_class, size}, next);
    if (added) {
      sink_.buffer(
          {next, run_.text(sample.name), run_.text(sample.unit), sample.memory_class, size});
    }
    return found->second;
  }

 private:
  const ImportedRun& run_;
  TraceSink& sink_;
  std::map<std::tuple<TextId, TextId, MemoryClass, Bytes>, std::int32_t> rows_;
};

using Classes = std::array<Bytes, memory_class_count>;

std::size_t index_of(MemoryClass memory_class) { return static_cast<std::size_t>(memory_class); }

/// Classes that sum to `reserved`: what is known of them, the rest unknown.
Classes classes_at(const Classes& known, Bytes allocated, Bytes reserved) {
  Classes classes{};
  Bytes left = allocated;
  for (std::size_t c = 0; c < known.size(); ++c) {
    classes[c] = std::clamp(known[c], Bytes{}, left);
    left -= classes[c];
  }
  classes[index_of(MemoryClass::unknown)] += left;
  classes[index_of(MemoryClass::reserved_unused)] = reserved - allocated;
  return classes;
}

class RankMemory {
 public:
  RankMemory(const ImportedRank& rank, const std::vector<StepRange>& steps, BufferRows& buffers,
             TraceSink& sink)
      : rank_(rank), steps_(steps), buffers_(buffers), sink_(sink), peaks_(steps.size()) {}

  void write() {
    for (const ImportedMemory& sample : rank_.memory) {
      close_steps_before(sample.time);
      known_[index_of(sample.memory_class)] += sample.delta;
      allocated_ = sample.allocated;
      reserved_ = std::max(sample.allocated, sample.reserved);
      look_at_peak(sample.time);
      const MemorySample row{
          rank_.rank, sample.time, buffers_.row_of(sample), sample.memory_class, sample.delta,
          allocated_, reserved_};
      sink_.memory({&row, 1});
    }
    close_steps_before(std::numeric_limits<Time>::max());
    for (const PeakMemory& peak : peaks_) {
      if (peak.reserved > Bytes{}) sink_.peak_memory(peak);
    }
  }

 private:
  /// A step begins with what is held then.
  void close_steps_before(Time time) {
    while (entered_ < steps_.size() && steps_[entered_].begin < time) {
      if (steps_[entered_].known) take_peak(entered_);
      ++entered_;
    }
  }

  void look_at_peak(Time time) {
    if (entered_ == 0 || !steps_[entered_ - 1].known || time >= steps_[entered_ - 1].end) return;
    if (allocated_ > peaks_[entered_ - 1].allocated) take_peak(entered_ - 1);
  }

  void take_peak(std::size_t step) {
    peaks_[step] = {
        static_cast<std::int32_t>(step),          rank_.rank, rank_.rank + 1, allocated_, reserved_,
        classes_at(known_, allocated_, reserved_)};
  }

  const ImportedRank& rank_;
  const std::vector<StepRange>& steps_;
  BufferRows& buffers_;
  TraceSink& sink_;
  Classes known_{};
  Bytes allocated_{}, reserved_{};
  std::size_t entered_ = 0;  // steps that have begun
  std::vector<PeakMemory> peaks_;
};

}  // namespace

void write_memory(const ImportedRun& run, const StepTable& steps, TraceSink& sink) {
  BufferRows buffers(run, sink);
  for (std::size_t r = 0; r < run.ranks().size(); ++r) {
    if (run.ranks()[r].memory.empty()) continue;
    RankMemory(run.ranks()[r], steps.ranges(r), buffers, sink).write();
  }
}

}  // namespace tessera::exchange
