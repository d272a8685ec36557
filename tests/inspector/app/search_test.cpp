// SPDX-License-Identifier: Apache-2.0
// Operations by words, and rows that stay on top.
#include "inspector/model/search.h"

#include "tests/inspector/app/session.h"

namespace tessera::inspector {
namespace {

TEST_CASE("N goes through the operations that were searched for, and back", "[inspector][app]") {
  Session session;
  ViewState& state = session.state();
  TraceModel& model = session.app->model();
  state.search = "reduce_scatter h.3";
  state.time.show(0, model.info().end);
  session.steps(1);
  state.selection.reset();
  session.press(GLFW_KEY_N);
  REQUIRE(state.selection);
  const SpanRef first = *state.selection;
  CHECK(fits_op(state.search, model.op(first.op)));
  session.press(GLFW_KEY_N);
  const SpanRef second = *state.selection;
  CHECK(model.times(second).begin > model.times(first).begin);
  CHECK(fits_op(state.search, model.op(second.op)));
  session.screen.press_key(GLFW_KEY_LEFT_SHIFT);
  session.press(GLFW_KEY_N);
  session.screen.release_key(GLFW_KEY_LEFT_SHIFT);
  session.steps(1);
  CHECK(state.selection == first);
  state.search = "no such operation";
  session.press(GLFW_KEY_N);
  CHECK(state.selection == first);
  CHECK(state.fields["said"].find("No operation") == 0);
}

TEST_CASE("a pinned rank's row stays on top", "[inspector][app]") {
  Session session({.panel = "timeline", .rank = 6}, 1280, 300);
  session.press(GLFW_KEY_P);
  CHECK(session.state().pinned.contains(6));
  session.state().open_rank(1);
  session.steps(3);
  const auto top = [&](const char* row) { return session.state().widgets[row].min.y; };
  CHECK(top("timeline/rank/6") < top("timeline/rank/1"));
  session.state().rank = 6;
  session.press(GLFW_KEY_P);
  CHECK(session.state().pinned.empty());
}

}  // namespace
}  // namespace tessera::inspector
