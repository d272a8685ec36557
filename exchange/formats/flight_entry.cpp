// SPDX-License-Identifier: Apache-2.0
#include "exchange/formats/flight_entry.h"

#include <algorithm>

#include "exchange/import/torch_collectives.h"

namespace tessera::exchange {
namespace {

/// Of all tensors together.
std::int64_t flight_elements(TreeValue sizes) {
  constexpr std::int64_t most = std::int64_t{1} << 46;
  std::int64_t sum = 0;
  for (TreeItems tensors(sizes); tensors.next();) {
    std::int64_t elements = 1;
    for (TreeItems dimensions(tensors.value()); dimensions.next();) {
      const std::int64_t size = std::clamp<std::int64_t>(dimensions.value().integer(), 0, most);
      elements = size > 0 && elements > most / size ? most : elements * size;
    }
    sum = std::min(sum + elements, most);
  }
  return sum;
}

std::string_view first_text(TreeValue list) {
  TreeItems items(list);
  return items.next() ? short_text(items.value()) : std::string_view();
}

Time flight_time(TreeValue value) { return std::clamp<Time>(value.integer(), 0, Time{1} << 61); }

}  // namespace

std::string_view short_text(TreeValue value) {
  constexpr std::size_t longest = 200;
  return value.text().substr(0, longest);
}

std::string operation_of(std::string_view name) {
  name = name.substr(name.find(':') + 1);
  if (const auto kind = collective_kind(name); kind &&
                                               name.find("coalesced") == std::string_view::npos &&
                                               name.find("barrier") == std::string_view::npos) {
    return std::string(name_of(*kind));
  }
  return std::string(name.substr(0, 80));
}

FlightEntry::FlightEntry(TreeValue entry) {
  constexpr double ns_per_ms = 1e6;
  for (TreeItems fields(entry); fields.next();) {
    const std::string_view key = fields.key().text();
    const TreeValue value = fields.value();
    if (key == "profiling_name") name = short_text(value);
    if (key == "collective_seq_id" && !p2p) sequence = value.integer();
    if (key == "seq_id" && sequence < 0) sequence = value.integer();  // before PyTorch 2.3
    if (key == "is_p2p") p2p = value.integer() != 0;
    if (key == "retired") retired = value.integer() != 0;
    if (key == "state") {
      const std::string_view state = value.text();
      completed = state == "completed";
      known_state = completed || state == "scheduled" || state == "started";
    }
    if (key == "time_created_ns") created = flight_time(value);
    if (key == "time_discovered_started_ns") started = flight_time(value);
    if (key == "time_discovered_completed_ns") ended = flight_time(value);
    if (key == "duration_ms")
      duration = static_cast<Time>(std::clamp(value.real(), 0.0, 1e9) * ns_per_ms);
    if (key == "input_sizes") elements_in = flight_elements(value);
    if (key == "output_sizes") elements_out = flight_elements(value);
    if (key == "input_dtypes") dtype = first_text(value);
    if (key == "frames") frames = value;
    if (key != "process_group") continue;
    TreeItems names(value);
    if (names.next()) group = short_text(names.value());
    if (names.next()) description = short_text(names.value());
  }
}

}  // namespace tessera::exchange
