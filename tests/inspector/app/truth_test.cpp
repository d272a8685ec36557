// SPDX-License-Identifier: Apache-2.0
// Pictures that must not mislead: failures and damage are seen, waiting is not work, times stay.
#include <sqlite3.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <set>

#include "inspector/app/app.h"
#include "inspector/render/headless.h"
#include "tessera/inspector/inspector.h"
#include "tests/inspector/app/session.h"
#include "tests/inspector/golden.h"
#include "tests/inspector/made_trace.h"
#include "tests/temporary_folder.h"

namespace tessera::inspector {
namespace {

struct View {
  test::TemporaryFolder folder;
  std::string path = folder.path() + "/made.tessera";
  std::unique_ptr<App> app;
  Headless screen;

  explicit View(const MadeTrace& made, InspectOptions options = {}, bool damaged = false)
      : screen(1280, 720, options.theme.value_or(ThemeKind::dark), options.scale.value_or(1.0F)) {
    write_trace(made, path);
    if (damaged) damage(path);
    options.path = path;
    auto opened = App::open(options);
    INFO(opened.status().message());
    REQUIRE(opened.ok());
    app = std::move(opened).value();
    for (int k = 0; k < 3; ++k) screen.step([&](Surface& ui) { app->draw(ui); });
  }
  const std::string& field(const std::string& name) { return app->state().fields[name]; }
  const FrameBuffer& picture() {
    return screen.frame([&](Surface& ui) { app->draw(ui); });
  }
};

TEST_CASE("a run that failed opens at the failure, on the rank that failed, and says so",
          "[inspector][truth]") {
  constexpr Time moment = made_step + made_step / 3;
  View view({.ranks = 4, .steps = 5, .out_of_memory = moment});
  CHECK(view.app->state().rank == 1);
  CHECK(view.app->state().time.from() < moment);
  CHECK(view.app->state().time.to() > moment);
  CHECK(view.app->state().time.to() < 2 * made_step);
  CHECK(view.field("banner") == "rank 1 is out of memory in step 1");
  // Whoever asks for a range, or for another rank, gets it.
  View asked({.ranks = 4, .steps = 5, .out_of_memory = moment}, {.rank = 3});
  CHECK(asked.app->state().rank == 3);
}

TEST_CASE("the failure is said on the overview, too, and a click on it goes there",
          "[inspector][truth]") {
  View view({.ranks = 4, .steps = 5, .out_of_memory = made_step + 10}, {.panel = "overview"});
  CHECK(view.app->state().panel == "overview");
  const Box banner = view.app->state().widgets.at("banner");
  view.screen.move_mouse(banner.min.x + 40, banner.min.y + 8);
  view.screen.step([&](Surface& ui) { view.app->draw(ui); });
  view.screen.press_mouse();
  view.screen.step([&](Surface& ui) { view.app->draw(ui); });
  CHECK(view.app->state().panel == "all");
}

TEST_CASE("where memory was too small it is said why, and the map names what lies under the mouse",
          "[inspector][truth]") {
  constexpr Time moment = made_step + made_step / 3;
  View view({.ranks = 4, .steps = 5, .out_of_memory = moment}, {.panel = "holders"});
  auto& state = view.app->state();
  state.time.show(0, 5 * made_step);  // the request is in the next step
  view.screen.step([&](Surface& ui) { view.app->draw(ui); });
  CHECK(view.field("holders").find("Rank 1 had no room for buffer") == 0);
  CHECK(view.field("shortage/asked for") == "1.00 MiB");
  CHECK(view.field("shortage/free") == "1.50 MiB: 1 piece from 1.00 MiB");
  CHECK(view.field("shortage/largest for it") == "512 KiB");
  CHECK(view.field("shortage/kept for others") == "1.00 MiB of stream gather");
  const Box map = state.widgets.at("shortage/map");
  view.screen.move_mouse(map.min.x + map.width() / 2, map.min.y + 4);
  view.screen.step([&](Surface& ui) { view.app->draw(ui); });
  CHECK(view.field("shortage/block") == "buffer 3.00 MiB");
  // What lies elsewhere in time is not said of this view.
  state.time.show(4 * made_step, 5 * made_step);
  view.screen.step([&](Surface& ui) { view.app->draw(ui); });
  CHECK(view.field("holders").find("Rank 1 holds") == 0);
}

TEST_CASE("damage is named, never shown as emptiness", "[inspector][truth]") {
  View view({.ranks = 2, .steps = 3}, {}, true);
  CHECK(view.field("banner").find("rank") != std::string::npos);
  CHECK(view.field("banner").find("checksum") != std::string::npos);
  CHECK(view.app->model().problems().size() >= 2);
  View usage({.ranks = 2, .steps = 3}, {.panel = "communication"}, true);
  CHECK(usage.field("communication").find("checksum") != std::string::npos);
}

TEST_CASE("tables that were changed are named by the check that runs beside the first pictures",
          "[inspector][truth]") {
  test::TemporaryFolder folder;
  const std::string path = folder.path() + "/made.tessera";
  write_trace({.steps = 3}, path);
  sqlite3* database = nullptr;
  REQUIRE(sqlite3_open(path.c_str(), &database) == SQLITE_OK);
  CHECK(sqlite3_exec(database, "update op set bytes = bytes + 1 where id = 1", nullptr, nullptr,
                     nullptr) == SQLITE_OK);
  sqlite3_close(database);
  auto app = App::open({.path = path});
  REQUIRE(app.ok());
  CHECK((*app)->model().await_check().code() == Code::corrupt);
  REQUIRE_FALSE((*app)->model().problems().empty());
  CHECK((*app)->model().problems().front().text.find("damaged") != std::string::npos);
  const std::string picture = folder.path() + "/picture.png";
  CHECK(screenshot({.path = path}, picture).code() == Code::corrupt);
  CHECK_FALSE(std::filesystem::exists(picture));
}

TEST_CASE("each kind of collective has a colour and a name of its own", "[inspector][truth]") {
  std::set<OpClass> classes;
  const auto kinds = {OpKind::all_gather, OpKind::reduce_scatter, OpKind::all_reduce,
                      OpKind::reduce,     OpKind::broadcast,      OpKind::all_to_all};
  for (const OpKind kind : kinds) {
    storage::OpRow op;
    op.kind = kind;
    CHECK(classes.insert(class_of(op)).second);
    std::string name(name_of(kind));
    std::replace(name.begin(), name.end(), '_', '-');
    CHECK(name_of(class_of(op)) == name);
  }
}

TEST_CASE("a range that is not within the run is refused", "[inspector][truth]") {
  test::TemporaryFolder folder;
  const std::string path = folder.path() + "/made.tessera";
  write_trace({.steps = 3}, path);
  const auto message = [&](Time from, Time to) {
    return App::open({.path = path, .time = std::pair(from, to)}).status().message();
  };
  CHECK(message(10 * made_step, 11 * made_step) ==
        "the time range 10.000 to 11.000 ms is not within the run: " + path +
            " goes from 0 to 3.000 ms");
  CHECK_FALSE(message(made_step, 4 * made_step).empty());
  CHECK_FALSE(message(-made_step, made_step).empty());
  CHECK(message(made_step, 3 * made_step).empty());
}

TEST_CASE("waiting ranks stay fainter than the one they wait for, however far one zooms out",
          "[inspector][truth]") {
  View view({.ranks = 4, .steps = 400, .slow_rank = 2}, {.panel = "timeline"});
  // 400 steps on 1200 px: every bar is narrower than what gets a shape of its own.
  view.app->state().time.show(0, 400 * made_step);
  const FrameBuffer& picture = view.picture();
  const Colour ground = view.screen.surface().theme.panel;
  const auto brightness = [&](Rank rank) {
    const Box row = view.app->state().widgets.at("timeline/rank/" + std::to_string(rank));
    const auto light = [](Colour c) {
      return static_cast<std::int64_t>((c & 255) + (c >> 8 & 255) + (c >> 16 & 255));
    };
    // The lower half of the row is the lane of the collectives.
    std::int64_t sum = 0;
    const auto y = static_cast<std::size_t>(row.min.y + row.height() * 0.6F);
    for (std::size_t x = 200; x < 700; ++x) {
      sum += light(picture.pixels[y * static_cast<std::size_t>(picture.width) + x]) - light(ground);
    }
    return sum;
  };
  // All transfer for a twentieth of the time, the quick ranks wait for two thirds of it: shown as
  // work that would be four times as bright.
  CHECK(2 * brightness(0) < 5 * brightness(2));
  CHECK(view.field("legend/operations").find("waits for others") != std::string::npos);
}

TEST_CASE("thousands of steps do not cover the picture with their lines", "[inspector][truth]") {
  View view({.ranks = 1, .steps = 3000}, {.panel = "timeline"});
  view.app->state().time.show(0, 3000 * made_step);
  view.picture();
  CHECK(view.screen.vertex_count() < 15'000);
}

TEST_CASE("every class of memory has its entry or is part of a named rest", "[inspector][truth]") {
  for (const int classes : {3, 8, 12}) {
    for (const float scale : {1.0F, 2.0F}) {
      View view({.ranks = 2, .steps = 2, .memory_classes = classes}, {.scale = scale});
      const std::string& legend = view.field("legend/memory");
      if (!view.app->state().widgets.contains("details")) continue;  // no room for legends
      INFO(classes << " classes at scale " << scale << ": " << legend);
      auto entries = std::count(legend.begin(), legend.end(), ';') + 1;
      if (const auto more = legend.find("+ "); more != std::string::npos) {
        entries += std::stoi(legend.substr(more + 2)) - 1;
      }
      CHECK(entries == classes + 1);  // what is reserved and unused is one more
    }
  }
}

TEST_CASE("memory that is drawn, but not there at the peak, has its entry", "[inspector][truth]") {
  const std::string folder = std::string(TESSERA_SOURCE_DIR) + "/traces/";
  for (const char* const trace : {"scheme-zero3.tessera", "offload-nvme.tessera"}) {
    INFO(trace);
    Session session({.panel = "memory"}, 1280, 720, folder + trace);
    const std::string& legend = session.state().fields["legend/memory"];
    INFO(legend);
    CHECK(legend.find("unsharded gradients") != std::string::npos);
  }
}

TEST_CASE("a failure looks as accepted", "[inspector][truth][golden]") {
  View view({.ranks = 8, .steps = 5, .out_of_memory = made_step + made_step / 3});
  check_golden(view.picture(), "app_failure_dark");
}

}  // namespace
}  // namespace tessera::inspector
