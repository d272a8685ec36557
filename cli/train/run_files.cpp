// SPDX-License-Identifier: Apache-2.0
#include "cli/train/run_files.h"

#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <string_view>
#include <vector>

#include "cli/command.h"
#include "cli/options/run_file.h"
#include "cli/text_file.h"

namespace tessera::cli {
namespace {

// How a file begins that a run wrote: run_file_text puts "# " before what it is given.
constexpr std::string_view beginning = "# Run on ";

Status check_log(const std::filesystem::path& log) {
  std::error_code error;
  if (std::filesystem::is_directory(log, error)) {
    return Status(Code::io_error,
                  fmt::format("{}: is a folder: name a file for the log", log.string()));
  }
  const std::filesystem::path folder = log.parent_path();
  if (folder.empty() || std::filesystem::is_directory(folder, error)) return {};
  return Status(Code::io_error, fmt::format("{}: cannot be written: there is no folder {}",
                                            log.string(), folder.string()));
}

Status make_folder(const char* option, const std::string& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (std::filesystem::is_directory(folder)) return {};
  return Status(Code::io_error, fmt::format("{} {}: the folder cannot be made: is there a file of "
                                            "this name, or of one of the folders above it?",
                                            option, folder));
}

Result<std::vector<std::filesystem::path>> run_files_of(const TrainArguments& arguments) {
  std::vector<std::filesystem::path> files;
  for (const std::string& log : {arguments.log.json, arguments.log.csv}) {
    if (log.empty()) continue;
    TESSERA_TRY(check_log(log));
    files.push_back(std::filesystem::path(log).replace_extension(".run.toml"));
  }
  if (!arguments.log.tensorboard.empty()) {
    TESSERA_TRY(make_folder("--tensorboard", arguments.log.tensorboard));
    files.push_back(std::filesystem::path(arguments.log.tensorboard) / "run.toml");
  }
  if (!arguments.files.save.empty()) {
    files.push_back(std::filesystem::path(arguments.files.save) / "run.toml");
  }
  return files;
}

bool is_written_by_hand(const std::filesystem::path& file) {
  std::string begins(beginning.size(), '\0');
  std::ifstream stream(file, std::ios::binary);
  if (!stream) return false;
  stream.read(begins.data(), static_cast<std::streamsize>(begins.size()));
  return begins != beginning;
}

}  // namespace

Status write_run_files(const TrainArguments& arguments, int threads, const std::string& runtime,
                       Rank ranks) {
  TESSERA_ASSIGN(const auto files, run_files_of(arguments));
  const std::string comment = fmt::format(
      "{}{} by tessera {}: make it again by {}tessera train THIS_FILE", beginning.substr(2),
      runtime, version(), runtime == "mpi" ? fmt::format("mpirun -n {} ", ranks) : "");
  // Another number of threads may add in another order.
  const RunFileEntry own{.key = "threads", .values = {std::to_string(threads)}};
  const std::string text = run_file_text(*arguments.command, comment, {own});
  for (const std::filesystem::path& file : files) {
    if (is_written_by_hand(file)) {
      print_warnings(
          {fmt::format("{}: was not written by a run, so the options of this one are "
                       "not written there",
                       file.string())});
      continue;
    }
    TESSERA_TRY(write_text_file(file.string(), text));
  }
  return {};
}

}  // namespace tessera::cli
