// SPDX-License-Identifier: Apache-2.0
#include "cli/train/train_trace.h"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <numeric>

#include "cli/command.h"
#include "cli/train/train_log.h"
#include "engine/text/option_json.h"
#include "engine/text/rank_name.h"

namespace tessera::cli {
namespace {

std::string host_name() {
  std::array<char, 256> name{};
  return gethostname(name.data(), name.size() - 1) == 0 ? std::string(name.data()) : "this host";
}

// Everything that the numbers of the run depend on.
std::string options_json(const TrainArguments& a, const TrainRun& run) {
  nlohmann::ordered_json json;
  const TrainingOptions& step = run.options.step;
  json["data"] = fmt::format("{}", fmt::join(a.data.files, ","));
  json["steps"] = a.steps;
  json["seed"] = a.seed;
  for (const auto& [name, value] : options_of(run.options.scheme, run.model)) {
    json[name] = option_json(value);
  }
  json["dtype"] = name_of(run.options.dtype);
  if (run.options.fp8) json["matmul_dtype"] = "fp8";
  json["threads"] = run.options.threads;
  for (const auto& [name, value] : options_of(step)) json[name] = option_json(value);
  json["learning_rate"] = a.learning_rate;
  json["schedule"] = a.schedule;
  return json.dump();
}

// So that tessera calibrate can simulate what ran, whatever became of the file.
std::string sources_json(const std::string& model_path, const std::optional<LoraOptions>& lora) {
  std::ifstream file(model_path, std::ios::binary);
  const std::string text(std::istreambuf_iterator<char>(file), {});
  nlohmann::ordered_json json = {{"model", text}};
  if (lora) json["lora"] = to_text(*lora);
  return json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace

TraceRun trace_run(const TrainArguments& a, const TrainRun& run, const Launch& launch,
                   const OpenedRuntime& opened, const PeakFlops& peak) {
  const TrainingOptions& step = run.options.step;
  const Rank ranks = opened.runtime->world().count();
  const bool simulated = opened.name == "simulator";
  const std::int64_t samples = step.batch * step.accumulation * ranks;
  TraceRun out;
  out.name = fmt::format("{} on {} {}", run.model.name, ranks,
                         simulated    ? "simulated ranks"
                         : ranks == 1 ? "process"
                                      : "processes");
  out.model = run.model.name;
  out.scheme = name_of(run.options.scheme);
  out.cluster = simulated ? a.runtime.cluster : host_name();
  out.backend = opened.name;
  out.options = options_json(a, run);
  out.sources = sources_json(a.engine.model_path, run.lora);
  out.version = version();
  out.seed = a.seed;
  out.ranks = ranks;
  out.ranks_per_node = simulated ? std::min<Rank>(ranks, 8) : std::min(ranks, launch.local_ranks);
  out.parameters = run.model.parameter_count().value;
  out.tokens_per_step = samples * step.sequence_length;
  out.model_flops_per_step =
      static_cast<double>(samples) * flops_per_sample(run.model, step.sequence_length);
  if (!simulated && peak.value > 0) {
    out.peak_flops_per_rank = peak.value;
    out.peak_name = fmt::format("{}, {}", peak.name, readable_flops(peak.value));
  }
  if (names_rank(a.trace)) {
    out.recorded_ranks = {launch.rank};
  } else {
    out.recorded_ranks.resize(static_cast<std::size_t>(ranks));
    std::iota(out.recorded_ranks.begin(), out.recorded_ranks.end(), 0);
  }
  static_cast<void>(apply(a.recording, a.steps, out));  // was checked with the other flags
  return out;
}

}  // namespace tessera::cli
