// SPDX-License-Identifier: Apache-2.0
// Flows, notes, and parts of the page that are dragged: what people know from other viewers.
#include <filesystem>

#include "tests/inspector/app/session.h"
#include "tests/inspector/made_trace.h"

namespace tessera::inspector {
namespace {

std::int32_t selected_op(Session& session) {
  const SpanRef& span = *session.state().selection;
  return session.app->model().rank(span.rank).lane(span.stream)->spans.op[span.index];
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

}  // namespace
}  // namespace tessera::inspector
