// SPDX-License-Identifier: Apache-2.0
#include "cli/trace/query_watch.h"

#include <fmt/format.h>
#include <unistd.h>

#include <chrono>

#include "query/query.h"

namespace tessera::cli {

QueryWatch::QueryWatch(double deadline_s) : thread_([this, deadline_s] { watch(deadline_s); }) {}

QueryWatch::~QueryWatch() {
  {
    const std::lock_guard lock(mutex_);
    over_ = true;
  }
  ended_.notify_one();
  thread_.join();
}

void QueryWatch::watch(double deadline_s) {
  constexpr double patience_s = 10;
  std::unique_lock lock(mutex_);
  const auto ended_within = [&](double seconds) {
    return ended_.wait_for(lock, std::chrono::duration<double>(seconds), [this] { return over_; });
  };
  if (deadline_s > 0) {
    stop_ = !ended_within(deadline_s);
  } else if (!ended_within(patience_s) && isatty(STDERR_FILENO) != 0) {
    fmt::print(stderr, "tessera: the query goes on: Ctrl-C ends it, as --deadline would\n");
  }
}

void limit_query_memory() {
  const long pages = sysconf(_SC_PHYS_PAGES), size = sysconf(_SC_PAGE_SIZE);
  if (pages > 0 && size > 0) query::limit_memory(std::int64_t{pages} * size / 4 * 3);
}

}  // namespace tessera::cli
