// SPDX-License-Identifier: Apache-2.0
#include "tessera/exchange/export.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <limits>
#include <span>
#include <utility>

#include "engine/text/rank_name.h"
#include "engine/text/text_file.h"
#include "exchange/export/exporter.h"

namespace tessera::exchange {
namespace {

struct FormatRow {
  ExportFormat format;
  std::string_view name;
  Result<std::unique_ptr<Exporter>> (*make)(const analysis::Trace&, const std::string&, Rank only);
  std::string_view begins;  // every file of it, and nobody else's
  const char* lost;         // what the format does not hold
};

// Behind it is the page with the texts of tables, in which ours has its own.
constexpr std::string_view sqlite_begins = "SQLite format 3",
                           run_table = "CREATE TABLE run (name TEXT";

constexpr std::array formats_out = {
    FormatRow{ExportFormat::perfetto, "perfetto", perfetto_exporter, "\x0a\x04P\x01h\x01",
              "classes of memory, what ranks waited for, and units' sizes"},
    FormatRow{ExportFormat::chrome, "chrome", chrome_exporter, "{\n\"schemaVersion\"",
              "what ranks waited for, and units' sizes"},
    FormatRow{ExportFormat::csv, "csv", csv_exporter, "rank,stream,op,",
              "memory, and summaries of steps"},
    FormatRow{ExportFormat::sqlite, "sqlite", sqlite_exporter, sqlite_begins, nullptr},
    FormatRow{ExportFormat::memory_snapshot, "memory-snapshot", snapshot_exporter,
              "\x80\x02}(X\x0d",
              "operations; addresses and segments are made up, as traces have none"}};

const FormatRow& row_of(ExportFormat format) {
  return formats_out[static_cast<std::size_t>(format)];
}

Status add_spans(const analysis::Trace& trace, Rank rank, Exporter& exporter, Exported& done) {
  constexpr Time from = std::numeric_limits<Time>::min(), to = std::numeric_limits<Time>::max();
  TESSERA_ASSIGN(const std::vector<storage::Lane> lanes, trace.reader().lanes(rank, from, to));
  for (const storage::Lane& lane : lanes) {
    const storage::StreamRow& stream = trace.stream(lane.stream);
    for (std::size_t i = 0; i < lane.op.size(); ++i) {
      const storage::OpRow& op = trace.op(lane.op[i]);
      TESSERA_TRY(exporter.span({rank, &op, &stream, lane.begin[i], lane.ready[i], lane.end[i]}));
      ++done.spans;
      done.span_time += lane.end[i] - lane.begin[i];
    }
  }
  return {};
}

Status add_rank(const analysis::Trace& trace, Rank rank, Exporter& exporter, Exported& done,
                std::int64_t& left_out) {
  TESSERA_TRY(exporter.rank(rank));
  TESSERA_TRY(add_spans(trace, rank, exporter, done));
  if (!exporter.wants_memory()) return {};
  TESSERA_ASSIGN(const storage::MemorySeries memory, trace.reader().memory(rank));
  const auto of_device = std::count_if(memory.memory_class.begin(), memory.memory_class.end(),
                                       [](MemoryClass c) { return is_on_device(c); });
  const bool all = exporter.holds_host_memory();
  done.memory_samples += all ? std::ssize(memory.time) : of_device;
  left_out += all ? 0 : std::ssize(memory.time) - of_device;
  return exporter.memory(memory);
}

}  // namespace

std::string_view name_of(ExportFormat format) { return row_of(format).name; }

std::optional<ExportFormat> parse_export_format(std::string_view name) {
  for (const FormatRow& row : formats_out) {
    if (row.name == name) return row.format;
  }
  return std::nullopt;
}

Status check_replaces_export(const std::string& path) {
  std::error_code ignored;  // what is not there is no folder
  if (std::filesystem::is_directory(path, ignored)) {
    return {Code::invalid_argument, fmt::format("{}: is a folder: name a file", path)};
  }
  std::string text(4096, '\0');  // a page of SQLite
  std::ifstream file(path, std::ios::binary);
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(file.gcount()));
  if (text.empty()) return {};
  for (const FormatRow& row : formats_out) {
    const bool any = row.begins == sqlite_begins && text.find(run_table) == text.npos;
    if (text.starts_with(row.begins) && !any) return {};
  }
  return {Code::invalid_argument,
          fmt::format("{}: exists and was not exported from a trace: choose another name", path)};
}

const storage::BufferRow& buffer_of(const Buffers& buffers, std::int32_t id) {
  static const storage::BufferRow unknown{};
  const auto found = std::lower_bound(
      buffers.begin(), buffers.end(), id,
      [](const storage::BufferRow& row, std::int32_t wanted) { return row.id < wanted; });
  return found == buffers.end() || found->id != id ? unknown : *found;
}

Result<Exported> export_trace(const analysis::Trace& trace, const std::string& out,
                              const ExportOptions& options) {
  std::vector<Rank> ranks = options.ranks;
  if (ranks.empty()) ranks = trace.run().recorded_ranks;
  for (const Rank rank : ranks) {
    if (trace.recorded(rank)) continue;
    return Status(Code::invalid_argument, fmt::format("Rank {} was not recorded.", rank));
  }
  const bool each = names_rank(out);
  for (const Rank rank : ranks) {  // all, before the first is written
    if (each) TESSERA_TRY(check_replaces_export(name_of_rank(out, rank)));
  }
  const FormatRow& format = row_of(options.format);
  Exported done;
  std::int64_t count = 0, left_out = 0;
  const auto export_file = [&](const std::string& path, std::span<const Rank> of, Rank only) {
    TESSERA_ASSIGN(const std::unique_ptr<Exporter> exporter, format.make(trace, path, only));
    TESSERA_TRY(exporter->begin());
    for (const Rank rank : of) {
      TESSERA_TRY(add_rank(trace, rank, *exporter, done, left_out));
      if (options.progress) options.progress(++count, static_cast<std::int64_t>(ranks.size()));
    }
    return exporter->finish(done);
  };
  if (!each) TESSERA_TRY(export_file(out, ranks, ranks.size() == 1 ? ranks[0] : -1));
  for (const Rank rank : ranks) {
    if (each) TESSERA_TRY(export_file(name_of_rank(out, rank), {&rank, 1}, rank));
  }
  if (left_out > 0) {
    done.warnings.push_back(
        fmt::format("{} memory samples are not of a device and were left out", left_out));
  }
  if (format.lost != nullptr) {
    done.warnings.push_back(fmt::format("{} does not hold {}", format.name, format.lost));
  }
  return done;
}

}  // namespace tessera::exchange
