// SPDX-License-Identifier: Apache-2.0
// The `tessera` program: parses, calls one sub-command, turns every failure into one sentence.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <set>

#include "cli/command.h"
#include "cli/printable.h"
#include "cli/usage_error.h"
#include "tessera/assert.h"

namespace tessera::cli {
namespace {

constexpr const char* overview_examples = R"(Examples:
  tessera simulate examples/models/llama-3-8b.json --cluster dgx-h100 --nodes 8 -o run.tessera
  tessera report run.tessera
  tessera inspect run.tessera --screenshot run.png

Exit codes: 0 done, 1 a fault of tessera, 2 bad input, 3 the simulated run does not fit memory.)";

struct Command {
  std::string_view name;
  void (*add)(CLI::App& app, int& exit_code);
};

constexpr Command commands[] = {
    {"train", add_train},           {"evaluate", add_evaluate},
    {"tokenize", add_tokenize},     {"generate", add_generate},
    {"simulate", add_simulate},     {"ops", add_ops},
    {"estimate", add_estimate},     {"wrap", add_wrap},
    {"report", add_report},         {"trace", add_trace},
    {"query", add_query},           {"compare", add_compare},
    {"inspect", add_inspect},       {"collective", add_collective},
    {"cluster", add_cluster},       {"calibrate", add_calibrate},
    {"checkpoint", add_checkpoint}, {"doctor", add_doctor},
    {"completion", add_completion},
};

// Only the one that is called: CLI11 compares every option with all before it, which for all
// sub-commands takes longer than most of them. All of them where none is called, to name them, and
// for the one that completes them.
void add_commands(CLI::App& app, std::string_view called, int& exit_code) {
  const bool one = called != "completion" &&
                   std::any_of(std::begin(commands), std::end(commands),
                               [&](const Command& command) { return command.name == called; });
  for (const Command& command : commands) {
    if (!one || command.name == called) command.add(app, exit_code);
  }
}

int run(int argc, char** argv) {
  CLI::App app("Tessera: sharded training on real GPUs or simulated clusters, recorded and shown.",
               "tessera");
  app.footer(overview_examples);
  app.set_version_flag("--version", "tessera " + version());
  app.require_subcommand(1);
  app.option_defaults()->always_capture_default();
  int exit_code = exit_ok;
  add_commands(app, argc > 1 ? argv[1] : "", exit_code);
  // CLI11 speaks in exceptions; none leaves this function.
  try {
    TESSERA_ASSERT(argc > 0, "a program has a name");
    auto arguments = with_run_file(app, {argv + 1, argv + argc});
    if (!arguments.ok()) return complain(arguments.status());
    const Status lists = check_lists(app, *arguments);
    if (!lists.ok()) return complain(lists);
    std::reverse(arguments->begin(), arguments->end());  // as CLI11 takes them
    app.parse(std::move(*arguments));
  } catch (const CLI::Success& success) {
    return app.exit(success);
  } catch (const CLI::ParseError& error) {
    return complain(refused(sentence_of(app, error)));
  }
  if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) {
    return complain(Status(Code::io_error, "the output could not be written completely"));
  }
  return exit_code;
}

}  // namespace

void say(std::string_view line) {
  std::fflush(stdout);
  fmt::print(stderr, "tessera: {}\n", printable(line));
}

void print_warnings(const std::vector<std::string>& warnings) {
  std::set<std::string> said;  // files that share something may each warn of it
  for (const std::string& warning : warnings) {
    if (said.insert(warning).second) say("warning: " + warning);
  }
}

int complain(const Status& status) {
  std::string line = status.message();
  std::replace(line.begin(), line.end(), '\n', ' ');
  say(line);
  return status.code() == Code::hazard || status.code() == Code::divergent ? exit_failed
                                                                           : exit_bad_input;
}

std::string version() { return TESSERA_VERSION; }

}  // namespace tessera::cli

int main(int argc, char** argv) {
  try {
    return tessera::cli::run(argc, argv);
  } catch (const std::exception& error) {  // out of memory and the like
    fmt::print(stderr, "tessera: {}\n", error.what());
    return tessera::cli::exit_failed;
  }
}
