// SPDX-License-Identifier: Apache-2.0
// The panels that can fill the window: one row each, from which options, tabs, keys and help
// follow.
#pragma once

#include <memory>
#include <span>
#include <string_view>

#include "inspector/widgets/panel.h"

namespace tessera::inspector {

struct PanelRow {
  const char* name;  // of `InspectOptions::panel`
  char key;          // opens it; 0: none
  const char* title;
  const char* tab;   // title of the tab it belongs to; the first row of a tab is what a click opens
  bool needs_spans;  // without a recorded rank there is nothing to see
  std::unique_ptr<Panel> (*make)();
};

/// In the order of the tabs.
std::span<const PanelRow> panel_rows();
/// nullptr: there is none of that name.
const PanelRow* find_panel(std::string_view name);

}  // namespace tessera::inspector
