// SPDX-License-Identifier: Apache-2.0
// The `tessera` program: parses, calls one sub-command, turns every failure into one sentence.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <set>

#include "cli/command.h"
#include "cli/printable.h"
#include "engine/text/nearest_word.h"
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

bool is_option(std::string_view word) { return word.size() > 1 && word[0] == '-'; }

std::vector<std::string> names_of_commands(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    names.push_back(command->get_name());
  }
  return names;
}

std::string did_you_mean(const std::string& word, const std::vector<std::string>& known) {
  const std::string_view best = nearest_word(word, {known.begin(), known.end()});
  return best.empty() ? "" : fmt::format(", did you mean {}?", best);
}

std::string help_of(const CLI::App& app, const CLI::App& command) {
  return &command == &app ? "tessera --help" : fmt::format("tessera {} --help", command.get_name());
}

// What is wrong with a word that nothing took: `command` is where it stands.
std::string unexpected(const CLI::App& app, const CLI::App& command, const std::string& word) {
  if (is_option(word)) {
    std::vector<std::string> options;
    for (const CLI::Option* option : command.get_options()) {
      for (const std::string& name : option->get_lnames()) options.push_back("--" + name);
    }
    const std::string meant = did_you_mean(word.substr(0, word.find('=')), options);
    return fmt::format("unknown option {}{}", word,
                       !meant.empty() ? meant : ": see " + help_of(app, command));
  }
  if (&command == &app) {
    const auto names = names_of_commands(app);
    const std::string meant = did_you_mean(word, names);
    return fmt::format("unknown sub-command {}{}", word,
                       !meant.empty() ? meant : fmt::format(": choose {}", fmt::join(names, ", ")));
  }
  return fmt::format("unexpected argument {}: see {}", word, help_of(app, command));
}

// "Could not convert: --steps = 1.0": what takes whole numbers was given another one.
std::string unconverted(const CLI::App& command, const std::string& message) {
  const std::size_t begin = message.find("--"), equals = message.find(" = ", begin);
  if (equals == message.npos) return message;
  const std::string name = message.substr(begin, equals - begin), text = message.substr(equals + 3);
  const CLI::Option* const option = command.get_option_no_throw(name);
  const bool whole = option != nullptr && option->get_type_name().find("INT") != std::string::npos;
  const bool digits = text.find_first_not_of("-0123456789") == text.npos;
  return fmt::format("{}: '{}' is {}", name, text,
                     !whole   ? "no number"
                     : digits ? "out of range"
                              : "no whole number");
}

// One sentence for what CLI11 found; its own messages say less and have several lines.
std::string sentence(const CLI::App& app, const CLI::ParseError& error) {
  const auto parsed = app.get_subcommands();
  const CLI::App& command = parsed.empty() ? app : *parsed.front();
  const std::vector<std::string> left = app.remaining(/*recurse=*/true);
  // Before what is missing: a misspelled option makes another one look missing.
  const auto option = std::find_if(left.begin(), left.end(), is_option);
  if (option != left.end()) return unexpected(app, command, *option);
  if (!left.empty()) return unexpected(app, command, left.front());
  if (parsed.empty()) {
    return fmt::format("name a sub-command: {}; see tessera --help",
                       fmt::join(names_of_commands(app), ", "));
  }
  const bool type = error.get_name() == "ConversionError";
  return fmt::format("{}; see {}", type ? unconverted(command, error.what()) : error.what(),
                     help_of(app, command));
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
    return complain(Status(Code::invalid_argument, sentence(app, error)));
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
