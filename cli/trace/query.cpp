// SPDX-License-Identifier: Apache-2.0
#include "query/query.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <set>

#include "cli/command.h"
#include "cli/options/checks.h"
#include "cli/printable.h"
#include "cli/report/counted.h"
#include "cli/report/table.h"
#include "cli/trace/query_watch.h"
#include "cli/trace_warning.h"
#include "query/text.h"

namespace tessera::cli {
namespace {

using query::csv_line;
using query::exact_texts_of;
using query::text_of;
using query::texts_of;
using query::Value;

struct QueryArguments {
  std::string trace, sql;
  bool csv = false, json = false;
  double deadline_s = 0;
};

constexpr const char* query_examples = R"(Examples:
  tessera query run.tessera "SELECT unit, sum(exposed) / 1e6 AS ms FROM op_rank GROUP BY unit"
  tessera query run.tessera "SELECT * FROM span WHERE rank = 3 AND begin < 1000000" --csv
  tessera query run.tessera "SELECT name FROM sqlite_master"

Tables: those of the file, and span, op_rank, memory_sample, allocation, rank_step, critical_path
(docs/query.md).
A query that walks a graph by WITH RECURSIVE ends only if it meets each row once: write UNION, not
UNION ALL. --deadline ends any.
Exit codes: 0 done, 2 bad input, the trace is damaged, or the deadline was over.)";

constexpr std::size_t table_rows_max = 10'000;  // a table has to know all widths

nlohmann::ordered_json json_of(const Value& value) {
  if (const auto* number = std::get_if<std::int64_t>(&value)) return *number;
  if (const auto* number = std::get_if<double>(&value)) return *number;
  if (std::holds_alternative<std::monostate>(value)) return nullptr;
  return text_of(value);
}

/// Runs the question, and counts what is answered.
struct Asked {
  query::Query& query;
  const std::string& sql;
  const std::atomic<bool>* stop;
  std::int64_t rows = 0;

  Status run(const query::RowSink& sink) {
    const auto counted_row = [&](const std::vector<Value>& row) {
      ++rows;
      sink.row(row);
    };
    return query.run(sql, {sink.columns, counted_row}, stop);
  }
};

Status print_csv(Asked& asked) {
  return asked.run({[](const auto& names) { fmt::print("{}", csv_line(names)); },
                    [](const auto& row) { fmt::print("{}", csv_line(exact_texts_of(row))); }});
}

// An object has each name once: a second "rank" is "rank:1", as SQLite itself calls it in views.
std::vector<std::string> names_once(std::vector<std::string> names) {
  std::set<std::string> taken(names.begin(), names.end());
  std::set<std::string> seen;
  for (std::string& name : names) {
    const std::string wanted = name;
    for (int k = 1; !seen.insert(name).second; ++k) {
      const std::string other = fmt::format("{}:{}", wanted, k);
      if (taken.insert(other).second) name = other;
    }
  }
  return names;
}

Status print_json(Asked& asked) {
  std::vector<std::string> names;
  const char* before = "[\n";
  TESSERA_TRY(asked.run({[&](const auto& columns) { names = names_once(columns); },
                         [&](const auto& row) {
                           auto object = nlohmann::ordered_json::object();
                           for (std::size_t i = 0; i < row.size(); ++i)
                             object[names[i]] = json_of(row[i]);
                           constexpr auto replace = nlohmann::json::error_handler_t::replace;
                           fmt::print("{}  {}", before, object.dump(-1, ' ', false, replace));
                           before = ",\n";
                         }}));
  fmt::print("{}\n]\n", *before == '[' ? "[" : "");
  return {};
}

Status print_table(Asked& asked) {
  std::vector<std::vector<std::string>> rows;
  std::vector<std::string> names;
  Status status = asked.run({[&](const auto& columns) { names = columns; },
                             [&](const auto& row) {
                               if (rows.size() < table_rows_max) rows.push_back(texts_of(row));
                             }});
  if (!status.ok() && (status.code() != Code::cancelled || rows.empty())) return status;
  const std::int64_t left_out = asked.rows - std::ssize(rows);
  for (std::string& name : names) name = printable(name);
  Table table(counted(asked.rows, "row"), names);
  table.align_left();
  for (auto& row : rows) table.row(std::move(row));
  if (left_out > 0) {
    table.note(fmt::format("{} more rows are left out; --csv and --json print all.",
                           with_separators(left_out)));
  }
  if (!status.ok()) table.note("The query was stopped before it was done: there may be more.");
  fmt::print("{}", table.text(/*bold=*/false));
  return status;
}

/// No row may mean that nobody recorded what was asked for.
void warn_of_nothing(const TraceRun& run) {
  const std::int64_t recorded = std::ssize(run.recorded_ranks);
  if (recorded == run.ranks) return;
  print_warnings({fmt::format("no row, and only {} of {} ranks recorded spans and memory", recorded,
                              with_separators(run.ranks))});
}

Status run_query(const QueryArguments& a) {
  TESSERA_ASSIGN(query::Query query, query::Query::open(a.trace));
  warn_of_trace(a.trace, query.info());
  limit_query_memory();
  const QueryWatch watch(a.deadline_s);
  Asked asked{query, a.sql, watch.stop()};
  const Status status = a.csv ? print_csv(asked) : a.json ? print_json(asked) : print_table(asked);
  if (status.ok() && asked.rows == 0) warn_of_nothing(query.info().run);
  if (status.code() != Code::cancelled) return status;
  return {Code::cancelled,
          fmt::format("query: was not done within {} s (--deadline)", a.deadline_s)};
}

}  // namespace

void add_query(CLI::App& app, int& exit_code) {
  auto arguments = std::make_shared<QueryArguments>();
  CLI::App* command = app.add_subcommand("query", "Ask a trace in SQL");
  command->footer(query_examples);
  command->add_option("FILE", arguments->trace, "Trace file")->required();
  command->add_option("SQL", arguments->sql, "One SELECT")->required();
  CLI::Option* csv = command->add_flag("--csv", arguments->csv, "Print comma-separated values");
  command->add_flag("--json", arguments->json, "Print a list of JSON objects")->excludes(csv);
  command->add_option("--deadline", arguments->deadline_s, "Seconds after which a query ends")
      ->check(within(0.001, 1e7));
  command->callback([arguments, &exit_code] {
    const Status status = run_query(*arguments);
    if (!status.ok()) exit_code = complain(status);
  });
}

}  // namespace tessera::cli
