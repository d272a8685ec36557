// SPDX-License-Identifier: Apache-2.0
// The program driven by scripted input, without a window: what keys and mouse do.
#include <fstream>
#include <iterator>
#include <set>

#include "inspector/app/commands.h"
#include "inspector/app/panels.h"
#include "tests/inspector/app/session.h"

namespace tessera::inspector {
namespace {

const std::string traces_folder = std::string(TESSERA_SOURCE_DIR) + "/traces/";

TEST_CASE("the inspector opens on the slowest rank with a prefetch selected", "[inspector][app]") {
  Session session;
  CHECK(session.state().rank == 5);
  REQUIRE(session.state().selection);
  TraceModel& model = session.app->model();
  const SpanRef& span = *session.state().selection;
  const auto& op = model.op(span.op);
  CHECK(op.kind == OpKind::all_gather);
  CHECK(op.reason == Reason::backward_prefetch);
  const auto use = analysis::prefetch_use(model, model.rank(span.rank).compute, op);
  REQUIRE(use);
  CHECK(use->units == 1);
  const SpanTimes times = model.times(span);
  CHECK(use->issued <= times.begin);
  CHECK(use->used >= times.end);
  CHECK(use->idle <= use->used);
}

TEST_CASE("all ranks are shown in full where there is room, and otherwise the chosen one",
          "[inspector][app]") {
  const auto heights = [](int screen_height) {
    Session session({}, 1280, screen_height);
    std::vector<float> all;
    for (const Rank rank : {5, 6}) {
      all.push_back(session.state().widgets.at("timeline/rank/" + std::to_string(rank)).height());
    }
    return all;
  };
  const auto small = heights(720);
  CHECK(small[0] > small[1]);
  const auto large = heights(1600);
  CHECK(large[0] >= small[0]);
  CHECK(large[1] == large[0]);
}

TEST_CASE("issue and first use of every prefetch in view are marked at once", "[inspector][app]") {
  Session session({.panel = "timeline"}, 1920, 1080, traces_folder + "scheme-full_shard.tessera");
  CHECK_THAT(session.state().fields["legend/operations"],
             Catch::Contains("prefetch: issued, first used"));
  // Nothing is gathered ahead of its use.
  Session none({.panel = "timeline"}, 1920, 1080, traces_folder + "scheme-replicate.tessera");
  CHECK_THAT(none.state().fields["legend/operations"], !Catch::Contains("prefetch"));
}

TEST_CASE("what rows of few ranks leave is for the memory of each", "[inspector][app]") {
  const std::string trace = traces_folder + "scheme-fully_shard.tessera";
  Session roomy({.panel = "timeline"}, 1920, 1080, trace);
  for (const char* rank : {"0", "1"}) {
    CHECK(roomy.state().fields[std::string("timeline/memory/") + rank] == "3.77 GiB");
  }
  CHECK_THAT(roomy.state().fields["legend/operations"], Catch::Contains("optimizer state"));
  const Box rows = roomy.state().widgets["timeline/rows"];
  const Box last = roomy.state().widgets["timeline/rank/1"];
  CHECK(last.max.y <= rows.max.y + 1);
  CHECK(last.max.y > rows.min.y + 0.8F * rows.height());
  Session full({.panel = "timeline"}, 1920, 1080, traces_folder + "out-of-memory.tessera");
  CHECK_THAT(full.state().fields["legend/operations"], Catch::Contains("capacity"));
  // Where memory has a part of its own there is no room, nor where there are many ranks.
  Session beside({.panel = "all"}, 1920, 1080, trace);
  CHECK_FALSE(beside.state().fields.contains("timeline/memory/0"));
  Session small({.panel = "timeline"}, 1280, 420, trace);
  CHECK_FALSE(small.state().fields.contains("timeline/memory/0"));
}

TEST_CASE("the wheel zooms at the cursor and W, S zoom, A, D pan", "[inspector][app]") {
  Session session;
  const Box rows = session.state().widgets["timeline/rows"];
  session.screen.move_mouse(rows.min.x + 300, rows.min.y + 40);
  session.steps(2);
  REQUIRE(session.state().cursor);
  const Time under = *session.state().cursor;
  const Time length = session.state().time.to() - session.state().time.from();
  session.screen.turn_wheel(2);
  session.steps(2);
  const Time closer = session.state().time.to() - session.state().time.from();
  CHECK(closer < length);
  CHECK(std::abs(*session.state().cursor - under) < length / 500);
  session.press(GLFW_KEY_S);
  CHECK(session.state().time.to() - session.state().time.from() > closer);
  const Time from = session.state().time.from();
  session.press(GLFW_KEY_D);
  CHECK(session.state().time.from() > from);
  session.press(GLFW_KEY_HOME);
  CHECK(session.state().time.from() <= 0);
  CHECK(session.state().time.to() >= session.app->model().info().end);
}

TEST_CASE("dragging pans and does not select", "[inspector][app]") {
  Session session;
  const Box rows = session.state().widgets["timeline/rows"];
  const auto selected = session.state().selection;
  const Time from = session.state().time.from();
  session.screen.move_mouse(rows.min.x + 500, rows.min.y + 60);
  session.steps(1);
  session.screen.press_mouse();
  session.steps(1);
  session.screen.move_mouse(rows.min.x + 400, rows.min.y + 60);
  session.steps(2);
  session.screen.release_mouse();
  session.steps(2);
  CHECK(session.state().time.from() > from);
  CHECK(session.state().selection == selected);
}

TEST_CASE("tabs, metrics and ranks are chosen by clicks", "[inspector][app]") {
  Session session;
  session.click("tab/overview");
  CHECK(session.state().panel == "overview");
  session.click("metric/3");
  CHECK(session.state().metric == analysis::Metric::wait);
  session.click("tab/all");
  CHECK(session.state().panel == "all");
  session.click("timeline/rank/6");
  CHECK(session.state().rank == 6);
}

TEST_CASE("arrows step through ranks and spans, the same op stays selected", "[inspector][app]") {
  Session session;
  auto op = [&] {
    const SpanRef& span = *session.state().selection;
    return span.op;
  };
  const std::int32_t before = op();
  session.press(GLFW_KEY_DOWN);
  CHECK(session.state().rank == 6);
  CHECK(session.state().selection->rank == 6);
  CHECK(op() == before);
  session.press(GLFW_KEY_RIGHT);
  CHECK(op() > before);
  session.press(GLFW_KEY_ESCAPE);
  CHECK_FALSE(session.state().selection);
}

TEST_CASE("F frames the selection, a second F the step", "[inspector][app]") {
  Session session;
  TraceModel& model = session.app->model();
  const analysis::SpanFacts facts = model.facts(*session.state().selection);
  session.press(GLFW_KEY_F);
  CHECK(session.state().time.from() < facts.begin);
  CHECK(session.state().time.to() > facts.begin + facts.duration);
  CHECK(session.state().time.to() - session.state().time.from() < 12 * facts.duration);
  session.press(GLFW_KEY_F);
  CHECK(session.state().time.from() == model.step_range(session.state().step).first);
}

TEST_CASE("F without a selection frames the step that is in view", "[inspector][app]") {
  Session session;
  session.press(GLFW_KEY_ESCAPE);
  const auto [begin, end] = session.app->model().step_range(1);
  session.state().time.show(begin + (end - begin) / 3, end - (end - begin) / 3);
  session.press(GLFW_KEY_F);
  CHECK(session.state().time.from() == begin);
  CHECK(session.state().time.to() == end);
}

TEST_CASE("every tap counts, however many come in one frame", "[inspector][app]") {
  Session session({.rank = 0});
  for (int k = 0; k < 5; ++k) {
    session.screen.press_key(GLFW_KEY_DOWN);
    session.screen.release_key(GLFW_KEY_DOWN);
  }
  session.steps(1);
  CHECK(session.state().rank == 5);
}

TEST_CASE("a toggle that is held does not toggle again, an arrow goes on", "[inspector][app]") {
  Session session({.rank = 0});
  session.screen.press_key(GLFW_KEY_T);
  session.steps(1);
  for (int k = 0; k < 3; ++k) session.screen.press_key(GLFW_KEY_T, true);
  session.steps(2);
  CHECK(session.screen.surface().wish.kind == ThemeKind::light);
  session.screen.release_key(GLFW_KEY_T);
  session.screen.press_key(GLFW_KEY_DOWN);
  for (int k = 0; k < 3; ++k) session.screen.press_key(GLFW_KEY_DOWN, true);
  session.steps(1);
  CHECK(session.state().rank == 4);
}

TEST_CASE("a double click zooms to the operation", "[inspector][app]") {
  Session session;
  const Box row = session.state().widgets["timeline/rank/5"];
  session.screen.move_mouse(row.max.x + 400, row.min.y + 16);
  session.steps(2);
  REQUIRE(session.state().hovered);
  const analysis::SpanFacts facts = session.app->model().facts(*session.state().hovered);
  for (int k = 0; k < 2; ++k) {
    session.screen.press_mouse();
    session.steps(1);
    session.screen.release_mouse();
    session.steps(1);
  }
  CHECK(session.state().time.from() <= facts.begin);
  CHECK(session.state().time.to() >= facts.begin + facts.duration);
  CHECK(session.state().time.to() - session.state().time.from() < 2 * facts.duration);
}

TEST_CASE("Ctrl and a drag measure a range, which Communication is of", "[inspector][app]") {
  Session session;
  const Box rows = session.state().widgets["timeline/rows"];
  const Time from = session.state().time.from();
  session.screen.press_key(GLFW_KEY_LEFT_CONTROL);
  session.screen.move_mouse(rows.min.x + 250, rows.min.y + 60);
  session.steps(1);
  session.screen.press_mouse();
  session.steps(1);
  session.screen.move_mouse(rows.min.x + 780, rows.min.y + 60);
  session.steps(2);
  session.screen.release_mouse();
  session.screen.release_key(GLFW_KEY_LEFT_CONTROL);
  session.steps(2);
  CHECK(session.state().time.from() == from);
  REQUIRE(session.state().measured);
  const auto measured = *session.state().measured;
  const Time length = measured.second - measured.first;
  const Time view = session.state().time.to() - from;
  const float width = rows.width() - 100;
  CHECK(std::abs(static_cast<double>(length) / static_cast<double>(view) - 530 / width) < 0.02);
  session.click("tab/communication");
  CHECK(session.state().fields.contains("communication/0"));
  session.press(GLFW_KEY_ESCAPE);
  CHECK_FALSE(session.state().measured);
}

TEST_CASE("Ctrl+P finds ranks, steps, panels and commands by a few letters", "[inspector][app]") {
  Session session({.rank = 0});
  const auto enter = [&](const std::string& words) {
    session.screen.press_key(GLFW_KEY_LEFT_CONTROL);
    session.screen.press_key(GLFW_KEY_P);
    session.steps(1);
    session.screen.release_key(GLFW_KEY_P);
    session.screen.release_key(GLFW_KEY_LEFT_CONTROL);
    session.steps(2);
    CHECK(session.state().show_palette);
    session.screen.type(words);
    session.steps(2);
    session.press(GLFW_KEY_ENTER);
    CHECK_FALSE(session.state().show_palette);
  };
  enter("rank 6");
  CHECK(session.state().rank == 6);
  enter("step 1");
  CHECK(session.state().step == 1);
  enter("overv");
  CHECK(session.state().panel == "overview");
  enter("light");
  CHECK(session.screen.surface().wish.kind == ThemeKind::light);
}

TEST_CASE("every command has a key of its own and a title, and the help lists all",
          "[inspector][app]") {
  std::set<std::string> names, keys;
  for (const Command& command : commands()) {
    INFO(command.name);
    CHECK(names.insert(command.name).second);
    CHECK(keys.insert(keys_text(command)).second);
    CHECK(std::string(command.title).size() > 3);
    CHECK(find_command(command.name) == &command);
  }
  for (const PanelRow& row : panel_rows()) {
    if (row.key != 0) CHECK(keys.insert(std::string(1, row.key)).second);
  }
}

TEST_CASE("the manual lists every key as the program does", "[inspector][app]") {
  std::ifstream file(std::string(TESSERA_SOURCE_DIR) + "/docs/inspector.md");
  const std::string manual{std::istreambuf_iterator<char>(file), {}};
  for (const Command& command : commands()) {
    const std::string row = "| `" + keys_text(command) + "` | " + command.title + " |";
    INFO(row);
    CHECK(manual.find(row) != std::string::npos);
  }
  for (const PanelRow& row : panel_rows()) {
    if (row.key == 0) continue;
    const std::string start = std::string("| ") + row.tab + " | `" + row.key + "` |";
    INFO(start);
    CHECK(manual.find(start) != std::string::npos);
  }
}

TEST_CASE("exposed time equals what no compute span covers", "[inspector][facts]") {
  Session session;
  TraceModel& model = session.app->model();
  for (const LaneData& lane : model.rank(0).lanes) {
    if (model.stream(lane.spans.stream).role != StreamRole::communication) continue;
    for (std::size_t i = 0; i < lane.spans.op.size(); i += 5) {
      const analysis::SpanFacts facts = model.facts({0, lane.spans.stream, lane.spans.op[i]});
      Time busy = 0;
      for (const LaneData& other : model.rank(0).lanes) {
        if (model.stream(other.spans.stream).role != StreamRole::compute) continue;
        busy += other.pyramid->busy(lane.spans.begin[i], lane.spans.end[i]);
      }
      CHECK(facts.exposed == facts.duration - busy);
      CHECK(facts.wait + facts.transfer == facts.duration);
    }
  }
}

TEST_CASE("a frame stays within its budget of vertices", "[inspector][app]") {
  Session session({}, 1920, 1080);
  session.press(GLFW_KEY_HOME);
  CHECK(session.screen.vertex_count() < 100'000);
}

TEST_CASE("pictures as wide and as high as can be are drawn", "[inspector][app]") {
  for (const char* panel : {"all", "overview", "model"}) {
    for (const auto& [width, height] : {std::pair(16384, 150), std::pair(200, 16384)}) {
      Session session({.panel = panel}, width, height);
      CHECK(session.screen.vertex_count() > 0);
    }
  }
}

TEST_CASE("rows above the opened one are whole once the legend has its room", "[inspector][app]") {
  Session session({}, 1200, 675);
  session.state().widgets.clear();  // of frames before
  session.steps(1);
  const auto& widgets = session.state().widgets;
  const Box rows = widgets.at("timeline/rows");
  int shown = 0;
  for (Rank rank = 0; rank < 8; ++rank) {
    const auto row = widgets.find("timeline/rank/" + std::to_string(rank));
    if (row == widgets.end() || row->second.max.y <= rows.min.y) continue;  // out of view
    INFO("rank " << rank);
    CHECK(row->second.min.y >= rows.min.y);
    ++shown;
  }
  CHECK(shown >= 5);
}

TEST_CASE("options that cannot be are refused with a reason", "[inspector][app]") {
  auto message = [](InspectOptions options) {
    options.path = bundled_trace;
    return App::open(options).status().message();
  };
  CHECK(message({.time = std::pair<Time, Time>{5, 5}}) ==
        "the time range 5 to 5 ns is empty: give begin < end");
  CHECK(message({.panel = "settings"}) ==
        "there is no panel \"settings\": give overview, all, timeline, memory, communication, "
        "findings, path, compare, holders, model, query");
  CHECK(message({.panel = "compare"}).find("give its trace with --against") != std::string::npos);
  CHECK(message({.rank = 99}).find("rank 99 has no spans in") == 0);
  CHECK(screenshot({.path = bundled_trace, .width = 10, .height = 10}, "/nowhere.png").message() ==
        "a picture of 10x10 px: give 200x150 to 16384x16384");
  CHECK_FALSE(screenshot({.path = "/nowhere.tessera"}, "/nowhere.png").ok());
}

}  // namespace
}  // namespace tessera::inspector
