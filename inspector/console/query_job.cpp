// SPDX-License-Identifier: Apache-2.0
#include "inspector/console/query_job.h"

#include <utility>

namespace tessera::inspector {

QueryJob::~QueryJob() {
  stop();
  if (future_.valid()) future_.wait();
}

void QueryJob::ask(std::string sql) {
  if (!running()) return begin(std::move(sql));
  stop();
  next_ = std::move(sql);
}

void QueryJob::stop() {
  next_.reset();
  stop_ = true;
}

double QueryJob::seconds() const {
  return running() ? std::chrono::duration<double>(Clock::now() - began_).count() : 0;
}

std::optional<Answer> QueryJob::take() {
  constexpr std::chrono::seconds now{0};
  if (!running() || future_.wait_for(now) != std::future_status::ready) return {};
  return await();
}

std::optional<Answer> QueryJob::await() {
  if (!running()) return {};
  Answer done = future_.get();
  if (!next_) return done;
  begin(*std::exchange(next_, std::nullopt));
  return {};
}

void QueryJob::begin(std::string sql) {
  if (renewed_) {
    path_ = *std::exchange(renewed_, std::nullopt);
    query_.reset();
  }
  stop_ = false;
  began_ = Clock::now();
  future_ = std::async(std::launch::async, [this, asked = std::move(sql)] {
    Answer found = answer(asked);
    found.seconds = std::chrono::duration<double>(Clock::now() - began_).count();
    return found;
  });
}

Answer QueryJob::answer(const std::string& sql) {
  Answer found;
  found.sql = sql;
  if (!query_) {
    auto opened = query::Query::open(path_);
    if (!opened.ok()) {
      found.status = opened.status();
      return found;
    }
    query_.emplace(std::move(opened).value());
  }
  const auto row = [&](const std::vector<query::Value>& values) {
    if (found.rows.size() < rows_max) {
      found.rows.push_back(values);
    } else {
      found.cut = true;
      stop_ = true;
    }
  };
  const auto columns = [&](const std::vector<std::string>& names) { found.names = names; };
  const Status status = query_->run(sql, {columns, row}, &stop_);
  if (!found.cut) found.status = status;
  return found;
}

}  // namespace tessera::inspector
