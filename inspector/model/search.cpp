// SPDX-License-Identifier: Apache-2.0
#include "inspector/model/search.h"

#include <algorithm>
#include <cctype>

namespace tessera::inspector {
namespace {

constexpr std::int32_t steps_searched = 256;

std::string lower_case(std::string text) {
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

/// The nearest fitting span of `data` beyond `from`.
struct Nearest {
  std::optional<SpanRef> span;
  SearchPlace place;
};

void look_in(TraceModel& model, const RankData& data, std::int32_t step, Rank rank,
             const std::string& query, SearchPlace from, int direction, Nearest& nearest) {
  for (const LaneData& lane : data.lanes) {
    for (std::size_t i = 0; i < lane.spans.op.size(); ++i) {
      const SearchPlace place{lane.spans.begin[i], lane.spans.op[i]};
      const bool beyond = direction > 0 ? place > from : place < from;
      const bool nearer =
          !nearest.span || (direction > 0 ? place < nearest.place : place > nearest.place);
      if (!beyond || !nearer) continue;
      const storage::OpRow& op = model.op(lane.spans.op[i]);
      if ((model.is_long() && op.step != step) || !fits_op(query, op)) continue;
      nearest = {SpanRef{rank, lane.spans.stream, op.id}, place};
    }
  }
}

}  // namespace

bool fits_op(const std::string& query, const storage::OpRow& op) {
  const std::string in = lower_case(std::string(name_of(op.kind)) + " " + op.label + " " + op.unit +
                                    " " + op.module + " " + std::string(name_of(op.phase)));
  for (std::size_t at = 0; at < query.size();) {
    const std::size_t end = std::min(query.find(' ', at), query.size());
    if (in.find(query.substr(at, end - at)) == std::string::npos) return false;
    at = end + 1;
  }
  return true;
}

std::optional<SpanRef> next_match(TraceModel& model, Rank rank, const std::string& query,
                                  SearchPlace from, int direction) {
  Nearest nearest;
  const std::int32_t first = model.step_at(from.begin);
  if (!model.is_long()) {
    look_in(model, model.rank(rank), first, rank, query, from, direction, nearest);
    return nearest.span;
  }
  // Streams run ahead of steps: one more on either side may have the nearest.
  for (std::int32_t k = -1; k < steps_searched; ++k) {
    const std::int32_t step = first + direction * k;
    if (step < 0 || step > model.last_step()) continue;
    look_in(model, model.around(rank, step), step, rank, query, from, direction, nearest);
    if (nearest.span && k > 0) return nearest.span;
  }
  return nearest.span;
}

}  // namespace tessera::inspector
