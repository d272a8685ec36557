// SPDX-License-Identifier: Apache-2.0
// Rows of several files in the order of a key, a page of each in memory.
#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <utility>
#include <vector>

#include "exchange/merge/merge_sources.h"

namespace tessera::exchange {

/// `Key`: of a row, ascending in each file.
template <class Row, class Key>
class MergePages {
 public:
  /// The first `most` rows of a file behind the row of `last`, from the first on if it is null.
  using Fetch = std::function<Result<std::vector<Row>>(const storage::TraceReader& reader,
                                                       const Row* last, std::int32_t most)>;

  MergePages(const MergeSources& all, Key key, Fetch fetch)
      : all_(all), key_(std::move(key)), fetch_(std::move(fetch)), pages_(all.sources.size()) {
    constexpr std::size_t rows_min = 16, rows_max = 8192, rows_of_all = 65536;
    most_ = static_cast<std::int32_t>(
        std::clamp(rows_of_all / std::max<std::size_t>(pages_.size(), 1), rows_min, rows_max));
  }

  /// Sources that have the least key that is left, ascending, with their rows; empty at the end.
  /// Rows are valid until the next call.
  Result<std::vector<std::pair<std::size_t, const Row*>>> next() {
    std::vector<std::pair<std::size_t, const Row*>> least;
    for (std::size_t s = 0; s < pages_.size(); ++s) {
      TESSERA_ASSIGN(const Row* const row, look(s));
      if (row == nullptr) continue;
      if (!least.empty() && key_(*row) < key_(*least.front().second)) least.clear();
      if (least.empty() || key_(*row) == key_(*least.front().second)) least.emplace_back(s, row);
    }
    for (const auto& [s, row] : least) ++pages_[s].at;
    return least;
  }

 private:
  struct Page {
    std::vector<Row> rows;
    std::size_t at = 0;
    bool last = false;
  };

  Result<const Row*> look(std::size_t source) {
    Page& page = pages_[source];
    if (page.at == page.rows.size() && !page.last) {
      const Row* const before = page.rows.empty() ? nullptr : &page.rows.back();
      TESSERA_ASSIGN(std::vector<Row> more, fetch_(all_.sources[source].reader, before, most_));
      page.last = std::ssize(more) < most_;
      page.rows = std::move(more);
      page.at = 0;
    }
    return page.at < page.rows.size() ? &page.rows[page.at] : nullptr;
  }

  const MergeSources& all_;
  const Key key_;
  const Fetch fetch_;
  std::vector<Page> pages_;  // by source
  std::int32_t most_ = 0;
};

}  // namespace tessera::exchange
