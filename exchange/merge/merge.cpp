// SPDX-License-Identifier: Apache-2.0
#include "tessera/exchange/merge.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <set>

#include "exchange/import/output_name.h"
#include "exchange/merge/merge_clocks.h"
#include "exchange/merge/merge_groups.h"
#include "exchange/merge/merge_ops.h"
#include "exchange/merge/merge_samples.h"
#include "exchange/merge/merge_sources.h"
#include "exchange/merge/merge_spans.h"
#include "exchange/merge/merge_steps.h"
#include "tessera/storage/trace_writer.h"

namespace tessera::exchange {
namespace {

constexpr Time merge_sure = 10'000;  // ns; ends that differ by more are named
constexpr Time merge_end = std::numeric_limits<Time>::max();

std::size_t index_of(Rank rank) { return static_cast<std::size_t>(rank); }

/// Longer queues would make nothing faster: what fills them waits for files, too.
constexpr Bytes merge_queue{16 << 20};

std::pair<std::int32_t, Rank> key_of(const TraceKernel& kernel) { return {kernel.op, kernel.rank}; }

Result<std::vector<TraceKernel>> fetch_kernels(const storage::TraceReader& reader,
                                               const TraceKernel* last, std::int32_t most) {
  return last == nullptr ? reader.kernels_after(-1, -1, most)
                         : reader.kernels_after(last->op, last->rank, most);
}

class MergedRun {
 public:
  MergedRun(const MergeSources& all, const MergeClocks& clocks, TraceSink& sink)
      : all_(all),
        clocks_(clocks),
        sink_(sink),
        all_spans_(all),
        groups_(all),
        all_steps_(all, clocks) {
    waited_.resize(index_of(all.run.ranks));
  }

  /// Adds to `warnings`, which are diagnostics of the trace, too.
  Status write(std::vector<std::string>& warnings) {
    TESSERA_TRY(declare());
    MergeOps ops(all_);
    while (true) {
      TESSERA_ASSIGN(const MergeOp* const op, ops.next());
      if (op == nullptr) break;
      while (step_ < std::min(op->row.step, all_.steps())) TESSERA_TRY(close_step());
      TESSERA_TRY(write_op(*op));
    }
    while (step_ < all_.steps()) TESSERA_TRY(close_step());
    TESSERA_TRY(write_memory(merge_end));
    if (without_wait_ > 0) {
      warnings.push_back(
          fmt::format("of {} collectives not all members are in a file: how long they waited is "
                      "not known, and counts as transfer",
                      without_wait_));
    }
    TESSERA_TRY(write_rest(warnings));
    return sink_.finish();
  }

  std::int64_t spans() const { return spans_; }

 private:
  Status declare() {
    sink_.begin(all_.run);
    // All have declared the same, or, where they were stopped early, a part of it.
    const auto longest = [&](auto list) -> const auto& {
      std::size_t most = 0;
      for (std::size_t s = 1; s < all_.sources.size(); ++s) {
        if ((all_.info(s).*list).size() > (all_.info(most).*list).size()) most = s;
      }
      return all_.info(most).*list;
    };
    for (const auto& s : longest(&storage::TraceInfo::streams)) {
      sink_.stream({s.id, s.name, s.role});
    }
    for (const auto& c : longest(&storage::TraceInfo::communicators)) {
      sink_.communicator({c.id, c.name, c.group_size, c.group_count});
    }
    for (const auto& u : longest(&storage::TraceInfo::units)) {
      sink_.unit({u.id, u.name, u.parameters, u.numel, u.padding});
    }
    for (const auto& b : all_.buffers) {
      sink_.buffer({b.id, b.name, b.unit, b.memory_class, b.bytes});
    }
    for (const MergeSource& source : all_.sources) {
      TESSERA_ASSIGN(const auto peaks, source.reader.peak_memory());
      if (peaks.size() > peaks_.size()) peaks_ = peaks;
    }
    for (std::size_t r = 0; r < all_.ranks.size(); ++r) {
      TESSERA_ASSIGN(MergeSamples samples, MergeSamples::open(all_, r));
      all_samples_.push_back(std::move(samples));
    }
    return {};
  }

