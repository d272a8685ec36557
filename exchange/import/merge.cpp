// SPDX-License-Identifier: Apache-2.0
#include "tessera/exchange/merge.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <limits>
#include <set>

#include "exchange/import/match_collectives.h"
#include "exchange/import/merge_clocks.h"
#include "exchange/import/merge_sources.h"
#include "tessera/storage/trace_writer.h"

namespace tessera::exchange {
namespace {

constexpr Time merge_sure = 10'000;  // ns; ends that differ by more are named
constexpr Time merge_end = std::numeric_limits<Time>::max();

std::size_t index_of(Rank rank) { return static_cast<std::size_t>(rank); }

class MergedRun {
 public:
  MergedRun(const MergeSources& all, const MergeClocks& clocks, TraceSink& sink)
      : all_(all), clocks_(clocks), sink_(sink), next_sample_(all.ranks.size()) {
    waited_.resize(index_of(all.run.ranks));
  }

  /// Adds to `warnings`, which are diagnostics of the trace, too.
  Status write(std::vector<std::string>& warnings) {
    TESSERA_TRY(declare());
    for (const auto& [id, op] : all_.ops) {
      while (step_ < std::min(op.row.step, steps())) TESSERA_TRY(close_step());
      TESSERA_TRY(write_op(op));
    }
    while (step_ < steps()) TESSERA_TRY(close_step());
    write_memory(merge_end);
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
  std::int32_t steps() const {
    std::int32_t most = 0;
    for (const MergeSource& source : all_.sources) {
      most = std::max(most, source.reader.info().steps);
    }
    return most;
  }

 private:
  Time aligned(std::size_t source, Time time) const {
    return std::max<Time>(0, clocks_.lines[source].aligned(time));
  }

  Status declare() {
    sink_.begin(all_.run);
    // All have declared the same, or a part of it.
    std::size_t most = 0;
    for (std::size_t s = 1; s < all_.sources.size(); ++s) {
      if (all_.info(s).streams.size() > all_.info(most).streams.size()) most = s;
    }
    const storage::TraceInfo& info = all_.info(most);
    for (const auto& s : info.streams) sink_.stream({s.id, s.name, s.role});
    for (const auto& c : info.communicators) {
      sink_.communicator({c.id, c.name, c.group_size, c.group_count});
    }
    for (const auto& u : info.units) {
      sink_.unit({u.id, u.name, u.parameters, u.numel, u.padding});
    }
    for (const auto& b : all_.buffers) {
      sink_.buffer({b.id, b.name, b.unit, b.memory_class, b.bytes});
    }
    for (const MergeSource& source : all_.sources) {
      TESSERA_ASSIGN(const auto peaks, source.reader.peak_memory());
      if (peaks.size() > peaks_.size()) peaks_ = peaks;
    }
    return {};
  }

  Status write_op(const MergeOp& op) {
    const storage::OpRow& o = op.row;
    TESSERA_ASSIGN(const auto after, all_.sources[op.source].reader.waited_for(o.id));
    sink_.op({o.id, o.kind, o.stream, o.communicator, o.step, o.micro_batch, o.phase, o.reason,
              o.unit, o.module, o.label, o.bytes, o.dtype, o.flops, o.algorithm, after});
    ranks_.clear();
    for (auto* column : {&begin_, &ready_, &end_, &old_ready_}) column->clear();
    for (const MergeRank& rank : all_.ranks) {
      const MergeRank::Span* const span = rank.find(o.id);
      if (span == nullptr) continue;
      ranks_.push_back(rank.rank);
      begin_.push_back(aligned(rank.source, span->begin));
      end_.push_back(std::max(begin_.back(), aligned(rank.source, span->end)));
      const Time ready = aligned(rank.source, span->ready);
      ready_.push_back(std::clamp(ready, begin_.back(), end_.back()));
    }
    if (ranks_.empty()) return {};
    old_ready_ = ready_;
    if (const auto* of = all_.communicator(op)) meet(*of);
    sink_.spans({o.id, ranks_, begin_, ready_, end_});
    spans_ += static_cast<std::int64_t>(ranks_.size());
    return {};
  }

  // Who waited for whom, where members are of several files that did not know it.
  void meet(const storage::CommunicatorRow& of) {
    const auto place = [&](Rank rank) {
      return static_cast<std::size_t>(std::lower_bound(ranks_.begin(), ranks_.end(), rank) -
                                      ranks_.begin());
    };
    for (std::size_t k = 0; k < ranks_.size(); ++k) {
      const std::vector<Rank> members = group_members(of, all_.run.ranks, ranks_[k]);
      Time last = std::numeric_limits<Time>::min();
      std::set<std::size_t> files;
      bool whole = !members.empty();
      for (const Rank member : members) {
        const std::size_t there = place(member);
        whole &= there < ranks_.size() && ranks_[there] == member;
        if (!whole) break;
        last = std::max(last, begin_[there]);
        files.insert(all_.find(member)->source);
      }
      const MergeRank* const own = all_.find(ranks_[k]);
      if (!whole && all_.info(own->source).run.recorded_ranks.size() == 1) ++without_wait_;
      if (!whole || files.size() < 2) continue;
      ready_[k] = std::clamp(last, begin_[k], end_[k]);
      waited_[index_of(ranks_[k])] += ready_[k] - old_ready_[k];
    }
  }

  /// Of each rank up to `until`, by the clock of the trace.
  void write_memory(Time until) {
    for (std::size_t r = 0; r < all_.ranks.size(); ++r) {
      const MergeRank& rank = all_.ranks[r];
      const storage::MemorySeries& m = rank.memory;
      samples_.clear();
      for (std::size_t& k = next_sample_[r]; k < m.time.size(); ++k) {
        const Time time = aligned(rank.source, m.time[k]);
        if (time >= until) break;
        samples_.push_back({rank.rank, time, m.buffer[k], m.memory_class[k], m.delta[k],
                            m.allocated[k], m.reserved[k]});
      }
      if (!samples_.empty()) sink_.memory(samples_);
    }
  }

  /// The file that knows of this step of a rank: the one that the rank is taken from, else any.
  const storage::RankSteps* steps_of(Rank rank, std::size_t& source) const {
    const auto knows = [&](std::size_t s) {
      const storage::RankSteps& steps = all_.sources[s].steps;
      if (step_ >= steps.steps) return false;
      const std::size_t k = index_of(step_) * index_of(steps.ranks) + index_of(rank);
      return steps.end[k] > steps.begin[k];
    };
    if (const MergeRank* const own = all_.find(rank)) {
      source = own->source;
      return knows(source) ? &all_.sources[source].steps : nullptr;
    }
    for (source = 0; source < all_.sources.size(); ++source) {
      if (knows(source)) return &all_.sources[source].steps;
    }
    return nullptr;
  }

  Status close_step() {
    const std::size_t n = index_of(all_.run.ranks);
    std::vector<Time> begin(n, merge_end), end(n), compute(n), communication(n), exposed(n),
        blocking(n), wait(n);
    std::vector<Bytes> allocated(n), reserved(n);
    Time first = merge_end, last = 0;
    for (std::size_t r = 0; r < n; ++r) {
      std::size_t source = 0;
      const storage::RankSteps* const s = steps_of(static_cast<Rank>(r), source);
      if (s == nullptr) continue;
      const std::size_t k = index_of(step_) * n + r;
      begin[r] = aligned(source, s->begin[k]);
      end[r] = aligned(source, s->end[k]);
      compute[r] = s->compute[k];
      communication[r] = std::max<Time>(0, s->communication[k] - waited_[r]);
      exposed[r] = s->exposed[k];
      blocking[r] = s->blocking[k];
      wait[r] = std::max<Time>(0, s->wait[k] + waited_[r]);
      allocated[r] = s->peak_allocated[k];
      reserved[r] = s->peak_reserved[k];
      first = std::min(first, begin[r]);
      last = std::max(last, end[r]);
    }
    if (first == merge_end) first = 0;
    // Ranks of which nothing is known have steps without length.
    for (std::size_t r = 0; r < n; ++r) {
      if (begin[r] == merge_end) begin[r] = end[r] = first;
    }
    if (step_ >= all_.run.recorded_from) write_memory(last);
    sink_.rank_steps(
        {step_, begin, end, compute, communication, exposed, blocking, wait, allocated, reserved});
    for (; next_peak_ < peaks_.size() && peaks_[next_peak_].step <= step_; ++next_peak_) {
      sink_.peak_memory(peaks_[next_peak_]);
    }
    std::fill(waited_.begin(), waited_.end(), 0);
    ++step_;
    return {};
  }

  Status write_rest(const std::vector<std::string>& warnings) {
    std::set<std::pair<std::int32_t, Rank>> kernels;
    std::set<std::tuple<std::string, Rank, std::string>> said;
    for (std::size_t s = 0; s < all_.sources.size(); ++s) {
      TESSERA_ASSIGN(const auto rows, all_.sources[s].reader.kernels());
      for (const TraceKernel& kernel : rows) {
        if (kernels.emplace(kernel.op, kernel.rank).second) sink_.kernel(kernel);
      }
      TESSERA_ASSIGN(const auto diagnostics, all_.sources[s].reader.diagnostics());
      for (const auto& d : diagnostics) {
        if (!said.emplace(d.code, d.rank, d.message).second) continue;
        const Time time = std::clamp<Time>(d.time, 0, merge_time_max);
        sink_.diagnostic({d.severity, d.code, d.rank, d.op, aligned(s, time), d.message});
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
  std::vector<PeakMemory> peaks_;
  std::size_t next_peak_ = 0;
  std::int32_t step_ = 0;
  std::int64_t spans_ = 0, without_wait_ = 0;
  std::vector<std::size_t> next_sample_;  // by index of a rank
  std::vector<Time> waited_;              // by rank, in this step, more than its file says
  std::vector<MemorySample> samples_;
  std::vector<Rank> ranks_;  // of the op being written, as the next four
  std::vector<Time> begin_, ready_, end_, old_ready_;
};

Status check_names(const std::vector<std::string>& files, const std::string& out) {
  std::error_code ignored;
  for (const std::string& file : files) {
    if (!std::filesystem::equivalent(file, out, ignored) || ignored) continue;
    return {Code::invalid_argument,
            fmt::format("\"{}\" is to be merged and to be written: choose another name.", out)};
  }
  return {};
}

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
  TESSERA_TRY(check_names(files, out));
  TESSERA_ASSIGN(MergeSources all, open_merge_sources(files));
  all.run.version = version;
  const MergeClocks clocks = find_merge_clocks(all);
  Merged done{.world = all.run.ranks, .spread = clocks.spread, .warnings = all.warnings};
  if (all.sources.size() > 1) warn_of_gaps(all, clocks, done.warnings);
  for (std::size_t s = 0; s < all.sources.size(); ++s) {
    done.files.push_back({all.sources[s].path, {}, clocks.lines[s].aligned(0)});
  }
  for (const MergeRank& rank : all.ranks) {
    done.ranks.push_back(rank.rank);
    done.files[rank.source].ranks.push_back(rank.rank);
  }
  TESSERA_ASSIGN(const auto writer, storage::TraceWriter::create(out));
  MergedRun run(all, clocks, *writer);
  TESSERA_TRY(run.write(done.warnings));
  done.steps = run.steps();
  done.spans = run.spans();
  return done;
}

}  // namespace tessera::exchange
