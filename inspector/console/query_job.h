// SPDX-License-Identifier: Apache-2.0
// Questions in SQL that are answered beside the frames, in a thread of their own.
//
//   QueryJob job("run.tessera");
//   job.ask("SELECT ...");
//   each frame: if (auto answer = job.take()) show(*answer);
#pragma once

#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "query/query.h"

namespace tessera::inspector {

struct Answer {
  std::string sql;
  std::vector<std::string> names;
  std::vector<std::vector<query::Value>> rows;
  bool cut = false;  // there are more rows than `rows_max`
  Status status;     // why there is no answer, or only the rows above
  double seconds = 0;
};

class QueryJob {
 public:
  static constexpr std::size_t rows_max = 10'000;

  explicit QueryJob(std::string path) : path_(std::move(path)) {}
  QueryJob(const QueryJob&) = delete;
  QueryJob& operator=(const QueryJob&) = delete;
  /// Stops what is asked.
  ~QueryJob();

  /// What is being answered is stopped first; nothing is waited for.
  void ask(std::string sql);
  /// The next question is asked of what is at `path` then.
  void renew(const std::string& path) { renewed_ = path; }
  /// It is then answered soon, with what was found so far.
  void stop();
  bool running() const { return future_.valid(); }
  /// Since the question was asked; 0 while none is answered.
  double seconds() const;
  /// The answer, once, when there is one.
  std::optional<Answer> take();
  /// The same, waiting for it.
  std::optional<Answer> await();

 private:
  using Clock = std::chrono::steady_clock;
  Answer answer(const std::string& sql);
  void begin(std::string sql);

  std::string path_;
  std::optional<query::Query> query_;  // of the thread, while there is one
  std::atomic<bool> stop_ = false;
  std::future<Answer> future_;
  std::optional<std::string> renewed_;
  std::optional<std::string> next_;  // asked while another was answered
  Clock::time_point began_;
};

}  // namespace tessera::inspector
