// SPDX-License-Identifier: Apache-2.0
// What panels say of random views of traces is what SQL answers about the same moments.
#include <fmt/format.h>

#include <map>
#include <sstream>

#include "inspector/widgets/format.h"
#include "query/query.h"
#include "query/text.h"
#include "tests/inspector/app/session.h"
#include "tests/random.h"

namespace tessera::inspector {
namespace {

using Rows = std::vector<std::vector<query::Value>>;

Rows ask(query::Query& query, const std::string& sql) {
  Rows rows;
  const Status status =
      query.run(sql, {[](const auto&) {}, [&](const auto& row) { rows.push_back(row); }});
  INFO(sql << ": " << status.message());
  REQUIRE(status.ok());
  return rows;
}

std::int64_t number(const query::Value& value) {
  const auto* const known = std::get_if<std::int64_t>(&value);
  return known == nullptr ? 0 : *known;
}

using Said = std::map<std::string, std::string>;

/// A line each, which failures show.
std::string lines_of(const Said& said) {
  std::string lines;
  for (const auto& [what, values] : said) lines += what + ": " + values + "\n";
  return lines;
}

/// A session on a trace, whose mouse and view go anywhere.
struct Walk {
  Walk(const std::string& trace, const char* panel, const char* below, std::uint64_t seed)
      : path(std::string(TESSERA_SOURCE_DIR) + "/traces/" + trace + ".tessera"),
        session({.panel = panel, .below = below}, 1400, 1000, path),
        random(seed) {
    auto opened = query::Query::open(path);
    REQUIRE(opened.ok());
    asked.emplace(std::move(opened).value());
  }
  void look_anywhere() {
    const auto& ranks = session.app->model().run().recorded_ranks;
    const Time end = session.app->model().info().end;
    const Time length = std::max<Time>(1000, end >> random.below(8));
    const Time from = random.below(std::max<Time>(1, end - length));
    session.state().rank =
        ranks[static_cast<std::size_t>(random.below(static_cast<std::int64_t>(ranks.size())))];
    session.state().selection.reset();
    session.state().time.show(from, from + length);
    session.steps(2);
  }
  std::string in_view() {
    return fmt::format("rank = {} AND begin >= {} AND begin < {}", session.state().rank,
                       session.state().time.from(), session.state().time.to());
  }

