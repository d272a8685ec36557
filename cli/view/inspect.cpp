// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "cli/command.h"
#include "cli/options/checks.h"
#include "cli/trace_warning.h"
#include "cli/view/inspect_view.h"
#ifdef TESSERA_HAS_INSPECTOR
#include "tessera/inspector/inspector.h"
#endif

namespace tessera::cli {
namespace {

struct InspectArguments {
  std::string trace;
  std::string against;
  std::string screenshot;
  std::string query;
  std::string size;           // "": as last
  std::string panel;          // "": the one that fits the other options
  std::string beside, below;  // a second one; "": as last
  std::string time;
  std::string theme;  // "": as last
  double scale = 0;   // 0: as last
  Rank rank = -1;
};

constexpr const char* inspect_examples = R"(Examples:
  tessera inspect run.tessera
  tessera inspect run.tessera --screenshot run.png --size 2560x1440 --theme light
  tessera inspect real.tessera --against simulated.tessera
  tessera compare real.tessera simulated.tessera --json > both.json; tessera inspect both.json
  tessera inspect run.tessera --screenshot step.png --panel timeline --time 1200:1450 --rank 21

Exit codes: 0 done, 2 bad input, no display, or built without the inspector.)";

#ifdef TESSERA_HAS_INSPECTOR

std::vector<std::string> panel_names() { return inspector::panel_names(); }

namespace fs = std::filesystem;

// The examples, as installed or as built from sources; "": they are not here.
std::string traces_folder() {
  std::error_code none;
  const fs::path program = fs::read_symlink("/proc/self/exe", none).parent_path();
  if (none) return {};
  for (const char* place : {"../share/tessera/traces", "../../traces", "../traces"}) {
    const fs::path folder = program / place;
    if (fs::exists(folder / "README.md", none)) return folder.lexically_normal().string();
  }
  return {};
}

// https://specifications.freedesktop.org/basedir-spec
std::string state_file(const char* name) {
  const char* const state = std::getenv("XDG_STATE_HOME");
  const char* const home = std::getenv("HOME");
  if (state != nullptr && *state != 0) {
    return std::string(state) + "/tessera/" + name;
  }
  return home == nullptr ? "" : std::string(home) + "/.local/state/tessera/" + name;
}

Status check_start(const InspectArguments& a) {
  const bool about_trace = !a.against.empty() || !a.panel.empty() || !a.beside.empty() ||
                           !a.below.empty() || !a.time.empty() || !a.query.empty() || a.rank >= 0;
  if (!a.trace.empty() || !about_trace) return {};
  return {Code::invalid_argument,
          "no trace is given: --against, --panel, --beside, --below, --time, --query and --rank "
          "are about one"};
}

Status run_inspect(const InspectArguments& arguments) {
  TESSERA_TRY(check_start(arguments));
  TESSERA_TRY(check_picture(arguments.screenshot));
  inspector::InspectOptions options;
  if (!arguments.trace.empty()) {
    TESSERA_ASSIGN(auto named, inspector::named_traces(arguments.trace));
    if (!named.against.empty() && !arguments.against.empty()) {
      return Status(Code::invalid_argument,
                    fmt::format("\"{}\" is a comparison of two traces: leave out --against",
                                arguments.trace));
    }
    options.path = named.path;
    options.against = named.against.empty() ? arguments.against : named.against;
  }
  options.traces = traces_folder();
  if (arguments.screenshot.empty()) {
    options.recent_file = state_file("traces");
    options.layout_file = state_file("layout");
  }
  if (!arguments.size.empty()) {
    TESSERA_ASSIGN(const PictureSize size, parse_size(arguments.size));
    options.width = size.width;
    options.height = size.height;
  }
  if (!arguments.theme.empty()) {
    options.theme =
        arguments.theme == "light" ? inspector::ThemeKind::light : inspector::ThemeKind::dark;
  }
  if (arguments.scale > 0) options.scale = static_cast<float>(arguments.scale);
  options.beside = arguments.beside;
  options.below = arguments.below;
  const bool compared = !options.against.empty();
  const char* fitting = compared ? "compare" : arguments.query.empty() ? "all" : "query";
  options.panel = arguments.panel.empty() ? fitting : arguments.panel;
  options.query = arguments.query;
  const auto shown = [&](const char* panel) {
    return options.panel == panel || options.beside == panel || options.below == panel;
  };
  if (compared && !arguments.screenshot.empty() && !shown("compare")) {
    const std::string other = arguments.against.empty()
                                  ? fmt::format("the second trace of \"{}\"", arguments.trace)
                                  : "--against";
    return Status(Code::invalid_argument,
                  fmt::format("{} changes nothing in a picture of --panel {}: give --panel compare "
                              "or leave one of them out",
                              other, options.panel));
  }
  if (!arguments.query.empty() && !arguments.screenshot.empty() && !shown("query")) {
    return Status(Code::invalid_argument,
                  fmt::format("--query changes nothing in a picture of --panel {}: give --panel "
                              "query or leave one of them out",
                              options.panel));
  }
  if (!arguments.time.empty()) {
    TESSERA_ASSIGN(options.time, parse_time_range(arguments.time));
  }
  if (!options.path.empty()) {
    TESSERA_ASSIGN(const auto reader, storage::TraceReader::open(options.path));
    warn_of_trace(options.path, reader.info());
  }
  if (arguments.rank >= 0) options.rank = arguments.rank;
  return arguments.screenshot.empty() ? inspector::inspect(options)
                                      : inspector::screenshot(options, arguments.screenshot);
}

#else

std::vector<std::string> panel_names() { return {"all"}; }

Status run_inspect(const InspectArguments&) {
  return Status(Code::not_supported,
                "this tessera was built without the inspector: configure with "
                "-DTESSERA_INSPECTOR=ON, or use `tessera report`");
}

#endif

}  // namespace

