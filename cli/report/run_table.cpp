// SPDX-License-Identifier: Apache-2.0
#include "cli/report/run_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

namespace tessera::cli {
namespace {

// "mosaic: attention flash1, loss fused, without dropout"
std::string profile_text(const nlohmann::json& profile) {
  const auto word = [&](const char* key) {
    return profile.contains(key) && profile[key].is_string() ? profile[key].get<std::string>()
                                                             : "?";
  };
  std::string text = fmt::format("{}: {} attention, {} loss, {} allocator", word("name"),
                                 word("attention"), word("loss"), word("allocator"));
  if (profile.value("dropout", 1) == 0) text += ", no dropout";
  return text;
}

// Traces of older versions have one sentence.
std::vector<std::string> ranges_of(const nlohmann::json& validated) {
  if (validated.is_string()) return {validated.get<std::string>()};
  std::vector<std::string> out;
  if (!validated.is_object()) return out;
  for (const auto& [number, range] : validated.items()) {
    if (range.is_object() && range.contains("text") && range["text"].is_string()) {
      out.push_back(range["text"].get<std::string>());
    }
  }
  return out;
}

bool out_of_memory(const RunReport& report) {
  return std::any_of(
      report.diagnostics.begin(), report.diagnostics.end(),
      [](const storage::DiagnosticRow& row) { return row.code == name_of(Code::out_of_memory); });
}

}  // namespace

Table run_table(const RunReport& report) {
  const TraceRun& run = report.run;
  Table table(run.name.empty() ? "Run" : shortened(run.name), {});
  table.align_left();
  const std::string parameters =
      run.parameters > 0 ? with_separators(run.parameters) : "an unknown number of";
  table.row({"model", fmt::format("{}, {} parameters in {} units",
                                  run.model.empty() ? "not known" : shortened(run.model),
                                  parameters, report.units)});
  table.row({"scheme", run.scheme.empty() ? "not known" : run.scheme});
  table.row({"cluster", fmt::format("{}, {} ranks, {} per node", run.cluster,
                                    with_separators(run.ranks), run.ranks_per_node)});
  const bool imported = run.backend == "import";
  table.row({"backend", imported ? fmt::format("{}, tessera {}", run.backend, run.version)
                                 : fmt::format("{}, tessera {}, seed {}", run.backend, run.version,
                                               run.seed)});
  const auto options = nlohmann::json::parse(run.options, nullptr, /*allow_exceptions=*/false);
  const bool simulated = options.is_object() && options.contains("profile");
  if (simulated && out_of_memory(report)) {
    table.note(
        "does not fit: all figures are those of GPUs with more memory; the diagnostics say when "
        "and why");
  }
  if (simulated && options["profile"].is_object()) {
    table.row({"profile", profile_text(options["profile"])});
  }
  if (simulated && options.contains("validated")) {
    for (const std::string& range : ranges_of(options["validated"])) {
      table.note("how sure: " + range);
    }
  }
  if (run.tokens_per_step > 0) {
    table.row({"batch", fmt::format("{} tokens per step", with_separators(run.tokens_per_step))});
  }
  return table;
}

}  // namespace tessera::cli
