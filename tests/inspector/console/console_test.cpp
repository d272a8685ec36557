// SPDX-License-Identifier: Apache-2.0
// Questions in SQL: answered beside the frames, and their rows lead to the timeline.
#include <filesystem>
#include <fstream>
#include <iterator>

#include "inspector/console/query_job.h"
#include "inspector/console/questions.h"
#include "inspector/console/row_place.h"
#include "tests/inspector/app/session.h"
#include "tests/inspector/golden.h"
#include "tests/temporary_folder.h"

namespace tessera::inspector {
namespace {

// Counts for ever.
constexpr const char* endless_question =
    "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n";

TEST_CASE("the questions are those of the manual, asked of what is open", "[inspector][console]") {
  std::ifstream file(std::string(TESSERA_SOURCE_DIR) + "/docs/query.md");
  const std::string manual{std::istreambuf_iterator<char>(file), {}};
  REQUIRE(questions().size() >= 20);
  for (const Question& question : questions()) {
    INFO(question.title);
    CHECK(manual.find("### " + question.title + "\n") != std::string::npos);
    CHECK(manual.find("```sql\n" + question.sql + "\n```") != std::string::npos);
  }
  const Question some{"?", "SELECT o.rank FROM o WHERE o.rank = 0 AND step = 12 LIMIT 3"};
  CHECK(asked_of(some, 7, 3) == "SELECT o.rank FROM o WHERE o.rank = 7 AND step = 3 LIMIT 200");
}

TEST_CASE("every question of the manual is answered for another rank and step",
          "[inspector][console]") {
  QueryJob job(bundled_trace);
  for (const Question& question : questions()) {
    INFO(question.title);
    job.ask(asked_of(question, 6, 0));
    const auto answer = job.await();
    REQUIRE(answer);
    CHECK(answer->status.message().empty());
    CHECK_FALSE(answer->names.empty());
  }
}

TEST_CASE("a question that would never end is stopped by a word, and by the next question",
          "[inspector][console]") {
  QueryJob job(bundled_trace);
  job.ask(endless_question);
  CHECK(job.running());
  CHECK_FALSE(job.take());
  job.stop();
  const auto stopped = job.await();
  REQUIRE(stopped);
  CHECK(stopped->status.code() == Code::cancelled);
  CHECK(stopped->status.message() == "The query was stopped.");
  job.ask(endless_question);
  job.ask("SELECT 41 + 1 AS n");
  std::optional<Answer> next;
  while (!next) next = job.await();
  CHECK(std::get<std::int64_t>(next->rows.at(0).at(0)) == 42);
  job.ask(endless_question);  // the end of the job does not wait for it either
}

TEST_CASE("an answer keeps as many rows as somebody reads, and says that there are more",
          "[inspector][console]") {
  QueryJob job(bundled_trace);
  job.ask("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n");
  const auto answer = job.await();
  REQUIRE(answer);
  CHECK(answer->rows.size() == QueryJob::rows_max);
  CHECK(answer->cut);
  CHECK(answer->status.ok());
}

TEST_CASE("columns say where a row is", "[inspector][console]") {
  using query::Value;
  const std::vector<std::string> names = {"rank", "op", "step", "begin_ms", "ended_us", "unit"};
  const RowPlace place = place_of(names, {Value(std::int64_t{3}), Value(std::int64_t{600}), Value(),
                                          Value(1.5), Value(std::int64_t{7}), Value("h.0")});
  CHECK(place.rank == 3);
  CHECK(place.op == 600);
  CHECK_FALSE(place.step);
  CHECK(place.begin == 1'500'000);
  CHECK(place.end == 7000);
  CHECK_FALSE(place_of({"rank", "op"}, {Value(std::int64_t{-1}), Value(1e300)}).any());
  CHECK_FALSE(place_of({"unit"}, {Value(std::int64_t{4})}).any());
}

TEST_CASE("a question is a click, its row another, and the timeline shows the operation",
          "[inspector][console][golden]") {
  Session session({.panel = "query"}, 1200, 675);
  auto& fields = session.state().fields;
  CHECK(fields.at("query") == "2 rows");
  CHECK(fields.at("query/row/1") == "1, 27.921868, 18.6");
  session.click("query/question/0");  // which all_gather was most exposed?
  CHECK(fields.at("query/row/0").starts_with("600, 2, h.10, backward_prefetch"));
  session.screen.move_mouse(0, 0);
  session.steps(2);
  check_golden(session.picture(), "app_query_dark");
  session.click("query/row/0");
  CHECK(session.state().panel == "all");
  CHECK(session.state().rank == 2);
  REQUIRE(session.state().selection);
  const SpanRef& span = *session.state().selection;
  CHECK(span.op == 600);
  // What was asked is still there.
  session.click("tab/query");
  CHECK(fields.at("query/row/0").starts_with("600, 2, h.10"));
  session.click("query/history/1");
  CHECK(fields.at("query/row/1") == "1, 27.921868, 18.6");
}

TEST_CASE(
    "a question that makes no sense is answered with one sentence, as are rows that lead "
    "nowhere",
    "[inspector][console][golden]") {
  Session light({.theme = ThemeKind::light, .panel = "query", .query = "SELECT missing FROM span"},
                1200, 675);
  CHECK(light.state().fields.at("query") == "⚠ The query fails: no such column: missing.");
  check_golden(light.picture(), "app_query_light");
  Session far({.panel = "query", .query = "SELECT 99 AS rank"});
  far.click("query/row/0");
  CHECK(far.state().panel == "query");
  CHECK(far.state().fields.at("query") == "⚠ No operations of rank 99 were recorded.");
  Session large({.scale = 2.0F, .panel = "query"}, 1920, 1080);
  check_golden(large.picture(), "app_query_2x");
}

TEST_CASE("a picture of a question that has no answer is refused", "[inspector][console]") {
  const test::TemporaryFolder folder;
  const std::string picture = folder.path() + "/query.png";
  InspectOptions options{.path = bundled_trace, .width = 640, .height = 360, .panel = "query"};
  options.query = "SELECT missing FROM span";
  CHECK(screenshot(options, picture).message() == "The query fails: no such column: missing.");
  CHECK_FALSE(std::filesystem::exists(picture));
  options.query = "SELECT count(*) FROM span";
  CHECK(screenshot(options, picture).ok());
}

TEST_CASE("letters that are written into a question are no commands", "[inspector][console]") {
  Session session({.panel = "query"});
  session.click("query/sql");
  session.screen.type("1");
  session.press(GLFW_KEY_1);
  CHECK(session.state().panel == "query");
}

}  // namespace
}  // namespace tessera::inspector