void add_inspect(CLI::App& app, int& exit_code) {
  auto arguments = std::make_shared<InspectArguments>();
  CLI::App* command = app.add_subcommand("inspect", "Show a trace in a window or as a picture");
  command->footer(inspect_examples);
  command->add_option("FILE", arguments->trace,
                      "Trace file, also of a recording that goes on, or what compare --json wrote; "
                      "default: a page that opens one, with examples");
  const char* view = "View";
  command->add_option("--against", arguments->against, "Another trace file, to compare with")
      ->group(view);
  command
      ->add_option("--panel", arguments->panel,
                   "What fills the screen; default: all, with --against compare, with "
                   "--query query")
      ->check(CLI::IsMember(panel_names()))
      ->default_str("")
      ->group(view);
  CLI::Option* const beside =
      command
          ->add_option("--beside", arguments->beside, "A second panel beside it; default: as last")
          ->check(CLI::IsMember(panel_names()))
          ->default_str("")
          ->group(view);
  command->add_option("--below", arguments->below, "A second panel below it; default: as last")
      ->check(CLI::IsMember(panel_names()))
      ->default_str("")
      ->excludes(beside)
      ->group(view);
  command
      ->add_option("--time", arguments->time,
                   "BEGIN:END in ms; default: the last step, or where the run failed")
      ->group(view);
  command->add_option("--query", arguments->query, "SQL that the panel query asks first")
      ->group(view);
  command->add_option("--rank", arguments->rank, "The rank to open; default: the slowest")
      ->check(within(0, 100'000'000))
      ->default_str("")
      ->group(view);
  command
      ->add_option("--theme", arguments->theme,
                   "Colours; default: as the window was last, of pictures dark")
      ->check(CLI::IsMember({"dark", "light"}))
      ->default_str("")
      ->group(view);
  command
      ->add_option("--scale", arguments->scale,
                   "Size of text and all else; default: as the window was last, of pictures 1")
      ->check(within(0.5, 3.0))
      ->default_str("")
      ->group(view);
  command
      ->add_option("--size", arguments->size,
                   "WIDTHxHEIGHT in pixels; default: as the window was last, of pictures 1920x1080")
      ->default_str("")
      ->group(view);
  command
      ->add_option("--screenshot", arguments->screenshot,
                   "Write this PNG file instead of opening a window; needs no display")
      ->group("Output");
  command->callback([arguments, command, &exit_code] {
    Status status = check_not_empty(*command);
    if (status.ok()) status = run_inspect(*arguments);
    if (!status.ok()) exit_code = complain(status);
  });
}

}  // namespace tessera::cli
