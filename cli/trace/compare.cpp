// SPDX-License-Identifier: Apache-2.0
#include "tessera/analysis/compare.h"

#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <system_error>

#include "cli/command.h"
#include "cli/report/counted.h"
#include "cli/report/table.h"
#include "cli/trace_warning.h"

namespace tessera::cli {
namespace {

using analysis::Cause;
using analysis::Comparison;

struct CompareArguments {
  std::string a, b;
  bool json = false;
};

constexpr const char* compare_examples = R"(Examples:
  tessera compare before.tessera after.tessera
  tessera compare real.tessera simulated.tessera --json > both.json; tessera inspect both.json

Exit codes: 0 done, 2 bad input.)";

constexpr std::size_t causes_max = 3;

std::string ms(Time time) {
  return with_separators(fmt::format("{:.3f}", static_cast<double>(time) * 1e-6));
}
std::string signed_ms(Time time) { return (time < 0 ? "-" : "+") + ms(std::abs(time)); }

Table parts_table(const Comparison& c) {
  Table table("Step, ms", {"", "A", "B", "B - A"});
  const auto row = [&](const char* name, Time analysis::StepParts::*part) {
    table.row({name, ms(c.a.*part), ms(c.b.*part), signed_ms(c.b.*part - c.a.*part)});
  };
  row("step", &analysis::StepParts::step);
  row("compute", &analysis::StepParts::compute);
  row("exposed transfers", &analysis::StepParts::transfer);
  row("exposed waiting", &analysis::StepParts::waiting);
  row("other", &analysis::StepParts::other);
  table.note(
      fmt::format("{} of {} and {} operations are the same ones ({:.2f} %), {} of them for "
                  "another reason; {}, {} recorded in both",
                  with_separators(c.matched), with_separators(c.ops_a), with_separators(c.ops_b),
                  100 * c.matched_share(), with_separators(c.other_reason),
                  counted(c.steps, "step"), counted(std::ssize(c.ranks), "rank")));
  if (!c.changed.empty()) table.note("B has other collectives: " + c.changed);
  if (c.collectives_only) {
    table.note(
        "one of them was imported: its kernels are no operations of ours, so collectives "
        "alone are paired");
  }
  return table;
}

Table causes_table(const Comparison& c) {
  Table table("Why, ms per step", {"", "B - A", "A", "B"});
  for (std::size_t i = 0; i < std::min(causes_max, c.causes.size()); ++i) {
    const Cause& cause = c.causes[i];
    table.row({fmt::format("{}. {}", i + 1, cause.what), signed_ms(cause.time), "", ""});
    for (const auto& ops : cause.ops) {
      table.row({fmt::format("   {}x {}", ops.count, ops.what), signed_ms(ops.b - ops.a), ms(ops.a),
                 ms(ops.b)});
    }
  }
  if (!c.chance.empty()) {
    table.note(fmt::format("{} {} not larger than what steps of one run differ by: up to {} ms",
                           c.chance.size(),
                           c.chance.size() == 1 ? "other difference is" : "other differences are",
                           ms(std::abs(c.chance.front().time))));
  }
  return table;
}

std::string mib(Bytes bytes) {
  return with_separators(fmt::format("{:.2f}", static_cast<double>(bytes.value) / (1 << 20)));
}

Table memory_table(const Comparison& c) {
  Table table("Memory at the peak, MiB", {"", "A", "B", "B - A"});
  const auto row = [&](std::string_view name, Bytes a, Bytes b) {
    if (a.value == 0 && b.value == 0) return;
    table.row({std::string(name), mib(a), mib(b), mib(b - a)});
  };
  row("allocated", c.peak_a.allocated, c.peak_b.allocated);
  row("reserved", c.peak_a.reserved, c.peak_b.reserved);
  for (std::size_t i = 0; i < c.peak_a.by_class.size(); ++i) {
    row(name_of(static_cast<MemoryClass>(i)), c.peak_a.by_class[i], c.peak_b.by_class[i]);
  }
  return table;
}

Table only_table(const Comparison& c) {
  Table table("Only in one", {"operations", "in", "number"});
  for (const auto& row : c.only) {
    table.row({row.what, row.in_a ? "A" : "B", with_separators(row.count)});
  }
  return table;
}

nlohmann::ordered_json json_of(const analysis::StepParts& parts) {
  return {{"step_ns", parts.step},
          {"compute_ns", parts.compute},
          {"exposed_transfer_ns", parts.transfer},
          {"exposed_waiting_ns", parts.waiting},
          {"other_ns", parts.other}};
}

nlohmann::ordered_json json_of(const PeakMemory& peak) {
  nlohmann::ordered_json json{{"step", peak.step},
                              {"allocated_bytes", peak.allocated.value},
                              {"reserved_bytes", peak.reserved.value}};
  for (std::size_t i = 0; i < peak.by_class.size(); ++i) {
    if (peak.by_class[i].value == 0) continue;
    json["by_class"][std::string(name_of(static_cast<MemoryClass>(i)))] = peak.by_class[i].value;
  }
  return json;
}

nlohmann::ordered_json json_of(const std::vector<Cause>& causes) {
  auto json = nlohmann::ordered_json::array();
  for (const Cause& cause : causes) {
    nlohmann::ordered_json row{{"what", cause.what},
                               {"time_ns", cause.time},
                               {"noise_ns", cause.noise},
                               {"certain", cause.certain}};
    row["ops"] = nlohmann::ordered_json::array();
    for (const auto& ops : cause.ops) {
      row["ops"].push_back(
          {{"what", ops.what}, {"count", ops.count}, {"a_ns", ops.a}, {"b_ns", ops.b}});
    }
    json.push_back(row);
  }
  return json;
}

// By which `tessera inspect` finds the traces, from wherever it is started.
std::string whole_path(const std::string& path) {
  std::error_code error;
  const auto whole = std::filesystem::absolute(path, error).lexically_normal();
  return error ? path : whole.string();
}

void print_comparison_json(const CompareArguments& arguments, const Comparison& c) {
  nlohmann::ordered_json json{{"trace_a", whole_path(arguments.a)},
                              {"trace_b", whole_path(arguments.b)},
                              {"ops_a", c.ops_a},
                              {"ops_b", c.ops_b},
                              {"matched", c.matched},
                              {"matched_share", c.matched_share()},
                              {"other_reason", c.other_reason},
                              {"changed", c.changed},
                              {"collectives_only", c.collectives_only},
                              {"steps", c.steps},
                              {"ranks", c.ranks},
                              {"a", json_of(c.a)},
                              {"b", json_of(c.b)}};
  json["causes"] = json_of(c.causes);
  json["chance"] = json_of(c.chance);
  json["peak_a"] = json_of(c.peak_a);
  json["peak_b"] = json_of(c.peak_b);
  json["only"] = nlohmann::ordered_json::array();
  for (const auto& row : c.only) {
    json["only"].push_back(
        {{"what", row.what}, {"in", row.in_a ? "A" : "B"}, {"count", row.count}});
  }
  constexpr auto replace = nlohmann::json::error_handler_t::replace;
  fmt::print("{}\n", json.dump(2, ' ', false, replace));
}

/// Compares the content hash, but keeps neither all operations nor all steps of a long run.
Result<analysis::Trace> open_whole(const std::string& path) {
  TESSERA_ASSIGN(analysis::Trace trace, analysis::Trace::open(path, analysis::Trace::Check::later));
  TESSERA_TRY(trace.reader().verify_tables());
  return trace;
}

Status run_compare(const CompareArguments& arguments) {
  TESSERA_ASSIGN(const auto a, open_whole(arguments.a));
  TESSERA_ASSIGN(const auto b, open_whole(arguments.b));
  warn_of_trace(arguments.a, a.info());
  warn_of_trace(arguments.b, b.info());
  TESSERA_ASSIGN(const Comparison c, analysis::compare(a, b));
  if (arguments.json) {
    print_comparison_json(arguments, c);
    return {};
  }
  fmt::print("{}", parts_table(c).text(/*bold=*/false));
  if (!c.causes.empty() || !c.chance.empty())
    fmt::print("{}", causes_table(c).text(/*bold=*/false));
  fmt::print("{}", memory_table(c).text(/*bold=*/false));
  if (!c.only.empty()) fmt::print("{}", only_table(c).text(/*bold=*/false));
  return {};
}

}  // namespace

void add_compare(CLI::App& app, int& exit_code) {
  auto arguments = std::make_shared<CompareArguments>();
  CLI::App* command = app.add_subcommand("compare", "Say what differs between two traces, and why");
  command->footer(compare_examples);
  command->add_option("A", arguments->a, "Trace file, the one before")->required();
  command->add_option("B", arguments->b, "Trace file, the one after")->required();
  command->add_flag("--json", arguments->json, "Print one JSON object with raw numbers");
  command->callback([arguments, &exit_code] {
    const Status status = run_compare(*arguments);
    if (!status.ok()) exit_code = complain(status);
  });
}

}  // namespace tessera::cli
