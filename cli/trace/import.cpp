// SPDX-License-Identifier: Apache-2.0
#include "tessera/exchange/import.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "cli/printable.h"
#include "cli/report/progress.h"
#include "cli/report/table.h"
#include "cli/train/trace_name.h"

namespace tessera::cli {
namespace {

struct ImportArguments {
  std::vector<std::string> files;
  std::string output;
  bool json = false, quiet = false;
};

constexpr const char* import_examples = R"(Examples:
  tessera trace import rank0.json.gz rank1.json.gz -o run.tessera
  tessera trace import snapshot.pickle -o memory.tessera
  tessera trace import nccl_trace_rank_* -o hang.tessera   # names who did not come

Exit codes: 0 done, 2 bad input.)";

std::string joined_ranks(const std::vector<Rank>& ranks) {
  constexpr std::size_t shown = 8;
  if (ranks.size() <= shown) return fmt::format("{}", fmt::join(ranks, ", "));
  return fmt::format("{}, ... {}", fmt::join(ranks.begin(), ranks.begin() + shown, ", "),
                     ranks.back());
}

void print_import_json(const exchange::Imported& done, const std::string& output) {
  nlohmann::ordered_json json{{"trace", output},
                              {"ranks", done.ranks},
                              {"world", done.world},
                              {"steps", done.steps},
                              {"spans", done.spans},
                              {"collectives", done.collectives},
                              {"matched_collectives", done.matched_collectives},
                              {"clock_offsets_ns", done.clock_offsets},
                              {"warnings", done.warnings}};
  json["findings"] = nlohmann::ordered_json::array();
  for (const auto& found : done.findings) {
    json["findings"].push_back(
        {{"code", found.code}, {"rank", found.rank}, {"message", found.message}});
  }
  json["files"] = nlohmann::ordered_json::array();
  for (const auto& file : done.files) {
    json["files"].push_back({{"path", file.path}, {"format", file.format}});
  }
  constexpr auto replace = nlohmann::json::error_handler_t::replace;
  fmt::print("{}\n", json.dump(2, ' ', false, replace));
}

Status run_import(const ImportArguments& a) {
  TESSERA_TRY(check_trace_name("--output", a.output));
  Progress bar("importing", "MiB", a.quiet);
  exchange::ImportOptions options;
  options.version = version();
  long drawn = -1;
  options.progress = [&](std::int64_t done, std::int64_t total) {
    const long mebibytes = static_cast<long>(done >> 20);
    if (mebibytes == drawn) return;
    drawn = mebibytes;
    bar.update(mebibytes, static_cast<long>(total >> 20));
  };
  const auto done = exchange::import_traces(a.files, a.output, options);
  bar.clear();
  TESSERA_TRY(done.status());
  std::vector<std::string> warnings;
  for (const std::string& warning : done->warnings) warnings.push_back(printable(warning));
  print_warnings(warnings);
  if (a.json) {
    print_import_json(*done, a.output);
    return {};
  }
  fmt::print("{}: {} of {} ranks ({}), {} steps, {} spans, {} of {} collectives matched\n",
             a.output, done->ranks.size(), done->world, joined_ranks(done->ranks),
             with_separators(done->steps), with_separators(done->spans),
             with_separators(done->matched_collectives), with_separators(done->collectives));
  constexpr std::size_t shown = 10;
  for (std::size_t i = 0; i < std::min(shown, done->findings.size()); ++i) {
    fmt::print("{}: {}\n", done->findings[i].code, printable(done->findings[i].message));
  }
  if (done->findings.size() > shown) {
    fmt::print("and {} more, which --json lists\n", done->findings.size() - shown);
  }
  return {};
}

}  // namespace

void add_trace_import(CLI::App& trace, int& exit_code) {
  auto arguments = std::make_shared<ImportArguments>();
  CLI::App* command = trace.add_subcommand("import", "Make a trace of what other tools recorded");
  command->footer(import_examples);
  command->add_option("FILE", arguments->files, "Files of one run: one per rank, or several")
      ->required();
  command->add_option("-o,--output", arguments->output, "Trace file to write")->required();
  command->add_flag("--json", arguments->json, "Print one JSON object");
  command->add_flag("-q,--quiet", arguments->quiet, "Show no progress");
  command->callback([arguments, &exit_code] {
    const Status status = run_import(*arguments);
    if (!status.ok()) exit_code = complain(status);
  });
}

}  // namespace tessera::cli
