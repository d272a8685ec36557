// SPDX-License-Identifier: Apache-2.0
// Memory of recorded ranks as panels look at it: all of it, or of a long run what is in view.
#pragma once

#include <map>
#include <optional>
#include <utility>

#include "inspector/model/rank_data.h"
#include "inspector/model/view_window.h"

namespace tessera::inspector {

class RankMemories {
 public:
  /// `trace` must outlive it.
  RankMemories(const analysis::Trace& trace, ViewWindow window)
      : trace_(trace), window_(std::move(window)) {}

  /// What is in view from now on; references to others end here.
  void look_at(Time from, Time to);
  /// Forgets samples that no frame has shown for a while, where there are very many.
  void begin_frame();

  /// Loads the rank's memory on first use: of a long run around what is in view, and where very
  /// many samples are, their highest of each step.
  const RankMemory& of(Rank rank);
  /// Memory of `step` and its neighbours at least.
  const RankMemory& around(Rank rank, std::int32_t step);
  /// Why samples of a rank could not be read, once.
  std::optional<std::pair<Rank, Status>> take_problem();

 private:
  void load(Rank rank, Time from, Time to, RankMemory& memory);

  const analysis::Trace& trace_;
  ViewWindow window_;
  std::int64_t frame_ = 0, serial_ = 0;
  std::map<Rank, RankMemory> memories_;
  std::map<std::pair<Rank, std::int32_t>, RankMemory> around_;  // by step, the last few
  std::optional<std::pair<Rank, Status>> problem_;
};

}  // namespace tessera::inspector
