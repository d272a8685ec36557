// SPDX-License-Identifier: Apache-2.0
#include "tessera/exchange/import.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

#include "exchange/import/align_clocks.h"
#include "exchange/import/format.h"
#include "exchange/import/output_name.h"
#include "exchange/import/write_run.h"
#include "tessera/storage/trace_writer.h"

namespace tessera::exchange {
namespace {

constexpr Time time_max = Time{1} << 61;      // 73 years since 1970
constexpr Time run_time_max = Time{1} << 55;  // a year
constexpr std::int64_t bytes_max = std::int64_t{1} << 50;
// What is imported is in memory already; a longer queue would hold it twice.
constexpr Bytes import_queue{16 << 20};

bool is_time(Time time) { return time >= -time_max && time <= time_max; }
bool is_size(Bytes bytes) { return bytes.value >= 0 && bytes.value <= bytes_max; }

/// A time in the middle of what a rank has recorded.
Time middle_of(const ImportedRank& rank) {
  constexpr std::size_t looked_at = 4096;
  std::vector<Time> times;
  const auto look = [&](const auto& rows, auto time_of) {
    const std::size_t stride = rows.size() / looked_at + 1;
    for (std::size_t i = 0; i < rows.size(); i += stride) {
      if (is_time(time_of(rows[i]))) times.push_back(time_of(rows[i]));
    }
  };
  look(rank.spans, [](const ImportedSpan& span) { return span.begin; });
  if (times.empty()) look(rank.memory, [](const ImportedMemory& sample) { return sample.time; });
  if (times.empty()) look(rank.steps, [](const ImportedStep& step) { return step.begin; });
  if (times.empty()) return 0;
  const auto middle = times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2);
  std::nth_element(times.begin(), middle, times.end());
  return *middle;
}

/// What no run can have is left out, so that nothing overflows later.
void clean(ImportedRank& rank, ImportedRun& run) {
  const Time middle = middle_of(rank);
  const auto is_time_of_run = [&](Time time) {
    return is_time(time) && std::abs(time - middle) <= run_time_max;
  };
  const auto wrong_span = [&](const ImportedSpan& span) {
    return !is_time_of_run(span.begin) || !is_time_of_run(span.end) || span.end < span.begin ||
           !is_size(span.bytes);
  };
  const auto spans = std::erase_if(rank.spans, wrong_span);
  if (spans > 0) run.lost("spans with impossible times", static_cast<std::int64_t>(spans));
  for (ImportedCollective& collective : rank.collectives) {
    if (!is_size(collective.bytes)) collective.bytes = {};
  }
  const auto samples = std::erase_if(rank.memory, [&](const ImportedMemory& m) {
    return !is_time_of_run(m.time) || !is_size(m.allocated) || !is_size(m.reserved) ||
           std::abs(m.delta.value) > bytes_max;
  });
  if (samples > 0)
    run.lost("memory samples with impossible numbers", static_cast<std::int64_t>(samples));
  std::erase_if(rank.steps, [&](const ImportedStep& step) {
    return !is_time_of_run(step.begin) || !is_time_of_run(step.end) || step.end < step.begin;
  });
  std::sort(rank.steps.begin(), rank.steps.end(),
            [](const ImportedStep& a, const ImportedStep& b) { return a.begin < b.begin; });
  if (!std::is_sorted(rank.memory.begin(), rank.memory.end(),
                      [](const auto& a, const auto& b) { return a.time < b.time; })) {
    std::stable_sort(rank.memory.begin(), rank.memory.end(),
                     [](const auto& a, const auto& b) { return a.time < b.time; });
  }
}

/// Ranks that do not say who they are take the free numbers, in the order of the files.
void number_ranks(ImportedRun& run) {
  auto& ranks = run.ranks();
  std::erase_if(ranks, [](const ImportedRank& rank) {
    return rank.spans.empty() && rank.memory.empty() && rank.steps.empty();
  });
  std::set<Rank> taken;
  for (const ImportedRank& rank : ranks) taken.insert(rank.rank);
  Rank next = 0;
  bool guessed = false;
  for (ImportedRank& rank : ranks) {
    if (rank.rank >= 0) continue;
    while (taken.contains(next)) ++next;
    guessed = true;
    rank.rank = next++;
  }
  if (guessed && ranks.size() > 1) {
    run.warn("files do not say which rank they are of: ranks are numbered in their order");
  }
  std::sort(ranks.begin(), ranks.end(),
            [](const ImportedRank& a, const ImportedRank& b) { return a.rank < b.rank; });
}

struct Opened {
  SourceFile source;
  const Format* format;
};

Result<std::vector<Opened>> open_all(const std::vector<std::string>& files,
                                     const SourceFile::Progress& progress) {
  std::vector<Opened> all;
  for (const std::string& file : files) {
    TESSERA_ASSIGN(SourceFile source, SourceFile::open(file, progress));
    TESSERA_ASSIGN(const Format* const format, format_of(source));
    all.push_back({std::move(source), format});
  }
  return all;
}

Status read_all(std::vector<Opened>& files, const ImportOptions& options, ImportedRun& run,
                Imported& done) {
  nlohmann::ordered_json names = nlohmann::ordered_json::array();
  for (Opened& file : files) {
    TESSERA_TRY(file.format->read(file.source, {options.spans_max}, run));
    if (file.source.breaks_off()) {
      run.warn(
          fmt::format("\"{}\" breaks off in the middle of its gzip stream: what could be "
                      "unpacked was imported",
                      file.source.name()));
    }
    std::int64_t spans = 0;
    for (const ImportedRank& rank : run.ranks())
      spans += static_cast<std::int64_t>(rank.spans.size());
    if (spans > options.spans_max) {
      return {Code::out_of_memory,
              fmt::format("The files up to \"{}\" have {} spans, more than the {} that are read at "
                          "once: import fewer ranks or a shorter recording.",
                          file.source.path(), spans, options.spans_max)};
    }
    done.files.push_back({file.source.path(), file.format->name});
    names.push_back(file.source.name());
  }
  std::set<const Format*> used;
  for (const Opened& file : files) used.insert(file.format);
  for (const Format* format : used) {
    if (format->conclude != nullptr) TESSERA_TRY(format->conclude(run));
  }
  if (run.facts.options.empty()) {
    const nlohmann::ordered_json options_json{{"imported_from", files.front().format->name},
                                              {"files", names}};
    run.facts.options =
        options_json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
  }
  if (run.facts.name.empty()) {
    run.facts.name = fmt::format("{}, {}", files.front().source.name(), files.front().format->name);
  }
  return {};
}

/// Files of different runs have the same process groups, and nothing in common.
void tell_strangers(ImportedRun& run, const CollectiveMatches& matches) {
  std::vector<Rank> alone;
  std::int64_t with_collectives = 0;
  for (std::size_t r = 0; r < run.ranks().size(); ++r) {
    const std::vector<std::int32_t>& of = matches.of[r];
    with_collectives += of.empty() ? 0 : 1;
    const bool met = std::any_of(of.begin(), of.end(), [&](std::int32_t matched) {
      return matched >= 0 && matches.matched[static_cast<std::size_t>(matched)].members > 1;
    });
    if (!of.empty() && !met) alone.push_back(run.ranks()[r].rank);
  }
  if (alone.empty() || with_collectives < 2) return;
  run.warn(
      fmt::format("no collective of {} rank{} ({}{}) is on any other: are their files of one run?",
                  alone.size(), alone.size() == 1 ? "" : "s", alone.front(),
                  alone.size() == 1 ? "" : fmt::format(" to {}", alone.back())));
}

}  // namespace

