// SPDX-License-Identifier: Apache-2.0
#include "tests/cli/program.h"

#include <sys/wait.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace tessera::test {
namespace {

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

}  // namespace

const std::string& run_folder() {
  static const std::string folder = [] {
    const std::string path = std::string(TESSERA_BINARY_DIR) + "/tests/cli/run/";
    std::filesystem::remove_all(path);
    std::filesystem::create_directories(path);
    return path;
  }();
  return folder;
}

ProgramRun run_tessera(const std::string& arguments, const std::string& environment,
                       const std::string& program) {
  const std::string& folder = run_folder();
  // No display, so that no test opens a window.
  const std::string command = "cd '" + folder + "' && env -u DISPLAY -u WAYLAND_DISPLAY " +
                              environment + " '" + (program.empty() ? TESSERA_PROGRAM : program) +
                              "' " + arguments + " >stdout.txt 2>stderr.txt </dev/null";
  const int status = std::system(command.c_str());
  ProgramRun run;
  if (status != -1 && WIFEXITED(status)) run.exit_code = WEXITSTATUS(status);
  run.output = read_file(folder + "stdout.txt");
  run.messages = read_file(folder + "stderr.txt");
  return run;
}

std::string example_model(const std::string& name) {
  return std::string(TESSERA_SOURCE_DIR) + "/examples/models/" + name + ".json";
}

}  // namespace tessera::test
