// SPDX-License-Identifier: Apache-2.0
// Operations by words, and rows that stay on top.
#include "inspector/model/search.h"

#include <limits>
#include <set>

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

TEST_CASE("a search meets every operation once, those that begin together too",
          "[inspector][app]") {
  Session session;
  TraceModel& model = session.app->model();
  const Rank rank = model.run().recorded_ranks.front();
  std::size_t spans = 0;
  for (const LaneData& lane : model.rank(rank).lanes) spans += lane.spans.op.size();
  std::set<std::int32_t> met;
  SearchPlace place{std::numeric_limits<Time>::min()};
  while (const auto found = next_match(model, rank, "", place, 1)) {
    CHECK(met.insert(found->op).second);
    place = {model.times(*found).begin, found->op};
  }
  CHECK(met.size() == spans);
  while (const auto found = next_match(model, rank, "", place, -1)) {
    met.erase(found->op);
    place = {model.times(*found).begin, found->op};
  }
  CHECK(met.size() == 1);  // where it began
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
