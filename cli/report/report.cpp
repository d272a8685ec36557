// SPDX-License-Identifier: Apache-2.0
#include "cli/report/report.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>

#include "cli/command.h"
#include "cli/options/rank_list.h"
#include "cli/trace_warning.h"

namespace tessera::cli {
namespace {

struct ReportArguments {
  std::string trace;
  std::string ranks = "none";
  bool json = false;
};

constexpr const char* report_examples = R"(Examples:
  tessera report run.tessera
  tessera report run.tessera --ranks 0,21
  tessera report run.tessera --json | jq .mfu

Exit codes: 0 done, 2 bad input.)";

Status report(const ReportArguments& arguments) {
  TESSERA_ASSIGN(const auto trace, analysis::Trace::open(arguments.trace));
  warn_of_trace(arguments.trace, trace.info());
  TESSERA_ASSIGN(const auto ranks, parse_rank_list("--ranks", arguments.ranks, trace.run().ranks));
  TESSERA_ASSIGN(const RunReport data, analysis::report_of(trace));
  arguments.json ? print_report_json(data, ranks) : print_report(data, ranks);
  return {};
}

}  // namespace

void print_report(const RunReport& data, const std::vector<Rank>& ranks) {
  const bool bold = isatty(STDOUT_FILENO) == 1 && std::getenv("NO_COLOR") == nullptr;
  fmt::print("{}", report_text(data, ranks, bold));
}

void print_report_json(const RunReport& data, const std::vector<Rank>& ranks) {
  fmt::print("{}\n", report_json(data, ranks));
}

void add_report(CLI::App& app, int& exit_code) {
  auto arguments = std::make_shared<ReportArguments>();
  CLI::App* command = app.add_subcommand("report", "Print what a trace says about its run");
  command->footer(report_examples);
  command->add_option("FILE", arguments->trace, "Trace file")->required();
  command->add_option("--ranks", arguments->ranks,
                      "Ranks that get a row of their own: 0-7,21, all or none");
  command->add_flag("--json", arguments->json, "Print one JSON object with raw numbers");
  command->callback([arguments, &exit_code] {
    const Status status = report(*arguments);
    if (!status.ok()) exit_code = complain(status);
  });
}

}  // namespace tessera::cli
