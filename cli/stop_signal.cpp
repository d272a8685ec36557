// SPDX-License-Identifier: Apache-2.0
#include "cli/stop_signal.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <climits>
#include <csignal>

namespace tessera::cli {
namespace {

volatile std::sig_atomic_t came = 0;
// A handler may look at any moment: a byte of zero in front means that there is nothing.
std::array<char, PATH_MAX + 1> half_written{};

void on_signals(void (*handler)(int)) {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGUSR1}) {
    if (std::signal(signal, handler) == SIG_IGN) std::signal(signal, SIG_IGN);
  }
}

void remove_and_end(int signal) {
  if (half_written[0] != '\0') ::unlink(half_written.data());
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

void note(int signal) {
  came = signal;
  std::signal(signal, SIG_DFL);  // who asks twice does not want to wait
}

}  // namespace

void stop_on_signals() { on_signals(note); }

void remove_when_stopped(const std::string& path) {
  half_written[0] = '\0';
  std::atomic_signal_fence(std::memory_order_seq_cst);
  if (path.empty() || path.size() > PATH_MAX) return;
  std::copy(path.begin() + 1, path.end(), half_written.begin() + 1);
  half_written[path.size()] = '\0';
  std::atomic_signal_fence(std::memory_order_seq_cst);
  half_written[0] = path[0];
  on_signals(remove_and_end);
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
