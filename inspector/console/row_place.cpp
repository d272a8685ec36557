// SPDX-License-Identifier: Apache-2.0
#include "inspector/console/row_place.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string_view>

namespace tessera::inspector {
namespace {

// ns of a unit that ends a column's name, 1 without one.
double unit_of(std::string_view& name) {
  for (const auto& [ending, ns] :
       {std::pair<std::string_view, double>{"_ms", 1e6}, {"_us", 1e3}, {"_ns", 1}, {"_s", 1e9}}) {
    if (!name.ends_with(ending)) continue;
    name.remove_suffix(ending.size());
    return ns;
  }
  return 1;
}

template <class T>
void set_integer(std::optional<T>& field, double value) {
  const double least = 0, most = static_cast<double>(std::numeric_limits<T>::max());
  if (value >= least && value < most) field = static_cast<T>(value);
}

}  // namespace

RowPlace place_of(const std::vector<std::string>& names, const std::vector<query::Value>& row) {
  RowPlace place;
  for (std::size_t k = 0; k < names.size() && k < row.size(); ++k) {
    const auto* integer = std::get_if<std::int64_t>(&row[k]);
    const auto* real = std::get_if<double>(&row[k]);
    if (integer == nullptr && real == nullptr) continue;
    const double value = integer != nullptr ? static_cast<double>(*integer) : *real;
    std::string_view name = names[k];
    if (name == "rank") set_integer(place.rank, value);
    if (name == "op") set_integer(place.op, value);
    if (name == "step") set_integer(place.step, value);
    const double ns = unit_of(name);
    if (name == "begin" || name == "time") set_integer(place.begin, std::round(value * ns));
    if (name == "end" || name == "ended") set_integer(place.end, std::round(value * ns));
  }
  return place;
}

std::string show_place(TraceModel& model, ViewState& state, const RowPlace& place) {
  const Rank rank = place.rank.value_or(state.rank);
  if (!model.recorded(rank)) return fmt::format("No operations of rank {} were recorded.", rank);
  if (place.op) {
    const auto span = model.find(rank, *place.op);
    if (!span) return fmt::format("Rank {} has no operation {} in time.", rank, *place.op);
    state.selection = span;
    const analysis::SpanFacts facts = model.facts(*span);
    const Time around = std::max<Time>(4 * facts.duration, 1000);
    state.time.show(facts.begin - around, facts.begin + facts.duration + around);
  } else if (place.begin || place.end) {
    const Time begin = place.begin ? *place.begin : *place.end;
    const Time end = std::max(begin, place.end.value_or(begin));
    const auto [from, to] = model.step_range(model.step_at(begin));
    const Time around = end > begin ? (end - begin) / 4 : std::max<Time>((to - from) / 8, 1000);
    state.time.show(begin - around, end + around);
  } else if (place.step && *place.step <= model.last_step()) {
    state.step = *place.step;
    const auto [from, to] = model.step_range(*place.step);
    state.time.show(from, to);
  } else if (place.step) {
    return fmt::format("There is no step {}.", *place.step);
  }
  state.open_rank(rank);
  return "";
}

}  // namespace tessera::inspector
