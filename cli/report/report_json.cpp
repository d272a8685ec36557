// SPDX-License-Identifier: Apache-2.0
#include <nlohmann/json.hpp>

#include "cli/report/report.h"

namespace tessera::cli {
namespace {

using analysis::CommunicationKind;
using analysis::RankMeans;
using analysis::StepTime;
using analysis::TimeShares;

using Json = nlohmann::ordered_json;

template <class T>
Json optional(const std::optional<T>& value) {
  return value ? Json(*value) : Json();
}
Json optional(const std::optional<Bytes>& value) { return value ? Json(value->value) : Json(); }

const char* severity_name(TraceDiagnostic::Severity severity) {
  switch (severity) {
    case TraceDiagnostic::Severity::info: return "info";
    case TraceDiagnostic::Severity::warning: return "warning";
    case TraceDiagnostic::Severity::error: return "error";
    case TraceDiagnostic::Severity::data_loss: return "data_loss";
  }
  return "unknown";
}

Json run_json(const RunReport& report) {
  const TraceRun& run = report.run;
  Json options = Json::parse(run.options, nullptr, /*allow_exceptions=*/false);
  if (options.is_discarded()) options = run.options;
  return {{"name", run.name},
          {"model", run.model},
          {"scheme", run.scheme},
          {"cluster", run.cluster},
          {"backend", run.backend},
          {"version", run.version},
          {"seed", run.seed},
          {"ranks", run.ranks},
          {"ranks_per_node", run.ranks_per_node},
          {"parameters", run.parameters},
          {"units", report.units},
          {"tokens_per_step", run.tokens_per_step},
          {"model_flops_per_step", run.model_flops_per_step},
          {"peak_flops_per_rank", run.peak_flops_per_rank},
          {"peak_name", run.peak_name},
          {"memory_per_rank_bytes", run.memory_per_rank.value},
          {"content_hash", report.content_hash},
          {"options", options}};
}

// How sure a simulated run is; null of a real one.
Json validated_json(const RunReport& report) {
  const Json options = Json::parse(report.run.options, nullptr, /*allow_exceptions=*/false);
  return options.is_object() && options.contains("validated") ? options["validated"] : Json();
}

Json rank_json(const RankMeans& rank) {
  return {{"rank", rank.rank},
          {"step_ns", rank.step},
          {"compute_ns", rank.compute},
          {"communication_ns", rank.communication},
          {"exposed_ns", rank.exposed},
          {"blocking_ns", rank.blocking},
          {"wait_ns", rank.wait},
          {"wait_caused_ns", rank.wait_caused},
          {"peak_allocated_bytes", rank.peak_allocated.value},
          {"peak_reserved_bytes", rank.peak_reserved.value}};
}

Json steps_json(const RunReport& report) {
  Json steps = Json::array();
  for (const StepTime& step : report.figures.steps) {
    steps.push_back({{"step", step.step},
                     {"min_ns", step.min},
                     {"median_ns", step.median},
                     {"max_ns", step.max},
                     {"slowest_rank", step.slowest}});
  }
  return steps;
}

Json memory_json(const RunReport& report) {
  Json groups = Json::array();
  for (const PeakMemory& peak : report.figures.peaks) {
    Json classes = Json::object();
    for (std::size_t c = 0; c < peak.by_class.size(); ++c) {
      classes[std::string(name_of(static_cast<MemoryClass>(c)))] = peak.by_class[c].value;
    }
    groups.push_back({{"first_rank", peak.first_rank},
                      {"end_rank", peak.end_rank},
                      {"allocated_bytes", peak.allocated.value},
                      {"reserved_bytes", peak.reserved.value},
                      {"by_class_bytes", classes}});
  }
  return {{"step", report.figures.peak_step},
          {"peak_reserved_bytes", report.figures.peak_reserved.value},
          {"peak_reserved_step", report.figures.reserved_step},
          {"headroom_bytes", optional(report.figures.headroom)},
          {"groups", groups}};
}

Json communication_json(const RunReport& report) {
  Json kinds = Json::array();
  for (const CommunicationKind& row : report.communication.kinds) {
    const auto& spread = row.spread;
    kinds.push_back(
        {{"kind", name_of(row.kind)},
         {"count", row.count},
         {"bytes", row.bytes.value},
         {"transfer_ns", optional(row.transfer)},
         {"wait_ns", optional(row.wait)},
         {"bus_bandwidth_bytes_per_s", optional(row.bus_bandwidth_bytes_per_s)},
         {"kernel_ns", optional(row.kernel)},
         {"kernel_bus_bandwidth_bytes_per_s", optional(row.kernel_bus_bandwidth_bytes_per_s)},
         {"kernel_spread_ns", spread ? Json(spread->sum) : Json()},
         {"kernel_last_rank", spread ? Json(spread->last) : Json()},
         {"kernel_last_rank_ns", spread ? Json(spread->caused) : Json()}});
  }
  return kinds;
}

Json critical_path_json(const RunReport& report) {
  const analysis::CriticalPath& path = report.critical_path;
  if (path.step < 0) return {};
  Json rows = Json::array();
  for (const analysis::Shortening& row : path.rows) {
    rows.push_back({{"group", name_of(row.group)},
                    {"what", row.what},
                    {"on_path_ns", row.on_path},
                    {"step_shorter_ns", row.gain},
                    {"op", row.op},
                    {"rank", row.rank}});
  }
  return {{"step", path.step},
          {"begin_ns", path.begin},
          {"end_ns", path.end},
          {"ranks", path.ranks},
          {"work_ns", path.time_of(analysis::PathPart::work)},
          {"wait_ns", path.time_of(analysis::PathPart::wait)},
          {"host_ns", path.time_of(analysis::PathPart::host)},
          {"shortened_by", analysis::shortened_by},
          {"rows", rows}};
}

Json without_kernel_json(const RunReport& report) {
  Json ranks = Json::array();
  for (const auto& [rank, count] : report.communication.without_kernel) {
    ranks.push_back({{"rank", rank}, {"collectives", count}});
  }
  return ranks;
}

Json worst_json(const RunReport& report, Time RankMeans::*value) {
  Json worst = Json::array();
  for (const RankMeans& rank : worst_ranks(report.figures, value, 3))
    worst.push_back(rank_json(rank));
  return worst;
}

}  // namespace

std::string report_json(const RunReport& report, const std::vector<Rank>& ranks) {
  const TimeShares& shares = report.figures.shares;
  // An imported trace that lacks members of its collectives cannot tell who waited.
  const bool wait_known = report.run.backend != "import" || shares.wait > 0;
  Json json;
  json["tessera_report"] = 1;
  json["run"] = run_json(report);
  json["validated"] = validated_json(report);
  json["step_time_steady_ns"] = report.figures.step_time_steady;
  json["tokens_per_s"] = optional(report.figures.tokens_per_s);
  json["tokens_per_s_per_gpu"] = optional(report.figures.tokens_per_s_per_gpu);
  json["flops_per_s_per_gpu"] = optional(report.figures.flops_per_s_per_gpu);
  json["mfu"] = optional(report.figures.mfu);
  json["steps"] = steps_json(report);
  json["time"] = {{"step_ns", shares.step},
                  {"compute_ns", shares.compute},
                  {"communication_ns", shares.communication},
                  {"exposed_ns", shares.exposed},
                  {"overlapped_ns", shares.overlapped},
                  {"blocking_ns", shares.blocking},
                  {"wait_ns", wait_known ? Json(shares.wait) : Json()}};
  json["memory"] = memory_json(report);
  json["communication"] = communication_json(report);
  json["without_kernel_time"] = without_kernel_json(report);
  json["critical_path"] = critical_path_json(report);
  json["worst_ranks"] = {{"by_step_time", worst_json(report, &RankMeans::step)},
                         {"by_compute", worst_json(report, &RankMeans::compute)},
                         {"by_wait_caused", worst_json(report, &RankMeans::wait_caused)}};
  json["ranks"] = Json::array();
  for (const Rank rank : ranks) {
    for (const RankMeans& row : report.figures.ranks) {
      if (row.rank == rank) json["ranks"].push_back(rank_json(row));
    }
  }
  json["diagnostics"] = Json::array();
  for (const storage::DiagnosticRow& row : report.diagnostics) {
    json["diagnostics"].push_back({{"severity", severity_name(row.severity)},
                                   {"code", row.code},
                                   {"rank", row.rank},
                                   {"op", row.op},
                                   {"time_ns", row.time},
                                   {"message", row.message}});
  }
  // Names come from model files: whatever is in them, the output is valid JSON.
  return json.dump(2, ' ', false, Json::error_handler_t::replace);
}

}  // namespace tessera::cli
