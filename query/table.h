// SPDX-License-Identifier: Apache-2.0
// A virtual table over the packed columns of a trace: what it is called, what its columns are, and
// the rows of one rank at a time.
//
// The idea: a table says which of its columns bound what (`Bound`), so that a condition on them
// becomes part of `Wanted` and only the chunks concerned are unpacked; SQLite does everything else.
// To add a table: its Rows, its TableKind in `tables()`.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "query/source.h"

namespace tessera::query {

/// What a condition on a column says about the rows that are wanted.
enum class Bound : std::uint8_t { none, rank, stream, op, step, begin, end, time };

struct ColumnKind {
  const char* name;
  const char* type;  // of SQLite
  Bound bound = Bound::none;
};

/// Where a row's value goes.
class Cell {
 public:
  virtual ~Cell() = default;
  virtual void integer(std::int64_t value) = 0;
  virtual void real(double value) = 0;
  /// `value` lives as long as the Source or is a literal.
  virtual void text(std::string_view value) = 0;
  virtual void nothing() = 0;
};

/// The rows of one rank, or of one part in a table that has parts instead.
class Rows {
 public:
  virtual ~Rows() = default;
  /// Replaces what was loaded. `source.trace()` has succeeded. Fails: as TraceReader.
  virtual Status load(Source& source, std::int32_t part, const Wanted& wanted) = 0;
  virtual std::size_t size() const = 0;
  /// `column` counts as in the table's list.
  virtual void value(std::size_t row, int column, Cell& cell) const = 0;
};

inline constexpr Bound by_rank[] = {Bound::rank};

struct TableKind {
  const char* name;
  std::span<const ColumnKind> columns;
  std::unique_ptr<Rows> (*make_rows)();
  // How many parts there are, each with rows of all ranks, of which `Wanted::rank` says which are
  // asked for; nullptr: a part is a rank.
  std::int32_t (*parts)(const analysis::Trace& trace) = nullptr;
  // What its rows ascend by, the first first: what asks for that order needs no sorting.
  std::span<const Bound> order = by_rank;
};

/// span, op_rank, memory_sample, allocation, rank_step, critical_path.
std::span<const TableKind> tables();

}  // namespace tessera::query
