// SPDX-License-Identifier: Apache-2.0
// Who holds the opened rank's memory at the highest moment of the view, at the moment that is
// pointed at in a panel beside it, or where memory was too small: then also what was asked for and
// what was free.
#pragma once

#include <optional>

#include "inspector/holders/memory_icicle.h"
#include "inspector/widgets/panel.h"
#include "tessera/analysis/memory_holders.h"
#include "tessera/analysis/memory_shortage.h"

namespace tessera::inspector {

class HoldersPanel final : public Panel {
 public:
  void draw(Surface& ui, TraceModel& model, ViewState& state, const Box& box) override;

 private:
  const RankMemory& find_memory(TraceModel& model, const ViewState& state);
  void find_out(TraceModel& model, const ViewState& state);
  bool fails_in(const ViewState& state, const RankMemory& memory) const;
  void find_shortage(TraceModel& model, const RankMemory& memory);
  float draw_head(Surface& ui, TraceModel& model, ViewState& state, const Box& box) const;
  float draw_classes(const Surface& ui, ViewState& state, const Box& box) const;
  float draw_holders(const Surface& ui, ViewState& state, const Box& box) const;

  analysis::MemoryMoment moment_;
  std::optional<analysis::HeldMemory> held_;  // of the samples `serial_`
  std::int64_t serial_ = 0;
  MemoryIcicle icicle_;
  const storage::MemoryShortageRow* shortage_ = nullptr;  // of the rank, in its model; or null
  std::size_t request_ = 0;                               // its sample
  bool sampled_ = true;   // the samples have the request; else it is the last one before
  bool fails_ = false;    // in view
  bool pointed_ = false;  // the moment is that under the mouse, elsewhere
  // The rank and the sample that they are of; -2: none yet.
  Rank rank_ = -1;
  std::ptrdiff_t sample_ = -2;
};

}  // namespace tessera::inspector
