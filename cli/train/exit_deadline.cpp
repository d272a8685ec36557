// SPDX-License-Identifier: Apache-2.0
#include "cli/train/exit_deadline.h"

#include <sys/time.h>
#include <unistd.h>

#include <cmath>
#include <csignal>
#include <utility>

namespace tessera::cli {
namespace {

// Never destroyed: static objects are when the deadline matters.
std::string& last_words() {
  static auto* const words = new std::string;
  return *words;
}

// Only what a signal handler may call.
void end(int) {
  const std::string& words = last_words();
  static_cast<void>(!write(STDERR_FILENO, words.data(), words.size()));
  _exit(1);  // exit_failed
}

}  // namespace

void exit_within(double seconds, std::string why) {
  std::signal(SIGALRM, SIG_IGN);
  last_words() = "tessera: " + std::move(why) + "\n";
  std::signal(SIGALRM, end);
  itimerval timer{};
  double whole = 0;
  timer.it_value.tv_usec = static_cast<suseconds_t>(std::modf(seconds, &whole) * 1e6);
  timer.it_value.tv_sec = static_cast<time_t>(whole);
  setitimer(ITIMER_REAL, &timer, nullptr);
}

}  // namespace tessera::cli
