// SPDX-License-Identifier: Apache-2.0
// What the program shows while no trace is open: examples, the traces opened last, a line for the
// name of another, and all keys.
#pragma once

#include <array>
#include <optional>
#include <span>
#include <string>

#include "inspector/app/recent_files.h"
#include "inspector/model/view_state.h"
#include "inspector/render/surface.h"

namespace tessera::inspector {

/// A trace of traces/, or two to be compared, and the panel that shows what it is for.
struct Example {
  const char* file;     // without ".tessera"
  const char* against;  // likewise; "": none
  const char* panel;
  const char* shows;
};
std::span<const Example> examples();

/// What somebody wants to see.
struct Wanted {
  std::string path, against, panel;
};

class StartPage {
 public:
  /// `traces`: the folder of the examples; those that are not there are left out.
  explicit StartPage(std::string traces) : traces_(std::move(traces)) {}

  /// One frame. `problem`: why the last one could not be opened; `back`: Esc leads somewhere.
  std::optional<Wanted> draw(Surface& ui, const RecentFiles& recent, const std::string& problem,
                             bool back);
  ViewState& state() { return state_; }

 private:
  std::optional<Wanted> draw_entry(Surface& ui, const std::string& problem);
  std::optional<Wanted> draw_examples(Surface& ui);
  std::optional<Wanted> draw_recent(Surface& ui, const RecentFiles& recent);
  bool draw_row(Surface& ui, const std::string& name, const std::string& shown,
                const std::string& about);
  std::string file_of(const char* example) const;

  std::string traces_;
  std::array<char, 4096> text_{};
  ViewState state_{.time = TimeView(0, 1, 1)};  // for the names of widgets
};

}  // namespace tessera::inspector
