// SPDX-License-Identifier: Apache-2.0
#include "exchange/import/merge_sources.h"

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>
#include <limits>

namespace tessera::exchange {
namespace {

constexpr Time whole_run_end = std::numeric_limits<Time>::max();

bool possible(const std::vector<Time>& times) {
  return std::all_of(times.begin(), times.end(),
                     [](Time time) { return time >= -merge_time_max && time <= merge_time_max; });
}

/// A file that claims other times is damaged in a way that no reader has to notice.
Status check_times(const MergeSource& source, std::initializer_list<const std::vector<Time>*> all) {
  for (const std::vector<Time>* times : all) {
    if (possible(*times)) continue;
    return {Code::corrupt,
            fmt::format("\"{}\" is damaged: it has times that no run has.", source.path)};
  }
  return {};
}

Status not_one_run(const MergeSources& all, std::size_t other, std::string what) {
  // Names of the files may have lines of their own.
  std::replace_if(
      what.begin(), what.end(), [](unsigned char c) { return c < ' ' || c == 0x7F; }, ' ');
  return {Code::invalid_argument,
          fmt::format("\"{}\" and \"{}\" are not of one run: {}.", all.sources.front().path,
                      all.sources[other].path, what)};
}

Status check_facts(const MergeSources& all, std::size_t other) {
  const TraceRun& a = all.info(0).run;
  const TraceRun& b = all.info(other).run;
  const auto differ = [&](const char* what, const auto& one, const auto& two) {
    return not_one_run(all, other, fmt::format("their {} differs, {} and {}", what, one, two));
  };
  if (a.ranks != b.ranks) return differ("number of ranks", a.ranks, b.ranks);
  if (a.model != b.model) return differ("model", a.model, b.model);
  if (a.scheme != b.scheme) return differ("scheme", a.scheme, b.scheme);
  if (a.backend != b.backend) return differ("backend", a.backend, b.backend);
  if (a.seed != b.seed) return differ("seed", a.seed, b.seed);
  if (a.options != b.options) return not_one_run(all, other, "their options differ");
  if (a.recorded_from != b.recorded_from || a.recorded_to != b.recorded_to ||
      a.records_memory != b.records_memory) {
    return not_one_run(all, other, "they have recorded other steps, or one no memory");
  }
  return {};
}

bool same_op(const storage::OpRow& a, const storage::OpRow& b) {
  return a.kind == b.kind && a.stream == b.stream && a.communicator == b.communicator &&
         a.step == b.step && a.micro_batch == b.micro_batch && a.phase == b.phase &&
         a.reason == b.reason && a.unit == b.unit && a.module == b.module && a.label == b.label &&
         a.bytes == b.bytes && a.dtype == b.dtype && a.flops == b.flops;
}

Status merge_ops(MergeSources& all, std::size_t source) {
  TESSERA_ASSIGN(std::vector<storage::OpRow> rows, all.sources[source].reader.ops());
  for (storage::OpRow& row : rows) {
    const auto known = all.ops.find(row.id);
    if (known == all.ops.end()) {
      all.ops.emplace(row.id, MergeOp{std::move(row), source});
    } else if (const storage::OpRow& other = known->second.row; !same_op(other, row)) {
      return not_one_run(
          all, source,
          fmt::format("operation {} is \"{}\" of step {} in one and \"{}\" of step {} in the other",
                      row.id, other.label, other.step, row.label, row.step));
    }
  }
  return {};
}

Status merge_buffers(MergeSources& all, std::size_t source) {
  TESSERA_ASSIGN(std::vector<storage::BufferRow> rows, all.sources[source].reader.buffers());
  if (rows.size() > all.buffers.size()) rows.swap(all.buffers);
  for (std::size_t k = 0; k < rows.size(); ++k) {
    const storage::BufferRow& known = all.buffers[k];
    if (rows[k].id == known.id && rows[k].name == known.name && rows[k].bytes == known.bytes) {
      continue;
    }
    return not_one_run(all, source,
                       fmt::format("buffer {} is \"{}\" in one and \"{}\" in the other", k,
                                   known.name, rows[k].name));
  }
  return {};
}

Result<MergeRank> read_rank(const MergeSource& source, std::size_t index, Rank rank) {
  MergeRank out{.rank = rank, .source = index};
  TESSERA_ASSIGN(const auto lanes, source.reader.lanes(rank, 0, whole_run_end));
  for (const storage::Lane& lane : lanes) {
    TESSERA_TRY(check_times(source, {&lane.begin, &lane.ready, &lane.end}));
    for (std::size_t k = 0; k < lane.op.size(); ++k) {
      out.spans.push_back({lane.op[k], lane.begin[k], lane.ready[k], lane.end[k]});
    }
  }
  std::stable_sort(out.spans.begin(), out.spans.end(),
                   [](const auto& a, const auto& b) { return a.op < b.op; });
  TESSERA_ASSIGN(out.memory, source.reader.memory(rank));
  TESSERA_TRY(check_times(source, {&out.memory.time}));
  return out;
}

/// A rank that several files have comes from the one that has most of it.
Status merge_ranks(MergeSources& all, std::size_t source) {
  for (const Rank rank : all.info(source).run.recorded_ranks) {
    TESSERA_ASSIGN(MergeRank read, read_rank(all.sources[source], source, rank));
    const auto known = std::lower_bound(all.ranks.begin(), all.ranks.end(), rank,
                                        [](const MergeRank& r, Rank id) { return r.rank < id; });
    if (known == all.ranks.end() || known->rank != rank) {
      all.ranks.insert(known, std::move(read));
    } else if (known->spans.size() < read.spans.size()) {
      *known = std::move(read);
    }
  }
  return {};
}

void describe_merged(MergeSources& all) {
  all.run = all.info(0).run;
  all.run.recorded_ranks.clear();
  for (const MergeRank& rank : all.ranks) all.run.recorded_ranks.push_back(rank.rank);
  for (const MergeSource& source : all.sources) {
    const TraceRun& run = source.reader.info().run;
    if (all.run.sources.empty()) all.run.sources = run.sources;
    if (all.run.peak_flops_per_rank == 0) {
      all.run.peak_flops_per_rank = run.peak_flops_per_rank;
      all.run.peak_name = run.peak_name;
    }
    if (source.reader.info().unfinished) {
      all.warnings.push_back(fmt::format("\"{}\" was stopped: it reaches to {:.3f} s of its clock",
                                         source.path,
                                         static_cast<double>(source.reader.info().end) * 1e-9));
    }
  }
}

}  // namespace

const MergeRank::Span* MergeRank::find(std::int32_t op) const {
  const auto found = std::lower_bound(spans.begin(), spans.end(), op,
                                      [](const Span& s, std::int32_t id) { return s.op < id; });
  return found == spans.end() || found->op != op ? nullptr : &*found;
}

const MergeRank* MergeSources::find(Rank rank) const {
  const auto found = std::lower_bound(ranks.begin(), ranks.end(), rank,
                                      [](const MergeRank& r, Rank id) { return r.rank < id; });
  return found == ranks.end() || found->rank != rank ? nullptr : &*found;
}

const storage::CommunicatorRow* MergeSources::communicator(const MergeOp& op) const {
  for (const storage::CommunicatorRow& c : info(op.source).communicators) {
    if (c.id == op.row.communicator) return &c;
  }
  return nullptr;
}

Result<MergeSources> open_merge_sources(const std::vector<std::string>& files) {
  if (files.empty()) return Status(Code::invalid_argument, "There is no file to merge.");
  MergeSources all;
  for (const std::string& file : files) {
    TESSERA_ASSIGN(auto reader, storage::TraceReader::open(file));
    TESSERA_ASSIGN(auto steps, reader.rank_steps());
    all.sources.push_back({file, std::move(reader), std::move(steps)});
    const std::size_t source = all.sources.size() - 1;
    const storage::RankSteps& s = all.sources[source].steps;
    TESSERA_TRY(check_times(all.sources[source],
                            {&s.begin, &s.end, &s.compute, &s.communication, &s.wait}));
    if (all.info(source).run.backend == "import") {
      return Status(Code::not_supported,
                    fmt::format("\"{}\" was imported: import the files of all ranks together "
                                "instead of merging their traces.",
                                file));
    }
    TESSERA_TRY(check_facts(all, source));
    TESSERA_TRY(merge_ops(all, source));
    TESSERA_TRY(merge_buffers(all, source));
    TESSERA_TRY(merge_ranks(all, source));
  }
  describe_merged(all);
  return all;
}

}  // namespace tessera::exchange
