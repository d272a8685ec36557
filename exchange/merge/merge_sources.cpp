// SPDX-License-Identifier: Apache-2.0
#include "exchange/merge/merge_sources.h"

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>
#include <limits>

namespace tessera::exchange {
namespace {

Status check_facts(const MergeSources& all, std::size_t other) {
  const TraceRun& a = all.info(0).run;
  const TraceRun& b = all.info(other).run;
  const auto differ = [&](const char* what, const auto& one, const auto& two) {
    return not_one_run(all, 0, other, fmt::format("their {} differs, {} and {}", what, one, two));
  };
  if (a.ranks != b.ranks) return differ("number of ranks", a.ranks, b.ranks);
  if (a.model != b.model) return differ("model", a.model, b.model);
  if (a.scheme != b.scheme) return differ("scheme", a.scheme, b.scheme);
  if (a.backend != b.backend) return differ("backend", a.backend, b.backend);
  if (a.seed != b.seed) return differ("seed", a.seed, b.seed);
  if (a.options != b.options) return not_one_run(all, 0, other, "their options differ");
  if (a.recorded_from != b.recorded_from || a.recorded_to != b.recorded_to ||
      a.records_memory != b.records_memory) {
    return not_one_run(all, 0, other, "they have recorded other steps, or one no memory");
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
    return not_one_run(all, 0, source,
                       fmt::format("buffer {} is \"{}\" in one and \"{}\" in the other", k,
                                   known.name, rows[k].name));
  }
  return {};
}

/// A rank that several files have comes from the one that has most of it.
Status merge_ranks(MergeSources& all, std::size_t source) {
  for (const Rank rank : all.info(source).run.recorded_ranks) {
    MergeRank read{.rank = rank, .source = source};
    TESSERA_ASSIGN(const auto stretches, all.sources[source].reader.span_stretches(rank));
    for (const storage::SpanStretch& stretch : stretches) {
      read.spans += stretch.spans;
      read.chunks.push_back({stretch});
    }
    const auto known = std::lower_bound(all.ranks.begin(), all.ranks.end(), rank,
                                        [](const MergeRank& r, Rank id) { return r.rank < id; });
    if (known == all.ranks.end() || known->rank != rank) {
      all.ranks.insert(known, std::move(read));
    } else if (known->spans < read.spans) {
      *known = std::move(read);
    }
  }
  return {};
}

/// Of one chunk of each rank after the other, as what ranks have in common is then unpacked once.
Status find_first_ops(MergeSources& all) {
  bool more = true;
  for (std::size_t k = 0; more; ++k) {
    more = false;
    for (MergeRank& rank : all.ranks) {
      if (k >= rank.chunks.size()) continue;
      more = true;
      MergeChunk& chunk = rank.chunks[k];
      chunk.first_op = std::numeric_limits<std::int32_t>::max();
      TESSERA_ASSIGN(const auto lanes,
                     all.sources[rank.source].reader.lanes(rank.rank, chunk.stretch));
      for (const storage::Lane& lane : lanes) {
        const auto least = std::min_element(lane.op.begin(), lane.op.end());
        chunk.first_op = std::min(chunk.first_op, *least);
      }
    }
  }
  for (MergeRank& rank : all.ranks) {
    std::stable_sort(
        rank.chunks.begin(), rank.chunks.end(),
        [](const MergeChunk& a, const MergeChunk& b) { return a.first_op < b.first_op; });
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

std::int32_t MergeSources::steps() const {
  std::int32_t most = 0;
  for (const MergeSource& source : sources) most = std::max(most, source.reader.info().steps);
  return most;
}

Status check_merge_times(const MergeSource& source,
                         std::initializer_list<const std::vector<Time>*> all) {
  const auto possible = [](Time time) { return time >= -merge_time_max && time <= merge_time_max; };
  for (const std::vector<Time>* times : all) {
    if (std::all_of(times->begin(), times->end(), possible)) continue;
    return {Code::corrupt,
            fmt::format("\"{}\" is damaged: it has times that no run has.", source.path)};
  }
  return {};
}

Status not_one_run(const MergeSources& all, std::size_t one, std::size_t other, std::string what) {
  // Names of the files may have lines of their own.
  std::replace_if(
      what.begin(), what.end(), [](unsigned char c) { return c < ' ' || c == 0x7F; }, ' ');
  return {Code::invalid_argument,
          fmt::format("\"{}\" and \"{}\" are not of one run: {}.", all.sources[one].path,
                      all.sources[other].path, what)};
}

Status read_merge_buffers(MergeSources& all) {
  for (std::size_t s = 0; s < all.sources.size(); ++s) TESSERA_TRY(merge_buffers(all, s));
  return {};
}

Result<MergeSources> open_merge_sources(const std::vector<std::string>& files) {
  if (files.empty()) return Status(Code::invalid_argument, "There is no file to merge.");
  MergeSources all;
  for (const std::string& file : files) {
    TESSERA_ASSIGN(auto reader, storage::TraceReader::open(file));
    all.sources.push_back({file, std::move(reader)});
    const std::size_t source = all.sources.size() - 1;
    if (all.info(source).run.backend == "import") {
      return Status(Code::not_supported,
                    fmt::format("\"{}\" was imported: import the files of all ranks together "
                                "instead of merging their traces.",
                                file));
    }
    TESSERA_TRY(check_facts(all, source));
    TESSERA_TRY(merge_ranks(all, source));
  }
  TESSERA_TRY(find_first_ops(all));
  describe_merged(all);
  return all;
}

}  // namespace tessera::exchange
