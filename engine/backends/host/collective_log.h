// SPDX-License-Identifier: Apache-2.0
// The calls that one rank made together with others, in order: a number, a rolling hash and a few
// words each.
//
// The idea: all ranks run the same program, so they call the same collectives in the same order,
// also those whose groups they are not in. Two ranks with equal hashes have equal histories; where
// the hashes part is the first call in which they differ.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "tessera/op.h"

namespace tessera {

/// One call. Ranks send each other its bytes as they are in memory.
struct LoggedCall {
  std::uint64_t hash = 0;  // of this call and all before it
  std::int64_t numel = 0;
  std::int32_t communicator = -1;
  std::int32_t root = -1;
  char what[24] = {};  // "all_gather", "read", ...
  char name[63] = {};  // the end of the name of the unit or communicator
  DType dtype = DType::float32;
};
static_assert(std::is_trivially_copyable_v<LoggedCall> && sizeof(LoggedCall) == 112);

/// "all_gather of 256 float32 of unit model.layers.3 on communicator 0".
std::string describe(const LoggedCall& call);
/// The log's entry for `op`, without its hash.
LoggedCall logged_call(const Op& op);

class CollectiveLog {
 public:
  void add(const Op& collective);
  /// Logs a call of all ranks that is no operation: "communicator", "read", "end".
  void add(std::string_view what, std::string_view name);

  /// The number of calls so far; they are numbered from 1.
  std::int64_t count() const { return count_; }
  std::uint64_t hash() const { return hash_; }
  /// The call with this number; null if it has not been made yet or was forgotten.
  const LoggedCall* find(std::int64_t number) const;
  void forget_until(std::int64_t number);

 private:
  void add(LoggedCall call, std::string_view whole_name);

  std::deque<LoggedCall> calls_;  // number first_ and those after it
  std::int64_t first_ = 1;
  std::int64_t count_ = 0;
  std::uint64_t hash_ = 0;
};

/// The report of a rank to rank 0, which compares: its new calls, and the reason if it cannot go
/// on.
struct LogReport {
  std::int64_t first = 1;  // number of the first of `calls`
  std::vector<LoggedCall> calls;
  Status trouble;

  std::string to_bytes() const;
  /// Nothing, if `bytes` are no report.
  static std::optional<LogReport> from_bytes(std::string_view bytes);
};

}  // namespace tessera
