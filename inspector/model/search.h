// SPDX-License-Identifier: Apache-2.0
// Operations of a rank whose words fit, one after the other.
#pragma once

#include <compare>
#include <optional>
#include <string>

#include "inspector/model/trace_model.h"

namespace tessera::inspector {

/// Whether every word of `query`, which is in lower case, is in what is known of the op.
bool fits_op(const std::string& query, const storage::OpRow& op);

/// Operations in the order of their begins; of those that begin together, in the order of ids.
struct SearchPlace {
  Time begin = 0;
  std::int32_t op = -1;  // before all that begin then
  auto operator<=>(const SearchPlace&) const = default;
};

/// The first operation of `rank` that fits and comes after `from`, or with `direction` -1 the last
/// one before. Steps are searched one after the other, some hundreds at most; nothing if none has
/// one.
std::optional<SpanRef> next_match(TraceModel& model, Rank rank, const std::string& query,
                                  SearchPlace from, int direction);

}  // namespace tessera::inspector
