// SPDX-License-Identifier: Apache-2.0
// What operations of a range come to, as rows.
#pragma once

#include <string>
#include <vector>

#include "inspector/model/view_state.h"
#include "inspector/render/surface.h"
#include "tessera/analysis/group_usage.h"

namespace tessera::inspector {

/// Draws `rows`, which are `by` something, from the top of `box`, all of them; returns where they
/// end. A click on one opens its costliest operation in the timeline.
float draw_usage_table(const Surface& ui, TraceModel& model, ViewState& state,
                       const std::vector<analysis::GroupUsage>& rows, analysis::UsageBy by,
                       const Box& box);

/// The same as CSV, with numbers in ns, bytes and bytes/s.
std::string usage_csv(const std::vector<analysis::GroupUsage>& rows);

/// A query of query.md's tables for such rows of `rank` in [from, to): the same sums, all
/// operations also by reason.
std::string usage_sql(analysis::UsageBy by, Rank rank, Time from, Time to);

/// The colour of collectives of a kind.
Colour colour_of_kind(const Surface& ui, OpKind kind);

}  // namespace tessera::inspector