  Status write_op(const MergeOp& op) {
    const storage::OpRow& o = op.row;
    TESSERA_ASSIGN(const auto waits,
                   all_.sources[op.source].reader.waits(o.id, std::int64_t{o.id} + 1));
    sink_.op({o.id, o.kind, o.stream, o.communicator, o.step, o.micro_batch, o.phase, o.reason,
              o.unit, o.module, o.label, o.bytes, o.dtype, o.flops, o.algorithm, waits.after});
    members_.clear();
    ranks_.clear();
    for (auto* column : {&begin_, &ready_, &end_}) column->clear();
    TESSERA_ASSIGN(const auto* const spans, all_spans_.of(o.id));
    for (std::size_t r = 0; r < all_.ranks.size(); ++r) {
      const MergeSpan* const span = (*spans)[r];
      if (span == nullptr) continue;
      const MergeRank& rank = all_.ranks[r];
      members_.push_back(r);
      ranks_.push_back(rank.rank);
      begin_.push_back(clocks_.aligned(rank.source, span->begin));
      end_.push_back(std::max(begin_.back(), clocks_.aligned(rank.source, span->end)));
      const Time ready = clocks_.aligned(rank.source, span->ready);
      ready_.push_back(std::clamp(ready, begin_.back(), end_.back()));
    }
    if (ranks_.empty()) return {};
    if (op.communicator != nullptr) {
      for (const MergeGroup& group : groups_.of(*op.communicator)) meet(group);
    }
    sink_.spans({o.id, ranks_, begin_, ready_, end_});
    spans_ += static_cast<std::int64_t>(ranks_.size());
    return {};
  }

  // Who waited for whom, where members are of several files that did not know it.
  void meet(const MergeGroup& group) {
    places_.clear();
    Time last = std::numeric_limits<Time>::min();
    std::set<std::size_t> files;
    for (const std::size_t member : group.members) {
      const auto found = std::lower_bound(members_.begin(), members_.end(), member);
      if (found == members_.end() || *found != member) continue;
      places_.push_back(static_cast<std::size_t>(found - members_.begin()));
      last = std::max(last, begin_[places_.back()]);
      files.insert(all_.ranks[member].source);
    }
    const bool whole = group.whole && places_.size() == group.members.size();
    for (const std::size_t k : places_) {
      const std::size_t source = all_.ranks[members_[k]].source;
      if (!whole && all_.info(source).run.recorded_ranks.size() == 1) ++without_wait_;
      if (!whole || files.size() < 2) continue;
      const Time ready = std::clamp(last, begin_[k], end_[k]);
      waited_[index_of(ranks_[k])] += ready - ready_[k];
      ready_[k] = ready;
    }
  }

  /// Of each rank up to `until`, by the clock of the trace.
  Status write_memory(Time until) {
    constexpr std::size_t most = 4096;
    for (std::size_t r = 0; r < all_.ranks.size(); ++r) {
      samples_.clear();
      while (true) {
        TESSERA_ASSIGN(const MemorySample* const next, all_samples_[r].peek());
        if (next == nullptr) break;
        MemorySample sample = *next;
        sample.time = clocks_.aligned(all_.ranks[r].source, sample.time);
        if (sample.time >= until) break;
        all_samples_[r].pop();
        samples_.push_back(sample);
        if (samples_.size() < most) continue;
        sink_.memory(samples_);
        samples_.clear();
      }
      if (!samples_.empty()) sink_.memory(samples_);
    }
    return {};
  }

  Status close_step() {
    TESSERA_ASSIGN(storage::RankSteps* const of, all_steps_.at(step_));
    Time first = merge_end, last = 0;
    for (std::size_t r = 0; r < waited_.size(); ++r) {
      if (of->begin[r] == MergeSteps::unknown) continue;
      of->communication[r] = std::max<Time>(0, of->communication[r] - waited_[r]);
      of->wait[r] = std::max<Time>(0, of->wait[r] + waited_[r]);
      first = std::min(first, of->begin[r]);
      last = std::max(last, of->end[r]);
    }
    if (first == merge_end) first = 0;
    // Ranks of which nothing is known have steps without length.
    for (std::size_t r = 0; r < waited_.size(); ++r) {
      if (of->begin[r] == MergeSteps::unknown) of->begin[r] = of->end[r] = first;
    }
    if (step_ >= all_.run.recorded_from) TESSERA_TRY(write_memory(last));
    sink_.rank_steps({step_, of->begin, of->end, of->compute, of->communication, of->exposed,
                      of->blocking, of->wait, of->peak_allocated, of->peak_reserved});
    for (; next_peak_ < peaks_.size() && peaks_[next_peak_].step <= step_; ++next_peak_) {
      sink_.peak_memory(peaks_[next_peak_]);
    }
    std::fill(waited_.begin(), waited_.end(), 0);
    ++step_;
    return {};
  }

