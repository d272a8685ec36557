// SPDX-License-Identifier: Apache-2.0
// The `tessera` program: parses, calls one sub-command, turns every failure into one sentence.
#include <fmt/format.h>

#include <algorithm>

#include "cli/command.h"

namespace tessera::cli {
namespace {

constexpr const char* footer = R"(Examples:
  tessera simulate examples/models/llama-3-8b.json --cluster dgx-h100 --nodes 8 -o run.tessera
  tessera report run.tessera
  tessera inspect run.tessera --screenshot run.png

Exit codes: 0 done, 1 a fault of tessera, 2 bad input, 3 the simulated run does not fit memory.)";

std::size_t edits(const std::string& a, const std::string& b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j < row.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i);
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, replaced});
    }
  }
  return row.back();
}

// The sub-command or option that was probably meant.
std::string suggestion(const CLI::App& app, const std::string& word) {
  std::string best;
  std::size_t least = 3;
  auto consider = [&](const std::string& known) {
    const std::size_t distance = edits(word, known);
    if (distance < least) {
      least = distance;
      best = known;
    }
  };
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    if (!word.starts_with('-')) consider(command->get_name());
    for (const CLI::Option* option : command->get_options()) {
      if (word.starts_with('-')) consider("--" + option->get_single_name());
    }
  }
  return best.empty() ? "" : fmt::format(", did you mean {}?", best);
}

bool is_command(const CLI::App& app, const std::string& word) {
  return !app.get_subcommands([&](const CLI::App* c) { return c->get_name() == word; }).empty();
}

// One line: CLI11's own messages have several.
std::string sentence(const CLI::App& app, const CLI::ParseError& error, int argc, char** argv) {
  std::string text = error.what();
  std::replace(text.begin(), text.end(), '\n', ' ');
  if (dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr ||
      dynamic_cast<const CLI::RequiredError*>(&error) != nullptr) {
    for (int i = 1; i < argc; ++i) {
      const std::string word = argv[i];
      if (text.find(word) == std::string::npos && i > 1) continue;
      if (i == 1 && is_command(app, word)) continue;
      if (const std::string meant = suggestion(app, word); !meant.empty()) {
        return fmt::format("unknown word {}{}", word, meant);
      }
      if (i == 1 && !word.starts_with('-')) {
        return fmt::format("unknown sub-command {}: see tessera --help", word);
      }
    }
  }
  return text + ": see --help";
}

int run(int argc, char** argv) {
  CLI::App app("Tessera: sharded training on real GPUs or simulated clusters, recorded and shown.",
               "tessera");
  app.footer(footer);
  app.set_version_flag("--version", "tessera " + version());
  app.require_subcommand(1);
  app.option_defaults()->always_capture_default();
  int exit_code = exit_ok;
  add_simulate(app, exit_code);
  add_ops(app, exit_code);
  add_report(app, exit_code);
  add_inspect(app, exit_code);
  add_doctor(app, exit_code);
  if (argc == 1) {
    fmt::print("{}", app.help());
    return exit_bad_input;
  }
  // CLI11 speaks in exceptions; none leaves this function.
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& success) {
    return app.exit(success);
  } catch (const CLI::ParseError& error) {
    return complain(Status(Code::invalid_argument, sentence(app, error, argc, argv)));
  }
  return exit_code;
}

}  // namespace

int complain(const Status& status) {
  fmt::print(stderr, "tessera: {}\n", status.message());
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
