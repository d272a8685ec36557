// SPDX-License-Identifier: Apache-2.0
#include "query/path_rows.h"

#include <array>

namespace tessera::query {
namespace {

constexpr std::array path_columns = {
    ColumnKind{"step", "INTEGER"},    ColumnKind{"rank", "INTEGER", Bound::rank},
    ColumnKind{"stream", "INTEGER"},  ColumnKind{"op", "INTEGER"},
    ColumnKind{"label", "TEXT"},      ColumnKind{"part", "TEXT"},
    ColumnKind{"begin", "INTEGER"},   ColumnKind{"end", "INTEGER"},
    ColumnKind{"duration", "INTEGER"}};

class PathRows : public Rows {
 public:
  Status load(Source& source, Rank rank, const Wanted&) override {
    TESSERA_ASSIGN(trace_, source.trace());
    TESSERA_ASSIGN(path_, source.critical_path());
    segments_.clear();
    for (const analysis::PathSegment& segment : path_->segments) {
      if (segment.rank == rank) segments_.push_back(&segment);
    }
    return {};
  }
  std::size_t size() const override { return segments_.size(); }
  void value(std::size_t row, int column, Cell& cell) const override {
    const analysis::PathSegment& segment = *segments_[row];
    switch (column) {
      case 0: return cell.integer(path_->step);
      case 1: return cell.integer(segment.rank);
      case 2: return cell.integer(segment.stream);
      case 3: return cell.integer(segment.op);
      case 4: return cell.text(trace_->op(segment.op).label);
      case 5: return cell.text(name_of(segment.part));
      case 6: return cell.integer(segment.from);
      case 7: return cell.integer(segment.to);
      default: return cell.integer(segment.to - segment.from);
    }
  }

 private:
  const analysis::Trace* trace_ = nullptr;
  const analysis::CriticalPath* path_ = nullptr;
  std::vector<const analysis::PathSegment*> segments_;
};

}  // namespace

const TableKind critical_path_table = {
    "critical_path", path_columns,
    []() -> std::unique_ptr<Rows> { return std::make_unique<PathRows>(); }};

}  // namespace tessera::query