  /// Of the ranks that are taken from this file.
  Status write_shortages(std::size_t source) {
    TESSERA_ASSIGN(const auto shortages, all_.sources[source].reader.memory_shortages());
    for (const storage::MemoryShortageRow& row : shortages) {
      const auto rank =
          std::find_if(all_.ranks.begin(), all_.ranks.end(),
                       [&](const MergeRank& known) { return known.rank == row.rank; });
      if (rank != all_.ranks.end() && rank->source != source) continue;
      TraceMemoryShortage shortage = row;
      shortage.time = clocks_.aligned(source, std::clamp<Time>(row.time, 0, merge_time_max));
      shortage.blocks = row.map;
      sink_.memory_shortage(shortage);
    }
    return {};
  }

  Status write_kernels() {
    MergePages<TraceKernel, std::pair<std::int32_t, Rank> (*)(const TraceKernel&)> kernels(
        all_, key_of, fetch_kernels);
    while (true) {
      TESSERA_ASSIGN(const auto next, kernels.next());
      if (next.empty()) return {};
      sink_.kernel(*next.front().second);
    }
  }

  Status write_rest(const std::vector<std::string>& warnings) {
    TESSERA_TRY(write_kernels());
    std::set<std::tuple<std::string, Rank, std::string>> said;
    for (std::size_t s = 0; s < all_.sources.size(); ++s) {
      TESSERA_TRY(write_shortages(s));
      TESSERA_ASSIGN(const auto diagnostics, all_.sources[s].reader.diagnostics());
      for (const auto& d : diagnostics) {
        if (!said.emplace(d.code, d.rank, d.message).second) continue;
        const Time time = std::clamp<Time>(d.time, 0, merge_time_max);
        sink_.diagnostic({d.severity, d.code, d.rank, d.op, clocks_.aligned(s, time), d.message});
      }
    }
    for (const std::string& warning : warnings) {
      sink_.diagnostic({DiagnosticSeverity::warning, "merge", -1, -1, 0, warning});
    }
    return {};
  }

  const MergeSources& all_;
  const MergeClocks& clocks_;
  TraceSink& sink_;
  MergeSpans all_spans_;
  MergeGroups groups_;
  MergeSteps all_steps_;
  std::vector<MergeSamples> all_samples_;  // by index of a rank
  std::vector<PeakMemory> peaks_;
  std::size_t next_peak_ = 0;
  std::int32_t step_ = 0;
  std::int64_t spans_ = 0, without_wait_ = 0;
  std::vector<Time> waited_;  // by rank, in this step, more than its file says
  std::vector<MemorySample> samples_;
  // Of the op being written.
  std::vector<std::size_t> members_;  // by index of a rank
  std::vector<Rank> ranks_;
  std::vector<Time> begin_, ready_, end_;
  std::vector<std::size_t> places_;  // in these, of one group
};

void warn_of_gaps(const MergeSources& all, const MergeClocks& clocks,
                  std::vector<std::string>& warnings) {
  for (const std::size_t s : clocks.lonely) {
    warnings.push_back(
        fmt::format("\"{}\" has no collective in common with the others: its clock is not aligned",
                    all.sources[s].path));
  }
  const std::size_t missing = index_of(all.run.ranks) - all.ranks.size();
  if (missing > 0) {
    warnings.push_back(fmt::format("{} of {} ranks are in no file", missing, all.run.ranks));
  }
  if (clocks.spread > merge_sure) {
    warnings.push_back(fmt::format(
        "clocks of files are aligned by the ends of collectives, which differ by {:.0f} us: times "
        "of ranks of different files are only as sure as that",
        static_cast<double>(clocks.spread) / 1000));
  }
}

}  // namespace

Result<Merged> merge_traces(const std::vector<std::string>& files, const std::string& out,
                            const std::string& version) {
  TESSERA_TRY(check_output_name(files, out, "merged"));
  TESSERA_ASSIGN(MergeSources all, open_merge_sources(files));
  all.run.version = version;
  TESSERA_ASSIGN(const MergeClocks clocks, find_merge_clocks(all));
  TESSERA_TRY(read_merge_buffers(all));
  Merged done{.world = all.run.ranks, .spread = clocks.spread, .warnings = all.warnings};
  if (all.sources.size() > 1) warn_of_gaps(all, clocks, done.warnings);
  for (std::size_t s = 0; s < all.sources.size(); ++s) {
    done.files.push_back({all.sources[s].path, {}, clocks.lines[s].aligned(0)});
  }
  for (const MergeRank& rank : all.ranks) {
    done.ranks.push_back(rank.rank);
    done.files[rank.source].ranks.push_back(rank.rank);
  }
  TESSERA_ASSIGN(const auto writer, storage::TraceWriter::create(out, {.queue_max = merge_queue}));
  MergedRun run(all, clocks, *writer);
  TESSERA_TRY(run.write(done.warnings));
  done.steps = all.steps();
  done.spans = run.spans();
  return done;
}

}  // namespace tessera::exchange
