// SPDX-License-Identifier: Apache-2.0
// Where a row of an answer is in the timeline, by the names of its columns.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "inspector/model/view_state.h"
#include "query/query.h"

namespace tessera::inspector {

/// What a row says about its place; nothing: it has none.
struct RowPlace {
  std::optional<Rank> rank;              // column "rank"
  std::optional<std::int32_t> op, step;  // "op", "step"
  std::optional<Time> begin, end;        // "begin" or "time", "end"; "begin_ms" and the like
  bool any() const { return rank || op || step || begin || end; }
};

RowPlace place_of(const std::vector<std::string>& names, const std::vector<query::Value>& row);

/// Opens the timeline there. Returns why it cannot be shown, "" if it is: a rank that was not
/// recorded, an operation that the rank has not.
std::string show_place(TraceModel& model, ViewState& state, const RowPlace& place);

}  // namespace tessera::inspector
