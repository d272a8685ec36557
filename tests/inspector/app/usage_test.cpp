// SPDX-License-Identifier: Apache-2.0
// What panels say at first, and what one finds out by a click.
#include <filesystem>

#include "query/query.h"
#include "query/text.h"
#include "tests/inspector/app/session.h"
#include "tests/inspector/made_trace.h"
#include "tests/temporary_folder.h"

namespace tessera::inspector {
namespace {

TEST_CASE("communication is of the step in view, by group, by unit or of all operations",
          "[inspector][app][communication]") {
  Session session({.panel = "communication"});
  auto& fields = session.state().fields;
  const auto [from, to] = std::pair(session.state().time.from(), session.state().time.to());
  // More than what is in view: that is the turn from forward to backward, where nothing is exposed.
  CHECK(fields.at("communication/0") == "reduce_scatter 412 µs exposed, 283 GB/s");
  session.click("communication/view");
  CHECK(fields.at("communication/0") == "reduce_scatter 0 ns exposed, 283 GB/s");
  session.click("communication/run");
  session.click("communication/by unit");
  CHECK(fields.at("communication/0").starts_with("root "));
  CHECK(fields.contains("communication/25"));
  session.click("communication/by operation");
  CHECK(fields.at("communication/0").starts_with("backward compute "));
  std::string copied;
  session.click("communication/copy");
  session.screen.step([&](Surface& ui) {
    session.app->draw(ui);
    copied = ImGui::GetClipboardText();
  });
  CHECK(copied.starts_with("name,kind,group,group_size,algorithm,count,bytes,duration,"));
  CHECK(copied.find("\nbackward compute,compute,") != std::string::npos);
  CHECK(std::pair(session.state().time.from(), session.state().time.to()) == std::pair(from, to));
  session.click("communication/0");
  CHECK(session.state().panel == "all");
  REQUIRE(session.state().selection);
  CHECK(session.app->model().op(session.state().selection->op).phase == Phase::backward);
}

std::string copied_by(Session& session, const std::string& button) {
  session.click(button);
  std::string copied;
  session.screen.step([&](Surface& ui) {
    session.app->draw(ui);
    copied = ImGui::GetClipboardText();
  });
  return copied;
}

std::vector<std::string> first_row(const std::string& sql) {
  auto query = query::Query::open(bundled_trace);
  REQUIRE(query.ok());
  std::vector<std::string> first;
  const auto status = query->run(sql, {.columns = [](const auto&) {},
                                       .row =
                                           [&](const std::vector<query::Value>& row) {
                                             if (!first.empty()) return;
                                             for (const auto& v : row)
                                               first.push_back(query::text_of(v));
                                           }});
  INFO(sql << status.message());
  REQUIRE(status.ok());
  return first;
}

TEST_CASE("a query that was copied has the figures of the panel",
          "[inspector][app][communication]") {
  Session session({.panel = "communication"});
  session.click("communication/run");
  for (const char* by : {"communication/by group", "communication/by unit"}) {
    session.click(by);
    const std::vector<std::string> row = first_row(copied_by(session, "communication/copy sql"));
    const std::string csv = copied_by(session, "communication/copy");
    REQUIRE(row.size() > 5);
    std::string sums;  // bytes, duration, wait, transfer, exposed
    for (auto cell = row.end() - 5; cell != row.end(); ++cell) sums += "," + *cell;
    INFO(csv << "has no " << sums);
    CHECK(csv.find(sums + ",") != std::string::npos);
  }
  session.click("communication/by operation");
  CHECK_FALSE(first_row(copied_by(session, "communication/copy sql")).empty());
  session.click("communication/0");
  REQUIRE(session.state().selection);
  std::string copied;
  session.screen.step([&](Surface& ui) {
    session.app->take_along().copy_sql(session.state());
    session.app->draw(ui);
    copied = ImGui::GetClipboardText();
  });
  CHECK(first_row(copied).at(1) == std::to_string(session.state().selection->op));
}

TEST_CASE("rates of a simulated run stand beside what links carry",
          "[inspector][app][communication]") {
  Session session({.panel = "communication"}, 1280, 720,
                  std::string(TESSERA_SOURCE_DIR) + "/traces/straggler-16384.tessera");
  const std::string row = session.state().fields.at("communication/0");
  CHECK(row == "all_gather 1.61 s exposed, 3.37 GB/s of 400 GB/s");
}

TEST_CASE("ranks that behave alike are classes", "[inspector][app]") {
  Session session({.panel = "overview"}, 1280, 720,
                  std::string(TESSERA_SOURCE_DIR) + "/traces/straggler-16384.tessera");
  const auto& fields = session.state().fields;
  CHECK(fields.at("overview/class/0") == "16,383 ranks: as usual");
  CHECK(fields.at("overview/class/1").starts_with("rank 5120: computes longer"));
}

TEST_CASE("the overview names what is wrong, and a click says more", "[inspector][app]") {
  Session session({.panel = "overview"});
  CHECK(session.state().fields.at("overview/finding/0") ==
        "Rank 5 computes 24.1 % longer than usual");
  session.click("overview/finding/0");
  CHECK(session.state().panel == "findings");
}

TEST_CASE("tabs that have no room are a list", "[inspector][app]") {
  Session session({}, 400, 700);
  CHECK_FALSE(session.state().widgets.contains("tab/model"));
  session.click("tabs");
  session.click("tab/model");
  CHECK(session.state().panel == "model");
  const Box help = session.state().widgets.at("help");
  CHECK(help.max.x <= 400);
}

TEST_CASE("ranks stay in view below what is said of an operation", "[inspector][app]") {
  Session session({}, 1920, 1080,
                  std::string(TESSERA_SOURCE_DIR) + "/traces/straggler-16384.tessera");
  REQUIRE(session.state().selection);
  const Box details = session.state().widgets.at("details"),
            grid = session.state().widgets.at("grid");
  CHECK(grid.max.y <= details.max.y);
  CHECK(grid.min.y > details.min.y);
}

TEST_CASE("a request that no sample has is shown all the same", "[inspector][app][truth]") {
  const test::TemporaryFolder folder;
  const std::string path = folder.path() + "/other.tessera";
  std::filesystem::copy_file(std::string(TESSERA_SOURCE_DIR) + "/traces/out-of-memory.tessera",
                             path);
  change(path, "update memory_shortage set capacity = 1000000000000000");
  Session session({.panel = "holders"}, 1280, 1000, path);
  CHECK(session.state().fields.at("holders").starts_with("Rank 0 had no room for "));
  CHECK(session.state().fields.at("holders/unsampled").find("do not have this request") !=
        std::string::npos);
  CHECK(session.state().fields.at("shortage/asked for") == "418 MiB");
}

}  // namespace
}  // namespace tessera::inspector
