// SPDX-License-Identifier: Apache-2.0
#include "query/step_rows.h"

#include <array>

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

/// Every `stride_`-th entry from `first_`: one rank's, one step's, or all.
class StepRows : public Rows {
 public:
  Status load(Source& source, Rank, const Wanted& wanted) override {
    TESSERA_ASSIGN(const analysis::Trace* trace, source.trace());
    steps_ = &trace->steps();
    const auto ranks = static_cast<std::size_t>(steps_->ranks);
    const auto has = [](std::optional<std::int32_t> number, std::int32_t count) {
      return !number || (*number >= 0 && *number < count);
    };
    count_ = 0;
    if (!has(wanted.rank, steps_->ranks) || !has(wanted.step, steps_->steps)) return {};
    first_ = ranks * static_cast<std::size_t>(wanted.step.value_or(0)) +
             static_cast<std::size_t>(wanted.rank.value_or(0));
    stride_ = wanted.rank ? ranks : 1;
    count_ =
        (wanted.rank ? 1 : ranks) * (wanted.step ? 1 : static_cast<std::size_t>(steps_->steps));
    return {};
  }
  std::size_t size() const override { return count_; }
  void value(std::size_t row, int column, Cell& cell) const override {
    const std::size_t i = first_ + row * stride_;
    const auto ranks = static_cast<std::size_t>(steps_->ranks);
    switch (column) {
      case 0: return cell.integer(static_cast<std::int64_t>(i / ranks));
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
  const storage::RankSteps* steps_ = nullptr;
  std::size_t first_ = 0, stride_ = 1, count_ = 0;
};

}  // namespace

const TableKind rank_step_table = {
    "rank_step", step_columns,
    []() -> std::unique_ptr<Rows> { return std::make_unique<StepRows>(); }, true};

}  // namespace tessera::query
