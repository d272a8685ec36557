// SPDX-License-Identifier: Apache-2.0
// Runs the built `tessera` program, as a user's shell would.
#pragma once

#include <string>

namespace tessera::test {

struct ProgramRun {
  int exit_code = -1;    // -1: killed by a signal or not started
  std::string output;    // stdout
  std::string messages;  // stderr
};

/// `arguments` as typed into a POSIX shell, in this test program's own empty folder. `environment`:
/// "NAME=VALUE" as typed there. `program`: a copy of it elsewhere; "": the one that was built.
ProgramRun run_tessera(const std::string& arguments, const std::string& environment = "",
                       const std::string& program = "");

/// That folder, with a slash at the end.
const std::string& run_folder();

/// Absolute path of examples/models/<name>.json.
std::string example_model(const std::string& name);

}  // namespace tessera::test
