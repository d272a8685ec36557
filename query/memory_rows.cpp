// SPDX-License-Identifier: Apache-2.0
#include "query/memory_rows.h"

#include <array>
#include <limits>

namespace tessera::query {
namespace {

constexpr std::array sample_columns = {ColumnKind{"rank", "INTEGER", Bound::rank},
                                       ColumnKind{"time", "INTEGER", Bound::time},
                                       ColumnKind{"buffer", "INTEGER"},
                                       ColumnKind{"name", "TEXT"},
                                       ColumnKind{"unit", "TEXT"},
                                       ColumnKind{"memory_class", "TEXT"},
                                       ColumnKind{"delta", "INTEGER"},
                                       ColumnKind{"allocated", "INTEGER"},
                                       ColumnKind{"reserved", "INTEGER"}};

class SampleRows : public Rows {
 public:
  Status load(Source& source, Rank rank, const Wanted& wanted) override {
    TESSERA_ASSIGN(const analysis::Trace* trace, source.trace());
    source_ = &source;
    TESSERA_ASSIGN(series_, trace->reader().memory(rank));
    wanted_.clear();
    for (std::size_t i = 0; i < series_.time.size(); ++i) {
      if (series_.time[i] >= wanted.from && series_.time[i] < wanted.to) wanted_.push_back(i);
    }
    return {};
  }
  std::size_t size() const override { return wanted_.size(); }
  void value(std::size_t row, int column, Cell& cell) const override {
    const std::size_t i = wanted_[row];
    switch (column) {
      case 0: return cell.integer(series_.rank);
      case 1: return cell.integer(series_.time[i]);
      case 2: return cell.integer(series_.buffer[i]);
      case 3: return cell.text(source_->buffer(series_.buffer[i]).name);
      case 4: return cell.text(source_->buffer(series_.buffer[i]).unit);
      case 5: return cell.text(name_of(series_.memory_class[i]));
      case 6: return cell.integer(series_.delta[i].value);
      case 7: return cell.integer(series_.allocated[i].value);
      default: return cell.integer(series_.reserved[i].value);
    }
  }

 private:
  const Source* source_ = nullptr;
  storage::MemorySeries series_;
  std::vector<std::size_t> wanted_;
};

constexpr std::array allocation_columns = {ColumnKind{"rank", "INTEGER", Bound::rank},
                                           ColumnKind{"buffer", "INTEGER"},
                                           ColumnKind{"name", "TEXT"},
                                           ColumnKind{"unit", "TEXT"},
                                           ColumnKind{"memory_class", "TEXT"},
                                           ColumnKind{"bytes", "INTEGER"},
                                           ColumnKind{"begin", "INTEGER", Bound::begin},
                                           ColumnKind{"end", "INTEGER"}};

struct Allocation {
  std::int32_t buffer = 0;
  MemoryClass memory_class = MemoryClass::temporary;
  std::int64_t bytes = 0;
  Time begin = 0;
  std::optional<Time> end;
};

class AllocationRows : public Rows {
 public:
  Status load(Source& source, Rank rank, const Wanted& wanted) override {
    TESSERA_ASSIGN(const analysis::Trace* trace, source.trace());
    source_ = &source;
    rank_ = rank;
    TESSERA_ASSIGN(const storage::MemorySeries series, trace->reader().memory(rank));
    rows_.clear();
    std::map<std::int32_t, std::vector<std::size_t>> held;  // places in rows_, by buffer
    for (std::size_t i = 0; i < series.time.size(); ++i) {
      std::vector<std::size_t>& of_buffer = held[series.buffer[i]];
      if (series.delta[i].value >= 0) {
        if (series.delta[i].value > 0) of_buffer.push_back(rows_.size());
        if (series.delta[i].value > 0) {
          rows_.push_back({series.buffer[i],
                           series.memory_class[i],
                           series.delta[i].value,
                           series.time[i],
                           {}});
        }
        continue;
      }
      if (of_buffer.empty()) continue;
      rows_[of_buffer.back()].end = series.time[i];
      of_buffer.pop_back();
    }
    std::erase_if(rows_, [&](const Allocation& row) { return row.begin >= wanted.to; });
    return {};
  }
  std::size_t size() const override { return rows_.size(); }
  void value(std::size_t row, int column, Cell& cell) const override {
    const Allocation& from = rows_[row];
    switch (column) {
      case 0: return cell.integer(rank_);
      case 1: return cell.integer(from.buffer);
      case 2: return cell.text(source_->buffer(from.buffer).name);
      case 3: return cell.text(source_->buffer(from.buffer).unit);
      case 4: return cell.text(name_of(from.memory_class));
      case 5: return cell.integer(from.bytes);
      case 6: return cell.integer(from.begin);
      default: return from.end ? cell.integer(*from.end) : cell.nothing();
    }
  }

 private:
  const Source* source_ = nullptr;
  Rank rank_ = 0;
  std::vector<Allocation> rows_;
};

}  // namespace

const TableKind memory_sample_table = {"memory_sample", sample_columns,
                                       [] { return std::unique_ptr<Rows>(new SampleRows); }};
const TableKind allocation_table = {"allocation", allocation_columns,
                                    [] { return std::unique_ptr<Rows>(new AllocationRows); }};

}  // namespace tessera::query
