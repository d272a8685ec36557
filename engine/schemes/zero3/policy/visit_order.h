// SPDX-License-Identifier: Apache-2.0
// The order in which a pass visits modules, and when each parameter is used next.
#pragma once

#include <limits>
#include <vector>

#include "tessera/model.h"

namespace tessera {

/// A module begins its work.
struct Visit {
  enum class Kind : std::uint8_t { forward, backward, recompute };
  ModuleId module;
  Kind kind = Kind::forward;
  bool operator==(const Visit&) const = default;
};

using Visits = std::vector<Visit>;

/// The visits of one pass by a host program that walks `Model::forward`, before it has done so
/// once: with `backward` both directions, with `recomputes` blocks run again in backward.
Visits expected_visits(const Model& model, bool backward, bool recomputes);

/// Places of visits at which a parameter is needed.
class UseTable {
 public:
  static constexpr std::int32_t never = std::numeric_limits<std::int32_t>::max();
  /// By ModuleId.
  using Needs = std::vector<std::vector<ParameterId>>;

  void build(const Visits& visits, const Needs& needs, std::size_t parameters);
  /// The first visit from `place` on that needs it, or never.
  std::int32_t next(ParameterId parameter, std::int32_t place) const;

 private:
  std::vector<std::vector<std::int32_t>> places_;  // by ParameterId, ascending
};

}  // namespace tessera