  std::string path;
  Session session;
  test::Random random;
  std::optional<query::Query> asked;
};

TEST_CASE("collectives in view are those that SQL sums up", "[inspector][app][asked]") {
  const std::string trace =
      GENERATE("gpt2-8-h100", "offload-nvme", "torch-fsdp2", "scheme-zero3", "scheme-hybrid_shard");
  INFO(trace);
  Walk walk(trace, "communication", "", 7);
  walk.session.click("communication/view");
  walk.session.click("communication/by unit");
  for (int k = 0; k < 20; ++k) {
    walk.look_anywhere();
    const Rows rows = ask(*walk.asked,
                          "SELECT unit, kind, count(*), sum(bytes), sum(duration), sum(wait), "
                          "sum(transfer), sum(exposed) FROM op_rank WHERE wait IS NOT NULL AND " +
                              walk.in_view() + " GROUP BY unit, kind");
    Said expected, shown;
    for (const auto& row : rows) {
      const auto texts = query::texts_of(row);
      expected[texts[0] + " " + texts[1]] = fmt::format("{},{},{},{},{},{}", texts[2], texts[3],
                                                        texts[4], texts[5], texts[6], texts[7]);
    }
    if (!expected.empty()) {
      std::string copied;
      walk.session.click("communication/copy");
      walk.session.screen.step([&](Surface& ui) {
        walk.session.app->draw(ui);
        copied = ImGui::GetClipboardText();
      });
      std::istringstream lines(copied);
      std::string line;
      std::getline(lines, line);
      while (std::getline(lines, line)) {
        std::vector<std::string> cells;
        std::istringstream of(line);
        for (std::string cell; std::getline(of, cell, ',');) cells.push_back(cell);
        REQUIRE(cells.size() == 14);
        shown[cells[0] + " " + cells[1]] = fmt::format("{},{},{},{},{},{}", cells[5], cells[6],
                                                       cells[7], cells[8], cells[9], cells[10]);
      }
    }
    INFO(walk.in_view());
    CHECK(lines_of(shown) == lines_of(expected));
  }
}

TEST_CASE("details of an operation are what SQL says of it", "[inspector][app][asked]") {
  const std::string trace =
      GENERATE("gpt2-8-h100", "offload-nvme", "torch-fsdp2", "scheme-zero3", "scheme-hybrid_shard");
  INFO(trace);
  Walk walk(trace, "timeline", "", 11);
  auto& state = walk.session.state();
  for (int k = 0; k < 20; ++k) {
    walk.look_anywhere();
    const Rows rows = ask(*walk.asked,
                          "SELECT op, begin, duration, wait, transfer, exposed, bus_bandwidth, "
                          "bytes FROM op_rank WHERE " +
                              walk.in_view() + " AND duration > 0 ORDER BY op");
    if (rows.empty()) continue;
    const auto& row =
        rows[static_cast<std::size_t>(walk.random.below(static_cast<std::int64_t>(rows.size())))];
    const auto op = static_cast<std::int32_t>(number(row[0]));
    state.selection = walk.session.app->model().find(state.rank, op);
    REQUIRE(state.selection);
    std::erase_if(state.fields, [](const auto& f) { return f.first.starts_with("span/"); });
    walk.session.steps(2);
    INFO("op " << op << " of rank " << state.rank);
    CHECK(state.fields.at("span/Start") == format_moment(number(row[1]), 100'000));
    CHECK(state.fields.at("span/Duration") == format_time(number(row[2])));
    const bool collective = !std::holds_alternative<std::monostate>(row[3]);
    REQUIRE(state.fields.contains("span/Exposed") == collective);
    if (!collective) continue;
    const auto begins = [&](const char* name, const std::string& text) {
      INFO(name << ": " << state.fields.at(name));
      CHECK(state.fields.at(name).starts_with(text));
    };
    begins("span/Wait for last rank", format_time(number(row[3])));
    begins("span/Transfer", format_time(number(row[4])));
    begins("span/Exposed", format_time(number(row[5])));
    begins("span/Bytes", format_bytes(Bytes{number(row[7])}));
    const auto* const rate = std::get_if<double>(&row[6]);
    CHECK(state.fields.at("span/Bus bandwidth") == format_rate(rate == nullptr ? 0 : *rate));
  }
}

TEST_CASE("memory at the cursor is what the samples come to by then", "[inspector][app][asked]") {
  const std::string trace =
      GENERATE("gpt2-8-h100", "offload-nvme", "torch-fsdp2", "scheme-zero3", "out-of-memory");
  INFO(trace);
  Walk walk(trace, "timeline", "holders", 13);
  auto& state = walk.session.state();
  for (int k = 0; k < 20; ++k) {
    walk.look_anywhere();
    const Box rows = state.widgets.at("timeline/rows");
    const float left = rows.min.x + state.gutter + 4;
    walk.session.screen.move_mouse(
        left + static_cast<float>(walk.random.below(1000)) / 1000 * (rows.max.x - left - 24),
        rows.min.y + 4);
    walk.session.steps(3);
    REQUIRE(state.cursor);
    const Rows held =
        ask(*walk.asked, fmt::format("SELECT memory_class, sum(delta) FROM memory_sample WHERE "
                                     "rank = {} AND time <= {} GROUP BY memory_class",
                                     state.rank, *state.cursor));
    Said expected, shown;
    for (const auto& row : held) {
      CHECK(number(row[1]) >= 0);
      if (number(row[1]) > 0) {
        expected[query::text_of(row[0])] = format_memory(Bytes{number(row[1])});
      }
    }
    if (expected.empty()) continue;  // before the first sample
    std::istringstream classes(state.fields.at("holders/classes"));
    for (std::string one; std::getline(classes, one, ';');) {
      const std::size_t unit = one.rfind(' '), value = one.rfind(' ', unit - 1);
      const std::size_t first = one.starts_with(' ') ? 1 : 0;
      shown[one.substr(first, value - first)] = one.substr(value + 1);
    }
    shown.erase("reserved, unused");
    Said named;
    for (const auto& [name, bytes] : expected) {
      std::string words = name;
      std::replace(words.begin(), words.end(), '_', ' ');
      named[words == "unknown" ? "not known" : words] = bytes;
    }
    INFO("rank " << state.rank << " at " << *state.cursor);
    CHECK(lines_of(shown) == lines_of(named));
  }
}

}  // namespace
}  // namespace tessera::inspector
