// SPDX-License-Identifier: Apache-2.0
#include "cli/plan/again.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "cli/command.h"
#include "cli/train/host_program.h"
#include "engine/text/json_reader.h"
#include "engine/text/option_json.h"
#include "tessera/storage/trace_reader.h"

namespace tessera::cli {
namespace {

bool is_training(const std::string& name) {
  const auto& options = training_options().options;
  return std::any_of(options.begin(), options.end(),
                     [&](const Option& option) { return option.name == name; });
}

// Those of the run itself, and what follows from all; others are the scheme's or the step's.
bool is_run(const std::string& name) {
  static const std::vector<std::string> names = {
      "cluster",    "nodes",      "profile", "validated", "steps",   "seed",          "jitter",
      "slow_ranks", "slow_links", "data",    "dtype",     "threads", "learning_rate", "schedule"};
  return std::find(names.begin(), names.end(), name) != names.end();
}

Status unknown(const std::string& trace, const std::string& name) {
  return Status(Code::invalid_argument,
                fmt::format("{}: has the option {}, which this version cannot repeat", trace,
                            in_quotes(name)));
}

Status read_slow_ranks(JsonReader& run, std::vector<sim::SlowRank>& slow_ranks) {
  if (!run.has("slow_ranks")) return {};
  for (const nlohmann::json& entry : run.json().at("slow_ranks")) {
    JsonReader slow(entry, run.source() + ": slow_ranks");
    slow_ranks.push_back({static_cast<Rank>(slow.integer("rank", 0)), slow.positive("factor", 1)});
    TESSERA_TRY(slow.status());
  }
  return {};
}

Status read_slow_links(JsonReader& run, std::vector<sim::SlowLink>& slow_links) {
  if (!run.has("slow_links")) return {};
  for (const nlohmann::json& entry : run.json().at("slow_links")) {
    JsonReader slow(entry, run.source() + ": slow_links");
    slow_links.push_back({static_cast<Index>(slow.integer("node", 0)), slow.positive("factor", 1)});
    TESSERA_TRY(slow.status());
  }
  return {};
}

Status read_options(const std::string& trace, const TraceRun& run, const nlohmann::json& json,
                    DescribedRun& out) {
  OptionValues of_scheme;
  for (const auto& [name, given] : json.items()) {
    if (is_run(name)) continue;
    const std::optional<OptionValue> value = option_value(given);
    if (!value) return unknown(trace, name);
    if (is_training(name)) {
      TESSERA_TRY(set_option(out.training, name, *value));
    } else {
      of_scheme.emplace_back(name, *value);
    }
  }
  const auto scheme = scheme_from(run.scheme, of_scheme, out.model);
  if (!scheme.ok()) {
    return Status(scheme.status().code(), fmt::format("{}: {}", trace, scheme.status().message()));
  }
  out.scheme = *scheme;
  return {};
}

// A run that was not simulated says its model alone.
Status says_nothing(const std::string& trace) {
  return Status(Code::not_supported,
                fmt::format("{}: does not say what it was made from, so it cannot be made again: "
                            "only traces of tessera simulate can",
                            trace));
}

}  // namespace

Result<DescribedRun> described_run(const storage::TraceReader& reader, const std::string& trace) {
  const TraceRun& run = reader.info().run;
  if (run.sources.empty()) {
    return Status(Code::not_supported,
                  fmt::format("{}: does not say its model: record it with this version", trace));
  }
  TESSERA_ASSIGN(const nlohmann::json sources_of, parse_json(run.sources, trace + ": sources"));
  JsonReader sources(sources_of, trace + ": sources");
  const std::string model = sources.text("model");
  TESSERA_TRY(sources.status());
  TESSERA_ASSIGN(const nlohmann::json json, parse_json(run.options, trace + ": options"));
  DescribedRun out;
  // A model without a name of its own is called as its file.
  TESSERA_ASSIGN(out.model, parse_model(model, run.model + ".json"));
  if (sources.has("lora")) {
    TESSERA_ASSIGN(const LoraOptions lora, parse_lora(sources.text("lora")));
    TESSERA_ASSIGN(out.model, with_lora(out.model, lora));
  }
  TESSERA_TRY(read_options(trace, run, json, out));
  return out;
}

std::string sources_json(const std::string& model, const std::string& cluster,
                         const std::optional<LoraOptions>& lora) {
  nlohmann::ordered_json json = {{"model", model}, {"cluster", cluster}};
  if (lora) json["lora"] = to_text(*lora);
  return json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

Result<Again> read_again(const std::string& trace) {
  TESSERA_ASSIGN(const auto reader, storage::TraceReader::open(trace));
  const TraceRun& run = reader.info().run;
  if (run.sources.empty()) return says_nothing(trace);
  TESSERA_ASSIGN(const nlohmann::json sources_of, parse_json(run.sources, trace + ": sources"));
  JsonReader sources(sources_of, trace + ": sources");
  if (!sources.has("cluster")) return says_nothing(trace);
  const std::string cluster = sources.text("cluster");
  TESSERA_TRY(sources.status());
  TESSERA_ASSIGN(const nlohmann::json json, parse_json(run.options, trace + ": options"));
  JsonReader of_run(json, trace + ": options");
  Again again;
  TESSERA_ASSIGN(DescribedRun described, described_run(reader, trace));
  again.model = std::move(described.model);
  again.options.scheme = std::move(described.scheme);
  again.options.training = std::move(described.training);
  const auto nodes = static_cast<Index>(of_run.integer("nodes", 1));
  again.options.steps = static_cast<std::int32_t>(of_run.integer("steps", 1));
  TESSERA_TRY(read_slow_ranks(of_run, again.options.slow_ranks));
  TESSERA_TRY(read_slow_links(of_run, again.options.slow_links));
  TESSERA_TRY(of_run.status());
  TESSERA_ASSIGN(again.options.cluster, sim::parse_cluster(cluster, run.cluster, nodes));
  if (json.contains("profile")) {
    TESSERA_ASSIGN(again.options.stack,
                   sim::parse_profile(json.at("profile").dump(), of_run.source()));
  }
  again.options.program = train_program();
  again.options.jitter = json.value("jitter", 0.0);
  again.options.seed = run.seed;
  again.options.run_name = run.name;
  again.options.recorded_ranks = run.recorded_ranks;
  again.options.recorded_from = run.recorded_from;
  again.options.recorded_to = run.recorded_to;
  again.options.records_memory = run.records_memory;
  again.options.sources = run.sources;
  again.options.version = version();
  return again;
}

Result<std::string> file_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  if (!file) return Status(Code::io_error, fmt::format("{}: cannot be read", path));
  return text.str();
}

Result<bool> same_bytes(const std::string& one, const std::string& other) {
  TESSERA_ASSIGN(const std::string a, file_text(one));
  TESSERA_ASSIGN(const std::string b, file_text(other));
  return a == b;
}

}  // namespace tessera::cli
