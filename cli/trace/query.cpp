// SPDX-License-Identifier: Apache-2.0
#include "query/query.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "cli/printable.h"
#include "cli/report/table.h"
#include "cli/trace_warning.h"
#include "query/text.h"

namespace tessera::cli {
namespace {

using query::csv_line;
using query::text_of;
using query::texts_of;
using query::Value;

struct QueryArguments {
  std::string trace, sql;
  bool csv = false, json = false;
};

constexpr const char* query_examples = R"(Examples:
  tessera query run.tessera "SELECT unit, sum(exposed) / 1e6 AS ms FROM op_rank GROUP BY unit"
  tessera query run.tessera "SELECT * FROM span WHERE rank = 3 AND begin < 1000000" --csv
  tessera query run.tessera "SELECT name FROM sqlite_master"

Tables: those of the file, and span, op_rank, memory_sample, allocation, critical_path
(docs/query.md).
Exit codes: 0 done, 2 bad input, or the trace is damaged.)";

constexpr std::size_t table_rows_max = 10'000;  // a table has to know all widths

nlohmann::ordered_json json_of(const Value& value) {
  if (const auto* number = std::get_if<std::int64_t>(&value)) return *number;
  if (const auto* number = std::get_if<double>(&value)) return *number;
  if (std::holds_alternative<std::monostate>(value)) return nullptr;
  return text_of(value);
}

query::RowSink csv_sink() {
  return {[](const auto& names) { fmt::print("{}", csv_line(names)); },
          [](const auto& row) { fmt::print("{}", csv_line(texts_of(row))); }};
}

Status print_json(query::Query& query, const std::string& sql) {
  std::vector<std::string> names;
  const char* before = "[\n";
  TESSERA_TRY(query.run(sql, {[&](const auto& columns) { names = columns; },
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

Status print_table(query::Query& query, const std::string& sql) {
  std::vector<std::vector<std::string>> rows;
  std::int64_t left_out = 0;
  std::vector<std::string> names;
  TESSERA_TRY(query.run(sql, {[&](const auto& columns) { names = columns; },
                              [&](const auto& row) {
                                rows.size() < table_rows_max ? rows.push_back(texts_of(row))
                                                             : void(++left_out);
                              }}));
  const std::string heading =
      fmt::format("{} {}", with_separators(static_cast<std::int64_t>(rows.size()) + left_out),
                  rows.size() + static_cast<std::size_t>(left_out) == 1 ? "row" : "rows");
  Table table(heading, names);
  table.align_left();
  for (auto& row : rows) table.row(std::move(row));
  if (left_out > 0) {
    table.note(fmt::format("{} more rows are left out; --csv and --json print all.",
                           with_separators(left_out)));
  }
  fmt::print("{}", table.text(/*bold=*/false));
  return {};
}

Status run_query(const QueryArguments& a) {
  TESSERA_ASSIGN(query::Query query, query::Query::open(a.trace));
  warn_of_trace(a.trace, query.info());
  if (a.csv) return query.run(a.sql, csv_sink());
  return a.json ? print_json(query, a.sql) : print_table(query, a.sql);
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
  command->callback([arguments, &exit_code] {
    const Status status = run_query(*arguments);
    if (!status.ok()) exit_code = complain(status);
  });
}

}  // namespace tessera::cli
