// SPDX-License-Identifier: Apache-2.0
#include "inspector/app/panels.h"

#include "inspector/app/timeline_page.h"
#include "inspector/communication/communication_panel.h"
#include "inspector/compare/compare_panel.h"
#include "inspector/console/console_panel.h"
#include "inspector/findings/findings_panel.h"
#include "inspector/holders/holders_panel.h"
#include "inspector/modules/model_panel.h"
#include "inspector/path/path_panel.h"
#include "inspector/ranks/overview_panel.h"
#include "tessera/inspector/inspector.h"

namespace tessera::inspector {
namespace {

constexpr TimelineParts both{.timeline = true, .memory = true};
constexpr TimelineParts only_timeline{.timeline = true, .memory = false};
constexpr TimelineParts only_memory{.timeline = false, .memory = true};

template <class P, auto... arguments>
std::unique_ptr<Panel> make() {
  return std::make_unique<P>(arguments...);
}

constexpr PanelRow panel_table[] = {
    {"overview", '1', "Overview", "Overview", false, make<OverviewPanel>},
    {"all", '2', "Timeline", "Timeline", true, make<TimelinePage, both>},
    {"timeline", 0, "Operations", "Timeline", true, make<TimelinePage, only_timeline>},
    {"memory", 0, "Memory", "Timeline", true, make<TimelinePage, only_memory>},
    {"communication", '3', "Communication", "Communication", true, make<CommunicationPanel>},
    {"findings", '4', "Findings", "Findings", false, make<FindingsPanel>},
    {"path", '5', "Critical path", "Critical path", true, make<PathPanel>},
    {"compare", '6', "Compare", "Compare", true, make<ComparePanel>},
    {"holders", '7', "Holders", "Holders", true, make<HoldersPanel>},
    {"model", '8', "Model", "Model", true, make<ModelPanel>},
    {"query", '9', "Query", "Query", false, make<ConsolePanel>},
};

}  // namespace

std::span<const PanelRow> panel_rows() { return panel_table; }

const PanelRow* find_panel(std::string_view name) {
  for (const PanelRow& row : panel_table) {
    if (row.name == name) return &row;
  }
  return nullptr;
}

std::vector<std::string> panel_names() {
  std::vector<std::string> names;
  for (const PanelRow& row : panel_table) names.emplace_back(row.name);
  return names;
}

}  // namespace tessera::inspector
