// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch.hpp>
#include <limits>
#include <nlohmann/json.hpp>

#include "cli/report/report.h"
#include "cli/report/table.h"

namespace tessera::cli {

TEST_CASE("numbers get separators", "[cli]") {
  CHECK(with_separators(0) == "0");
  CHECK(with_separators(999) == "999");
  CHECK(with_separators(1000) == "1,000");
  CHECK(with_separators(-1000) == "-1,000");
  CHECK(with_separators(-100) == "-100");
  CHECK(with_separators(8'030'261'248) == "8,030,261,248");
  CHECK(with_separators(std::numeric_limits<std::int64_t>::min()) == "-9,223,372,036,854,775,808");
}

TEST_CASE("tables align numbers right and count characters, not bytes", "[cli]") {
  Table table("Heading", {"name", "ms"});
  table.row({"\xc3\xa9t\xc3\xa9", "1"});
  table.row({"a", "1,000"});
  table.note("note");
  CHECK(table.text(false) ==
        "Heading\n"
        "  name     ms\n"
        "  \xc3\xa9t\xc3\xa9       1\n"
        "  a     1,000\n"
        "  note\n\n");
  CHECK(table.text(true).starts_with("\033[1mHeading\033[0m\n"));
}

TEST_CASE("long notes are broken at 100 columns", "[cli]") {
  Table table("Heading", {});
  std::string note;
  for (int i = 0; i < 40; ++i) note += "word ";
  table.note(note + std::string(120, 'x'));
  const std::string text = table.text(false);
  std::size_t at = 0;
  for (std::size_t end = 0; (end = text.find('\n', at)) != std::string::npos; at = end + 1) {
    const std::string line = text.substr(at, end - at);
    CHECK((line.size() <= 100 || line.find("xxx") != std::string::npos));
  }
}

TEST_CASE("an empty report is still a report", "[cli]") {
  const RunReport report;
  CHECK(report_text(report, {}, false).find("No step was completed.") != std::string::npos);
  const auto json = nlohmann::json::parse(report_json(report, {0, 5}));
  CHECK(json["mfu"].is_null());
  CHECK(json["ranks"].empty());
}

TEST_CASE("names that are not UTF-8 still give valid JSON", "[cli]") {
  RunReport report;
  report.run.name = "broken \xff";
  report.run.options = "not JSON";
  const auto json = nlohmann::json::parse(report_json(report, {}));
  CHECK(json["run"]["options"] == "not JSON");
}

}  // namespace tessera::cli
