// SPDX-License-Identifier: Apache-2.0
#include "tessera/exchange/merge.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "cli/printable.h"
#include "cli/report/table.h"
#include "cli/train/trace_name.h"

namespace tessera::cli {
namespace {

struct MergeArguments {
  std::vector<std::string> files;
  std::string output;
  bool json = false;
};

constexpr const char* merge_examples = R"(Examples:
  mpirun -n 4 tessera train MODEL --data FILE --trace 'run.{rank}.tessera'
  tessera trace merge run.*.tessera -o run.tessera
  tessera trace merge run.0.tessera.partial run.1.tessera -o run.tessera   # rank 0 was killed

Exit codes: 0 done, 2 bad input.)";

void print_merge_json(const exchange::Merged& done, const std::string& output) {
  nlohmann::ordered_json json{{"trace", output},          {"ranks", done.ranks},
                              {"world", done.world},      {"steps", done.steps},
                              {"spans", done.spans},      {"clock_spread_ns", done.spread},
                              {"warnings", done.warnings}};
  json["files"] = nlohmann::ordered_json::array();
  for (const exchange::MergedFile& file : done.files) {
    json["files"].push_back(
        {{"path", file.path}, {"ranks", file.ranks}, {"clock_offset_ns", file.offset}});
  }
  constexpr auto replace = nlohmann::json::error_handler_t::replace;
  fmt::print("{}\n", json.dump(2, ' ', false, replace));
}

Status run_merge(const MergeArguments& a) {
  TESSERA_TRY(check_trace_name("--output", a.output));
  TESSERA_ASSIGN(const exchange::Merged done, exchange::merge_traces(a.files, a.output, version()));
  std::vector<std::string> warnings;
  for (const std::string& warning : done.warnings) warnings.push_back(printable(warning));
  print_warnings(warnings);
  if (a.json) {
    print_merge_json(done, a.output);
    return {};
  }
  fmt::print("{}: {} of {} ranks, {} steps, {} spans\n", a.output, done.ranks.size(), done.world,
             with_separators(done.steps), with_separators(done.spans));
  return {};
}

}  // namespace

void add_trace_merge(CLI::App& trace, int& exit_code) {
  auto arguments = std::make_shared<MergeArguments>();
  CLI::App* command =
      trace.add_subcommand("merge", "Make one trace of several that ranks of one run recorded");
  command->footer(merge_examples);
  command->add_option("FILE", arguments->files, "Trace files of one run, finished or not")
      ->required();
  command->add_option("-o,--output", arguments->output, "Trace file to write")->required();
  command->add_flag("--json", arguments->json, "Print one JSON object");
  command->callback([arguments, &exit_code] {
    const Status status = run_merge(*arguments);
    if (!status.ok()) exit_code = complain(status);
  });
}

}  // namespace tessera::cli
