// SPDX-License-Identifier: Apache-2.0
// One call that a Flight Recorder dump has.
#pragma once

#include <string>
#include <string_view>

#include "exchange/parse/tree.h"
#include "tessera/types.h"

namespace tessera::exchange {

/// One entry of a dump.
struct FlightEntry {
  std::string_view name, group, description;
  std::int64_t sequence = -1;  // of collectives; -1: it has none
  bool known_state = true;
  bool p2p = false, retired = false, completed = false;
  Time created = 0, started = 0, ended = 0, duration = 0;
  std::int64_t elements_in = 0, elements_out = 0;
  std::string_view dtype;
  TreeValue frames;

  explicit FlightEntry(TreeValue entry);
  std::string_view library() const { return name.substr(0, std::min(name.find(':'), name.size())); }
  /// NCCL retires what has timed out, too; gloo does not say when anything ended.
  bool finished() const { return completed || ended > 0 || (retired && library() == "gloo"); }
};

/// Of names. One text may be that of a thousand values.
std::string_view short_text(TreeValue value);

/// "all_gather" of "nccl:_all_gather_base", so that ranks are compared by what they mean.
std::string operation_of(std::string_view name);

}  // namespace tessera::exchange
