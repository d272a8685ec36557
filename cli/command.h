// SPDX-License-Identifier: Apache-2.0
// How a sub-command joins the program: one file each, one function that adds it to the parser.
//
// The idea: a sub-command parses into variables of its own and sets `exit_code` from its callback.
//
//   void add_doctor(CLI::App& app, int& exit_code) {
//     auto options = std::make_shared<DoctorOptions>();
//     CLI::App* command = app.add_subcommand("doctor", "What this build can do here");
//     command->callback([options, &exit_code] { exit_code = run_doctor(*options); });
//   }
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <utility>
#include <vector>

#include "tessera/status.h"

namespace tessera::cli {

/// Exit codes of every sub-command.
inline constexpr int exit_ok = 0;
inline constexpr int exit_failed = 1;        // a fault of Tessera itself
inline constexpr int exit_bad_input = 2;     // the message says what to change
inline constexpr int exit_does_not_fit = 3;  // the simulated run needs more memory than there is
// A run that was asked to stop: 128 and the number of the signal (cli/stop_signal.h).

void add_train(CLI::App& app, int& exit_code);
void add_evaluate(CLI::App& app, int& exit_code);
void add_tokenize(CLI::App& app, int& exit_code);
void add_generate(CLI::App& app, int& exit_code);
void add_simulate(CLI::App& app, int& exit_code);
void add_ops(CLI::App& app, int& exit_code);
void add_estimate(CLI::App& app, int& exit_code);
void add_wrap(CLI::App& app, int& exit_code);
void add_trace(CLI::App& app, int& exit_code);
void add_trace_import(CLI::App& trace, int& exit_code);
void add_trace_export(CLI::App& trace, int& exit_code);
void add_trace_merge(CLI::App& trace, int& exit_code);
void add_query(CLI::App& app, int& exit_code);
void add_compare(CLI::App& app, int& exit_code);
void add_report(CLI::App& app, int& exit_code);
void add_inspect(CLI::App& app, int& exit_code);
void add_collective(CLI::App& app, int& exit_code);
void add_cluster(CLI::App& app, int& exit_code);
void add_calibrate(CLI::App& app, int& exit_code);
void add_checkpoint(CLI::App& app, int& exit_code);
void add_doctor(CLI::App& app, int& exit_code);
void add_completion(CLI::App& app, int& exit_code);

/// The arguments of the program: if `tessera train` is given a run file first (a name that ends in
/// .toml), with the options in it that the others do not give. Fails: io_error, invalid_argument
/// (no TOML of the kind that run files have, no such option), naming file and line.
Result<std::vector<std::string>> with_run_file(const CLI::App& app,
                                               const std::vector<std::string>& arguments);

/// Fails: invalid_argument, naming the first option of the sub-command whose list, a,b in
/// `arguments`, has a part without text, which CLI11 would leave out.
Status check_lists(const CLI::App& app, const std::vector<std::string>& arguments);

/// Bad input: `why` says what and what to do.
inline Status refused(std::string why) { return Status(Code::invalid_argument, std::move(why)); }

/// "tessera: " and the line on stderr, behind what was printed before: who sends both to one file
/// reads whole lines.
void say(std::string_view line);

/// Says the message; returns the exit code that belongs to the code.
int complain(const Status& status);

/// One line each on stderr, the same one once.
void print_warnings(const std::vector<std::string>& warnings);

/// "0.2.0 (1a2b3c4)".
std::string version();

}  // namespace tessera::cli
