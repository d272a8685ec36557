// SPDX-License-Identifier: Apache-2.0
// Signals as a request: what runs ends at the next good moment and leaves whole files.
//
//   stop_on_signals();
//   while (!done && stop_signal() == 0) step();
//   return stop_signal() == 0 ? exit_ok : exit_stopped(stop_signal());
#pragma once

#include <cstdint>
#include <string>

namespace tessera::cli {

/// From now on SIGINT, SIGTERM, SIGHUP and SIGUSR1 are only noted, and a second one ends the
/// program at once. One that was ignored (nohup) stays so.
void stop_on_signals();

/// The signal that came, 0: none.
int stop_signal();

/// From now on a signal that ends the program removes `path` first: what is half written there is
/// nobody's. "" : nothing. One that was ignored (nohup) stays so.
void remove_when_stopped(const std::string& path);

/// "stopped by SIGINT after step 3 of 10".
std::string stop_sentence(int signal, std::int64_t step, std::int64_t steps);

/// The exit code of a run that ended because of `signal`, as shells have it: 130, 143.
int exit_stopped(int signal);

}  // namespace tessera::cli
