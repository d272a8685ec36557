// SPDX-License-Identifier: Apache-2.0
// The tour of docs/tour.md: each question is asked by the clicks that it names, and what is then
// shown is what the page says.
#include <fstream>
#include <sstream>

#include "inspector/app/panels.h"
#include "tests/inspector/app/start.h"
#include "tests/inspector/golden.h"

namespace tessera::inspector {
namespace {

struct Stop {
  std::string question, trace, against;
  std::vector<std::string> clicks;  // names of widgets
  std::string field, shown;
};

std::string trimmed(const std::string& text) {
  const std::size_t begin = text.find_first_not_of(' ');
  return begin == std::string::npos ? ""
                                    : text.substr(begin, text.find_last_not_of(' ') - begin + 1);
}

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::stringstream stream(text);
  for (std::string part; std::getline(stream, part, separator);) parts.push_back(trimmed(part));
  return parts;
}

// "**Model**": the tab of that title; "`model/h.3`": the widget.
std::string widget_of(const std::string& click) {
  if (click.starts_with("`")) return click.substr(1, click.size() - 2);
  const std::string title = click.substr(2, click.size() - 4);
  for (const PanelRow& row : panel_rows()) {
    if (row.tab == title) return std::string("tab/") + row.name;
  }
  return "no tab " + title;
}

std::vector<Stop> read_tour() {
  std::ifstream file(std::string(TESSERA_SOURCE_DIR) + "/docs/tour.md");
  std::vector<Stop> stops;
  for (std::string line; std::getline(file, line);) {
    const std::vector<std::string> cells = split(line, '|');
    if (cells.size() < 5 || cells[1] == "question" || cells[1] == "---") continue;
    Stop stop{.question = cells[1], .trace = cells[2]};
    if (const auto at = stop.trace.find(" against "); at != std::string::npos) {
      stop.against = stop.trace.substr(at + 9);
      stop.trace.resize(at);
    }
    for (const std::string& click : split(cells[3], ',')) stop.clicks.push_back(widget_of(click));
    const std::size_t end = cells[4].find("`: ");
    REQUIRE(end != std::string::npos);
    stop.field = cells[4].substr(1, end - 1);
    stop.shown = cells[4].substr(end + 3);
    stops.push_back(std::move(stop));
  }
  return stops;
}

std::string bundled(const std::string& name) {
  return name.empty() ? "" : std::string(TESSERA_SOURCE_DIR) + "/traces/" + name + ".tessera";
}

TEST_CASE("every question of the tour is answered in three clicks at most from the first page",
          "[inspector][app][tour]") {
  const std::vector<Stop> stops = read_tour();
  CHECK(stops.size() >= 20);
  for (const Stop& stop : stops) {
    INFO(stop.question);
    CHECK(1 + stop.clicks.size() <= 3);  // the first one opens the trace
    Start start({}, 1920, 1080);
    start.click("start/example/" + stop.trace + (stop.against.empty() ? "" : "/" + stop.against));
    REQUIRE(start.shell->app() != nullptr);
    for (const std::string& widget : stop.clicks) start.click(widget);
    auto& fields = start.state().fields;
    INFO(stop.field);
    CHECK(fields.contains(stop.field));
    CHECK_THAT(fields[stop.field], Catch::Matchers::Contains(stop.shown));
  }
}

TEST_CASE("a run that had no room says for what", "[inspector][app][tour][golden]") {
  Session session({.panel = "holders"}, 1200, 675, bundled("out-of-memory"));
  check_golden(session.picture(), "tour_out_of_memory_dark");
}

}  // namespace
}  // namespace tessera::inspector
