// SPDX-License-Identifier: Apache-2.0
// `tessera completion`: what shells and man know of the program.
#include <fmt/format.h>

#include <filesystem>

#include "cli/command.h"
#include "cli/report/command_list.h"
#include "cli/text_file.h"

namespace tessera::cli {
namespace {

constexpr const char* completion_examples = R"sh(Examples:
  eval "$(tessera completion bash)"
  tessera completion zsh > ~/.zfunc/_tessera
  tessera completion fish | source
  tessera completion man --output share/man/man1

Exit codes: 0 done, 2 bad input.)sh";

struct CompletionArguments {
  std::string shell, output;
};

Status write_pages(const CLI::App& app, const std::string& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) {
    return Status(Code::io_error,
                  fmt::format("the folder {} cannot be made: {}", folder, error.message()));
  }
  for (const auto& [name, page] : manual_pages(commands_of(app), version())) {
    TESSERA_TRY(write_text_file((std::filesystem::path(folder) / name).string(), page));
  }
  return {};
}

Status run(const CLI::App& app, const CompletionArguments& a) {
  if (a.shell == "man") {
    if (!a.output.empty()) return write_pages(app, a.output);
    return Status(Code::invalid_argument, "pages of man are files: add --output FOLDER");
  }
  const std::string text = completion(commands_of(app), a.shell);
  if (!a.output.empty()) return write_text_file(a.output, text);
  fmt::print("{}", text);
  return {};
}

}  // namespace

void add_completion(CLI::App& app, int& exit_code) {
  auto arguments = std::make_shared<CompletionArguments>();
  CLI::App* command =
      app.add_subcommand("completion", "Print what completes commands and options in a shell");
  command->footer(completion_examples);
  command->add_option("SHELL", arguments->shell, "bash, zsh, fish, or man: pages of the manual")
      ->required()
      ->check(CLI::IsMember({"bash", "fish", "man", "zsh"}));
  command->add_option("-o,--output", arguments->output,
                      "File to write instead; the folder of pages of the manual");
  command->callback([arguments, &app, &exit_code] {
    const Status done = run(app, *arguments);
    exit_code = done.ok() ? exit_ok : complain(done);
  });
}

}  // namespace tessera::cli
