// SPDX-License-Identifier: Apache-2.0
// What panels say at first, and what one finds out by a click.
#include <filesystem>

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
