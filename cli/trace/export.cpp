// SPDX-License-Identifier: Apache-2.0
#include "tessera/exchange/export.h"

#include <fmt/format.h>

#include "cli/command.h"
#include "cli/options/rank_list.h"
#include "cli/printable.h"
#include "cli/report/progress.h"
#include "cli/report/table.h"
#include "cli/trace_warning.h"

namespace tessera::cli {
namespace {

struct ExportArguments {
  std::string trace, output, format, ranks = "all";
  bool quiet = false;
};

constexpr const char* export_examples = R"(Examples:
  tessera trace export run.tessera --format perfetto -o run.perfetto-trace
  tessera trace export run.tessera --format chrome -o 'rank{rank}.json'
  tessera trace export run.tessera --format memory-snapshot --ranks 0 -o memory.pickle

Exit codes: 0 done, 2 bad input.)";

// A run may have recorded some ranks only; all are all of those.
Result<std::vector<Rank>> chosen_ranks(const ExportArguments& a, const analysis::Trace& trace) {
  if (a.ranks == "all") return std::vector<Rank>();
  return parse_rank_list("--ranks", a.ranks, trace.run().ranks);
}

Status run_export(const ExportArguments& a) {
  const auto format = exchange::parse_export_format(a.format);
  if (!format) {
    return {Code::invalid_argument,
            fmt::format("--format {}: choose perfetto, chrome, csv, sqlite, memory-snapshot",
                        a.format)};
  }
  TESSERA_ASSIGN(const auto trace, analysis::Trace::open(a.trace));
  warn_of_trace(a.trace, trace.info());
  TESSERA_ASSIGN(std::vector<Rank> ranks, chosen_ranks(a, trace));
  Progress bar("exporting", "ranks", a.quiet);
  exchange::ExportOptions options{.format = *format, .ranks = std::move(ranks)};
  options.progress = [&](std::int64_t done, std::int64_t total) {
    bar.update(static_cast<long>(done), static_cast<long>(total));
  };
  const auto done = exchange::export_trace(trace, a.output, options);
  bar.clear();
  TESSERA_TRY(done.status());
  print_warnings(done->warnings);
  fmt::print(
      "{}: {} spans of {:.6f} s together, {} memory samples\n",
      done->files.size() == 1 ? done->files.front() : fmt::format("{} files", done->files.size()),
      with_separators(done->spans), static_cast<double>(done->span_time) * 1e-9,
      with_separators(done->memory_samples));
  return {};
}

}  // namespace

void add_trace_export(CLI::App& trace, int& exit_code) {
  auto arguments = std::make_shared<ExportArguments>();
  ExportArguments& a = *arguments;
  CLI::App* command = trace.add_subcommand("export", "Write a trace for other tools");
  command->footer(export_examples);
  command->add_option("FILE", a.trace, "Trace file")->required();
  command->add_option("-f,--format", a.format, "perfetto, chrome, csv, sqlite, memory-snapshot")
      ->required();
  command->add_option("-o,--output", a.output, "File to write; with {rank} in it: one per rank")
      ->required();
  command->add_option("--ranks", a.ranks, "Of these recorded ranks: all, 0-7,12");
  command->add_flag("-q,--quiet", a.quiet, "Show no progress");
  command->callback([arguments, &exit_code] {
    const Status status = run_export(*arguments);
    if (!status.ok()) exit_code = complain(status);
  });
}

}  // namespace tessera::cli
