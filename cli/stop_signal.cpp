// SPDX-License-Identifier: Apache-2.0
#include "cli/stop_signal.h"

#include <fmt/format.h>

#include <csignal>

namespace tessera::cli {
namespace {

volatile std::sig_atomic_t came = 0;

void note(int signal) {
  came = signal;
  std::signal(signal, SIG_DFL);  // who asks twice does not want to wait
}

}  // namespace

void stop_on_signals() {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGUSR1}) {
    if (std::signal(signal, note) == SIG_IGN) std::signal(signal, SIG_IGN);
  }
}

int stop_signal() { return came; }

namespace {

std::string name_of_signal(int signal) {
  switch (signal) {
    case SIGINT: return "SIGINT";
    case SIGTERM: return "SIGTERM";
    case SIGHUP: return "SIGHUP";
    case SIGUSR1: return "SIGUSR1";
    default: return fmt::format("signal {}", signal);
  }
}

}  // namespace

std::string stop_sentence(int signal, std::int64_t step, std::int64_t steps) {
  return fmt::format("stopped by {} after step {} of {}", name_of_signal(signal), step, steps);
}

int exit_stopped(int signal) { return 128 + signal; }

}  // namespace tessera::cli
