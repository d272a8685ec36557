// SPDX-License-Identifier: Apache-2.0
// SQL over a trace: its tables, and the virtual tables of table.h.
//
//   TESSERA_ASSIGN(Query query, Query::open("run.tessera"));
//   TESSERA_TRY(query.run("SELECT unit, sum(exposed) FROM op_rank GROUP BY unit", print));
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "tessera/storage/trace_reader.h"

namespace tessera::query {

/// How a blob begins, and how long it is: a query may show the packed chunks of a whole trace.
struct Blob {
  static constexpr std::size_t shown = 32;
  std::string begin;  // up to `shown` bytes
  std::int64_t size = 0;
};
/// NULL, a number, a text, or a blob.
using Value = std::variant<std::monostate, std::int64_t, double, std::string, Blob>;

/// Called for the names of columns, then with each row.
struct RowSink {
  std::function<void(const std::vector<std::string>& names)> columns;
  std::function<void(const std::vector<Value>& row)> row;
};

/// Of all queries of the process at once: one that needs more ends, and the process does not.
void limit_memory(std::int64_t bytes);

class Query {
 public:
  /// Fails: as TraceReader::open.
  static Result<Query> open(const std::string& path);

  Query(Query&&) noexcept;
  Query& operator=(Query&&) noexcept;
  ~Query();

  const storage::TraceInfo& info() const;
  /// One statement that reads. Rows go to `sink` as they are found, so that none is kept. Fails:
  /// invalid_argument (no such column, a statement that writes, more than one, ...), corrupt (the
  /// trace is damaged), with a sentence; out_of_memory (beyond `limit_memory`);
  /// cancelled, soon after `stop` is true.
  Status run(const std::string& sql, const RowSink& sink, const std::atomic<bool>* stop = nullptr);

 private:
  struct State;
  explicit Query(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace tessera::query
