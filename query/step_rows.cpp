// SPDX-License-Identifier: Apache-2.0
#include "query/step_rows.h"

#include <algorithm>
#include <array>
#include <memory>

namespace tessera::query {
namespace {

constexpr std::array step_columns = {ColumnKind{"step", "INTEGER", Bound::step},
                                     ColumnKind{"rank", "INTEGER", Bound::rank},
                                     ColumnKind{"begin", "INTEGER"},
                                     ColumnKind{"end", "INTEGER"},
                                     ColumnKind{"compute", "INTEGER"},
                                     ColumnKind{"communication", "INTEGER"},
                                     ColumnKind{"exposed", "INTEGER"},
                                     ColumnKind{"blocking", "INTEGER"},
                                     ColumnKind{"wait", "INTEGER"},
                                     ColumnKind{"peak_allocated", "INTEGER"},
                                     ColumnKind{"peak_reserved", "INTEGER"}};

/// Every `stride_`-th entry from `first_` of a part: one rank's, one step's, or all.
class StepRows : public Rows {
 public:
  Status load(Source& source, Rank part, const Wanted& wanted) override {
    TESSERA_ASSIGN(const analysis::Trace* trace, source.trace());
    count_ = 0;
    const std::int32_t ranks = trace->rank_count(), many = Source::steps_per_part(*trace);
    const std::int32_t begin = part * many, end = std::min(begin + many, trace->step_count());
    if (wanted.rank && (*wanted.rank < 0 || *wanted.rank >= ranks)) return {};
    if (wanted.step && (*wanted.step < begin || *wanted.step >= end)) return {};
    TESSERA_ASSIGN(steps_, source.steps_of_part(part));
    const auto all = static_cast<std::size_t>(ranks);
    first_ = all * static_cast<std::size_t>(wanted.step.value_or(begin) - begin) +
             static_cast<std::size_t>(wanted.rank.value_or(0));
    stride_ = wanted.rank ? all : 1;
    count_ = (wanted.rank ? 1 : all) * (wanted.step ? 1 : static_cast<std::size_t>(end - begin));
    return {};
  }
  std::size_t size() const override { return count_; }
  void value(std::size_t row, int column, Cell& cell) const override {
    const std::size_t i = first_ + row * stride_;
    const auto ranks = static_cast<std::size_t>(steps_->ranks);
    switch (column) {
      case 0: return cell.integer(steps_->step + static_cast<std::int64_t>(i / ranks));
      case 1: return cell.integer(static_cast<std::int64_t>(i % ranks));
      case 2: return cell.integer(steps_->begin[i]);
      case 3: return cell.integer(steps_->end[i]);
      case 4: return cell.integer(steps_->compute[i]);
      case 5: return cell.integer(steps_->communication[i]);
      case 6: return cell.integer(steps_->exposed[i]);
      case 7: return cell.integer(steps_->blocking[i]);
      case 8: return cell.integer(steps_->wait[i]);
      case 9: return cell.integer(steps_->peak_allocated[i].value);
      default: return cell.integer(steps_->peak_reserved[i].value);
    }
  }

 private:
  std::shared_ptr<const storage::RankSteps> steps_;
  std::size_t first_ = 0, stride_ = 1, count_ = 0;
};

std::int32_t parts_of(const analysis::Trace& trace) {
  const std::int32_t many = Source::steps_per_part(trace);
  return (trace.step_count() + many - 1) / many;
}

}  // namespace

constexpr Bound by_step[] = {Bound::step, Bound::rank};

const TableKind rank_step_table = {
    "rank_step", step_columns,
    []() -> std::unique_ptr<Rows> { return std::make_unique<StepRows>(); }, parts_of, by_step};

}  // namespace tessera::query
