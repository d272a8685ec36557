// SPDX-License-Identifier: Apache-2.0
// Flows, notes, and parts of the page that are dragged: what people know from other viewers.
#include <filesystem>

#include "inspector/render/frame_buffer.h"
#include "tests/inspector/app/session.h"
#include "tests/inspector/made_trace.h"
#include "tests/temporary_folder.h"

namespace tessera::inspector {
namespace {

std::int32_t selected_op(Session& session) {
  const SpanRef& span = *session.state().selection;
  return span.op;
}

TEST_CASE("flows lead from the cause of an operation to it, and on to its first use",
          "[inspector][habits]") {
  Session session;
  REQUIRE(session.state().selection);
  CHECK(session.state().fields["flow"] != "0");
  const std::int32_t gather = selected_op(session);
  session.press(GLFW_KEY_RIGHT_BRACKET);
  const std::int32_t use = selected_op(session);
  REQUIRE(use > gather);
  TraceModel& model = session.app->model();
  const auto causes = model.waited_for(use);
  CHECK(std::find(causes.begin(), causes.end(), gather) != causes.end());
  session.press(GLFW_KEY_LEFT_BRACKET);
  CHECK(selected_op(session) == causes.front());
}

TEST_CASE("a key that was pressed with Ctrl does not move the view when Ctrl is let go first",
          "[inspector][habits]") {
  Session session;
  const auto shown = [&] {
    return std::pair(session.state().time.from(), session.state().time.to());
  };
  const auto before = shown();
  session.screen.press_key(GLFW_KEY_LEFT_CONTROL);
  session.screen.press_key(GLFW_KEY_D);
  session.steps(1);
  session.screen.release_key(GLFW_KEY_LEFT_CONTROL);
  session.steps(3);
  session.screen.press_key(GLFW_KEY_D, /*repeat=*/true);
  session.steps(1);
  CHECK(shown() == before);
  session.screen.release_key(GLFW_KEY_D);
  session.steps(1);
  session.screen.press_key(GLFW_KEY_D);
  session.steps(1);
  CHECK(shown() != before);
}

TEST_CASE("a note is set at the selection, written, kept beside the trace and removed",
          "[inspector][habits]") {
  const std::string copy = std::string(TESSERA_BINARY_DIR) + "/habits_test.tessera";
  std::filesystem::copy_file(bundled_trace, copy,
                             std::filesystem::copy_options::overwrite_existing);
  std::filesystem::remove(copy + ".notes");
  {
    Session session({}, 1280, 720, copy);
    session.press(GLFW_KEY_M);
    REQUIRE(session.state().open_note);
    for (const char c : {'l', 'a', 't', 'e'}) {
      session.screen.type(std::string(1, c));
      session.steps(1);
    }
    session.press(GLFW_KEY_ENTER);
    CHECK_FALSE(session.state().open_note);
    CHECK(session.state().fields["note/0"] == "late");
    CHECK(session.state().note_problem.empty());
  }
  Session again({}, 1280, 720, copy);
  CHECK(again.state().fields["note/0"] == "late");
  again.click("note/0");
  REQUIRE(again.state().open_note);
  again.click("note/remove");
  CHECK(again.state().notes.all().empty());
  CHECK_FALSE(std::filesystem::exists(copy + ".notes"));
  std::filesystem::remove(copy);
}

TEST_CASE("edges between parts are dragged, and parts hidden, within limits",
          "[inspector][habits]") {
  Session session;
  const float before = session.state().widgets.at("memory").height();
  const Box edge = session.state().widgets.at("edge/memory");
  const auto drag_to = [&](float y) {
    session.screen.move_mouse((edge.min.x + edge.max.x) / 2, (edge.min.y + edge.max.y) / 2);
    session.steps(2);
    session.screen.press_mouse();
    session.steps(1);
    session.screen.move_mouse((edge.min.x + edge.max.x) / 2, y);
    session.steps(2);
    session.screen.release_mouse();
    session.steps(2);
  };
  drag_to(edge.min.y - 40);
  CHECK(session.state().widgets.at("memory").height() > before + 30);
  session.press(GLFW_KEY_J);
  session.state().widgets.erase("memory");
  session.steps(1);
  CHECK_FALSE(session.state().widgets.contains("memory"));
  const float wide = session.state().widgets.at("timeline/rows").width();
  session.press(GLFW_KEY_H);
  CHECK(session.state().widgets.at("timeline/rows").width() > wide + 200);
}

TEST_CASE("back and forward lead through what was shown, a turning wheel is one place",
          "[inspector][habits]") {
  Session session;
  auto& state = session.state();
  const Rank first = state.rank;
  const Box rows = state.widgets.at("timeline/rows");
  session.screen.move_mouse(rows.min.x + 300, rows.min.y + 40);
  for (int k = 0; k < 5; ++k) {
    session.screen.turn_wheel(1);
    session.steps(3);
  }
  const Time from = state.time.from();
  session.press(GLFW_KEY_DOWN);
  session.click("tab/findings");
  const auto go = [&](int key) {
    session.screen.press_key(GLFW_KEY_LEFT_ALT);
    session.press(key);
    session.screen.release_key(GLFW_KEY_LEFT_ALT);
    session.steps(1);
  };
  go(GLFW_KEY_LEFT);
  CHECK(state.panel == "all");
  CHECK(state.rank == first + 1);
  go(GLFW_KEY_LEFT);
  CHECK(state.rank == first);
  CHECK(state.time.from() == from);
  go(GLFW_KEY_LEFT);  // nothing is before it
  CHECK(state.time.from() == from);
  go(GLFW_KEY_RIGHT);
  go(GLFW_KEY_RIGHT);
  CHECK(state.panel == "findings");
}

TEST_CASE("a drag of the middle button zooms to a range", "[inspector][habits]") {
  Session session;
  auto& state = session.state();
  const Box rows = state.widgets.at("timeline/rows");
  const Time length = state.time.to() - state.time.from();
  session.screen.move_mouse(rows.min.x + 250, rows.min.y + 60);
  session.steps(1);
  session.screen.press_mouse(2);
  session.steps(1);
  session.screen.move_mouse(rows.min.x + 450, rows.min.y + 60);
  session.steps(2);
  CHECK(state.time.to() - state.time.from() == length);
  session.screen.release_mouse(2);
  session.steps(2);
  const auto share =
      static_cast<double>(state.time.to() - state.time.from()) / static_cast<double>(length);
  CHECK(share == Approx(200 / (rows.width() - 100)).margin(0.02));
  CHECK_FALSE(state.measured);
}

TEST_CASE("pictures are saved beside the trace, the selection is copied", "[inspector][habits]") {
  test::TemporaryFolder folder;
  const std::string copy = folder.path() + "/run.tessera";
  std::filesystem::copy_file(bundled_trace, copy);
  Session session({}, 1280, 720, copy);
  const auto with_ctrl = [&](int key) {
    session.screen.press_key(GLFW_KEY_LEFT_CONTROL);
    session.press(key);
    session.screen.release_key(GLFW_KEY_LEFT_CONTROL);
    session.steps(1);
  };
  for (const char* const name : {"/run-all.png", "/run-all-2.png"}) {
    with_ctrl(GLFW_KEY_S);
    CHECK(session.state().fields["said"] == "Saved " + folder.path() + name);
    const auto picture = read_png(folder.path() + name);
    REQUIRE(picture.ok());
    CHECK(picture->width == 1280);
  }
  with_ctrl(GLFW_KEY_C);
  std::string copied;
  session.screen.step([&](Surface& ui) {
    session.app->draw(ui);
    copied = ImGui::GetClipboardText();
  });
  CHECK(copied.starts_with("all_gather  h."));
  CHECK(copied.find("rank 5, step 1, backward\n") != std::string::npos);
  std::filesystem::remove_all(folder.path());
  with_ctrl(GLFW_KEY_S);
  CHECK(session.state().fields["said"].starts_with("⚠ "));
}

}  // namespace
}  // namespace tessera::inspector
