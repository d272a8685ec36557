// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "cli/printable.h"
#include "cli/report/table.h"
#include "cli/trace_warning.h"
#include "cli/train/trace_name.h"
#include "tessera/storage/recover_trace.h"
#include "tessera/storage/trace_reader.h"

namespace tessera::cli {
namespace {

struct TraceArguments {
  std::string trace;
  std::string output;
  bool json = false;
};

constexpr const char* trace_examples = R"(Examples:
  tessera trace recover run.tessera.partial -o run.tessera
  tessera trace verify run.tessera
  tessera trace merge run.*.tessera -o run.tessera
  tessera trace import rank*.json.gz -o run.tessera

Exit codes: 0 done, 2 bad input, or the trace is damaged.)";

Status recover(const TraceArguments& a) {
  TESSERA_TRY(check_trace_name("--output", a.output));
  TESSERA_ASSIGN(const storage::RecoveredTrace left, storage::recover_trace(a.trace, a.output));
  fmt::print("{}: {}, {} whole steps, until {:.6f} s\n", a.output,
             left.was_finished ? "was finished" : "recovered", with_separators(left.steps),
             static_cast<double>(left.time) * 1e-9);
  return {};
}

// A file that cannot be opened is damaged as well, but one that is not there is bad input.
Result<std::vector<std::string>> damages_of(const TraceArguments& a, std::string& hash) {
  const auto reader = storage::TraceReader::open(a.trace);
  if (!reader.ok() && reader.status().code() == Code::corrupt) {
    return std::vector{reader.status().message()};
  }
  TESSERA_TRY(reader.status());
  warn_of_trace(a.trace, reader->info());
  hash = reader->info().content_hash;
  return reader->find_damage();
}

Status verify(const TraceArguments& a) {
  std::string hash;
  TESSERA_ASSIGN(const std::vector<std::string> damages, damages_of(a, hash));
  if (a.json) {
    nlohmann::ordered_json json{{"path", a.trace}, {"whole", damages.empty()}};
    json["content_hash"] = hash.empty() ? nlohmann::ordered_json() : nlohmann::ordered_json(hash);
    json["damages"] = damages;
    constexpr auto replace = nlohmann::json::error_handler_t::replace;
    fmt::print("{}\n", json.dump(2, ' ', false, replace));
  } else if (damages.empty()) {
    fmt::print("{} is whole: {}\n", a.trace,
               hash.empty() ? "every chunk has its checksum" : "content hash " + hash);
  } else {
    for (const std::string& damage : damages) fmt::print("{}\n", printable(damage));
  }
  if (damages.empty()) return {};
  return {Code::corrupt, fmt::format("\"{}\" is damaged: {} {} found", a.trace, damages.size(),
                                     damages.size() == 1 ? "damage was" : "damages were")};
}

}  // namespace

void add_trace(CLI::App& app, int& exit_code) {
  auto arguments = std::make_shared<TraceArguments>();
  TraceArguments& a = *arguments;
  CLI::App* command =
      app.add_subcommand("trace", "Check, recover, merge, import, export trace files");
  command->footer(trace_examples);
  command->require_subcommand(1);
  const auto add = [&](const char* name, const char* text, Status (*run)(const TraceArguments&)) {
    CLI::App* child = command->add_subcommand(name, text);
    child->add_option("FILE", a.trace, "Trace file, or what a recording left")->required();
    child->callback([arguments, run, &exit_code] {
      const Status status = run(*arguments);
      if (!status.ok()) exit_code = complain(status);
    });
    return child;
  };
  CLI::App* out = add("recover", "Make a finished trace of a recording that was stopped", recover);
  out->add_option("-o,--output", a.output, "Trace file to write")->required();
  CLI::App* whole = add("verify", "Read everything and compare it with its checksums", verify);
  whole->add_flag("--json", a.json, "Print one JSON object");
  add_trace_import(*command, exit_code);
  add_trace_export(*command, exit_code);
  add_trace_merge(*command, exit_code);
}

}  // namespace tessera::cli
