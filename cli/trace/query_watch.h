// SPDX-License-Identifier: Apache-2.0
// Ends a query that takes too long: one that walks a graph may never be done.
//
//   QueryWatch watch(/*deadline_s=*/10);
//   query.run(sql, sink, watch.stop());
#pragma once

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>

namespace tessera::cli {

class QueryWatch {
 public:
  /// Seconds; 0: it may take as long as it likes, and whoever watches a terminal is told how to end
  /// it.
  explicit QueryWatch(double deadline_s);
  ~QueryWatch();

  /// True once the deadline is over.
  const std::atomic<bool>* stop() const { return &stop_; }

 private:
  void watch(double deadline_s);

  std::atomic<bool> stop_{false};
  std::mutex mutex_;
  std::condition_variable ended_;
  bool over_ = false;
  std::thread thread_;
};

/// What queries of this process may take together: three quarters of the machine's memory.
void limit_query_memory();

}  // namespace tessera::cli