Result<Imported> import_traces(const std::vector<std::string>& files, const std::string& out,
                               const ImportOptions& options) {
  if (files.empty()) return Status(Code::invalid_argument, "There is no file to import.");
  std::int64_t total = 0, read = 0;
  std::error_code ignored;
  for (const std::string& file : files) {
    const auto size = std::filesystem::file_size(file, ignored);
    if (!ignored) total += static_cast<std::int64_t>(size);
  }
  const auto progress = [&](std::int64_t bytes) {
    read += bytes;
    if (options.progress) options.progress(read, total);
  };
  TESSERA_TRY(check_output_name(files, out, "imported"));
  TESSERA_ASSIGN(std::vector<Opened> opened, open_all(files, progress));
  Imported done;
  ImportedRun run;
  run.facts.version = options.version;
  TESSERA_TRY(read_all(opened, options, run, done));
  opened.clear();
  for (ImportedRank& rank : run.ranks()) clean(rank, run);
  number_ranks(run);
  if (run.ranks().empty() && run.diagnostics.empty()) {
    const std::vector<std::string> known = run.warnings();  // what it has instead, at the end
    return Status(Code::invalid_argument,
                  fmt::format("\"{}\" has no operation and no memory sample{}{}.", files.front(),
                              known.empty() ? "" : ": ", known.empty() ? "" : known.back()));
  }
  const CollectiveMatches matches = match_collectives(run);
  tell_strangers(run, matches);
  align_clocks(run, matches);
  for (const ImportedRank& rank : run.ranks()) {
    if (run.ranks().size() > 1) done.clock_offsets.push_back(rank.offset);
  }
  TESSERA_ASSIGN(const auto writer, storage::TraceWriter::create(out, {.queue_max = import_queue}));
  TESSERA_TRY(write_run(run, matches, *writer, done));
  for (const ImportedDiagnostic& found : run.diagnostics) {
    done.findings.push_back({found.code, found.rank, found.message});
  }
  done.warnings = run.warnings();
  return done;
}

}  // namespace tessera::exchange
