// SPDX-License-Identifier: Apache-2.0
#include "cli/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

namespace tessera::cli {

Progress::Progress(std::string label, std::string unit, bool quiet)
    : label_(std::move(label)), unit_(std::move(unit)), shown_(!quiet && isatty(STDERR_FILENO)) {}

Progress::~Progress() {
  if (drawn_) fmt::print(stderr, "\r\033[K");
}

void Progress::update(long done, long total) {
  if (!shown_) return;
  constexpr long width = 32;
  const long filled = total == 0 ? width : std::min(width, width * done / total);
  fmt::print(stderr, "\r{} [{:<{}}] {}/{} {}", label_,
             std::string(static_cast<std::size_t>(filled), '#'), width, done, total, unit_);
  std::fflush(stderr);
  drawn_ = true;
}

}  // namespace tessera::cli
