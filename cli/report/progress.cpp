// SPDX-License-Identifier: Apache-2.0
#include "cli/report/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

namespace tessera::cli {

Progress::Progress(std::string label, std::string unit, bool quiet)
    : label_(std::move(label)), unit_(std::move(unit)), shown_(!quiet && isatty(STDERR_FILENO)) {}

Progress::~Progress() { clear(); }

void Progress::clear() {
  if (drawn_) fmt::print(stderr, "\r\033[K");
  drawn_ = false;
}

void Progress::update(long done, long total, const std::string& note) {
  if (!shown_) return;
  constexpr long width = 32;
  const long filled = total == 0 ? width : std::min(width, width * done / total);
  fmt::print(stderr, "\r\033[K{} [{:<{}}] {}/{} {}{}{}", label_,
             std::string(static_cast<std::size_t>(filled), '#'), width, done, total, unit_,
             note.empty() ? "" : ", ", note);
  std::fflush(stderr);
  drawn_ = true;
}

}  // namespace tessera::cli
