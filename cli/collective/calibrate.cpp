// SPDX-License-Identifier: Apache-2.0
// Fits a cluster file to logs of nccl-tests.
#include "tessera/sim/calibrate.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>

#include "cli/collective/collective_rows.h"
#include "cli/collective/nccl_log.h"
#include "cli/command.h"
#include "cli/options/checks.h"
#include "tessera/sim/group_shape.h"

namespace tessera::cli {
namespace {

struct CalibrateArguments {
  std::vector<std::string> logs;
  std::string cluster = "dgx-h100";
  std::int32_t nodes = 1;
  std::int32_t ranks_per_node = 0;
  std::string operation;
  std::string least = "32K";
  std::string output;
};

constexpr const char* calibrate_examples = R"(Examples:
  all_reduce_perf -b 32K -e 16G -f 2 -g 8 > node.log
  tessera calibrate node.log --cluster dgx-h100 -o mine.json
  tessera calibrate two.log --cluster mine.json --nodes 2 -o mine2.json

Exit codes: 0 done, 2 bad input.)";

Status refused(std::string message) { return Status(Code::invalid_argument, std::move(message)); }

Result<std::string> text_in(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  if (file) text << file.rdbuf();
  if (!file) return refused(fmt::format("cannot read the log {}", path));
  return text.str();
}

Status add_samples(const CalibrateArguments& a, const sim::Cluster& cluster, Bytes least,
                   const std::string& path, std::vector<sim::MeasuredCollective>& samples) {
  TESSERA_ASSIGN(const std::string text, text_in(path));
  TESSERA_ASSIGN(NcclLog log, parse_nccl_log(text, path));
  if (!a.operation.empty()) {
    TESSERA_ASSIGN(const auto kinds, parse_operations({a.operation}));
    log.kind = kinds.front();
  }
  if (!log.kind) return refused(fmt::format("{} does not say what ran: add --operation", path));
  const Index per_node = a.ranks_per_node > 0 ? a.ranks_per_node : cluster.gpus_per_node;
  if (per_node > cluster.gpus_per_node) {
    return refused(fmt::format("--ranks-per-node {}: nodes of {} have {} GPUs", per_node,
                               cluster.name, cluster.gpus_per_node));
  }
  const Index ranks = a.nodes * per_node;
  if (log.ranks > 0 && log.ranks != ranks) {
    return refused(
        fmt::format("{} is of {} ranks, not of {} on {} nodes: set --nodes and "
                    "--ranks-per-node",
                    path, log.ranks, ranks, a.nodes));
  }
  for (const NcclLogRow& row : log.rows) {
    if (row.bytes < least) continue;
    samples.push_back({{*log.kind, row.bytes, ranks, a.nodes, per_node}, row.us});
  }
  return {};
}

nlohmann::ordered_json with_fit(const std::string& text, const sim::Cluster& fitted,
                                const CalibrateArguments& a, const sim::CollectiveFit& fit) {
  auto json = nlohmann::ordered_json::parse(text);
  const std::string source =
      fmt::format("tessera calibrate: {} on {} node{}, mean error {:.1f} %",
                  fmt::join(a.logs, ", "), a.nodes, a.nodes == 1 ? "" : "s", 100 * fit.error_after);
  json["collective_launch_ns"] = fitted.collective_launch_ns;
  json["collective_floor_ns"] = fitted.collective_floor_ns;
  if (a.nodes > 1) {
    const sim::Link& link = fitted.inter_node;
    json["inter_node"].update({{"efficiency", link.efficiency},
                               {"latency_ns", link.latency_ns},
                               {"launch_ns", link.launch_ns},
                               {"sqrt_ns", link.sqrt_ns}});
    json["sources"]["inter_node"] = source;
    return json;
  }
  json["intra_node"].update(
      {{"efficiency", fitted.intra_node.efficiency}, {"sqrt_ns", fitted.intra_node.sqrt_ns}});
  json["sources"]["intra_node"] = source;
  json["sources"]["collective_launch_ns"] = source;
  if (fitted.nvls.share > 0) {
    json["nvls"] = {{"share", fitted.nvls.share}, {"sqrt_ns", fitted.nvls.sqrt_ns}};
    json["sources"]["nvls"] = source;
  }
  return json;
}

Status calibrate(const CalibrateArguments& a) {
  TESSERA_ASSIGN(const auto least, parse_sizes(a.least));
  TESSERA_ASSIGN(const auto cluster, sim::load_cluster(a.cluster, a.nodes));
  TESSERA_ASSIGN(const std::string text, sim::cluster_text(a.cluster));
  std::vector<sim::MeasuredCollective> samples;
  for (const std::string& path : a.logs) {
    TESSERA_TRY(add_samples(a, cluster, least.front(), path, samples));
  }
  if (samples.size() < 4) {
    return refused(fmt::format("{} rows of at least {}: a fit needs 4", samples.size(), a.least));
  }
  const sim::CollectiveFit fit = sim::fit_collectives(cluster, samples);
  std::ofstream file(a.output, std::ios::binary);
  file << with_fit(text, fit.cluster, a, fit).dump(2) << '\n';
  file.close();
  if (!file) return Status(Code::io_error, fmt::format("cannot write {}", a.output));
  fmt::print(
      "{}: {} rows, mean error {:.1f} % before, {:.1f} % fitted, {:.1f} % where halves of the rows "
      "predict each other\n",
      a.output, samples.size(), 100 * fit.error_before, 100 * fit.error_after,
      100 * fit.error_of_others);
  return {};
}

}  // namespace

void add_calibrate(CLI::App& app, int& exit_code) {
  auto arguments = std::make_shared<CalibrateArguments>();
  CalibrateArguments& a = *arguments;
  CLI::App* command =
      app.add_subcommand("calibrate", "Fit a cluster file to logs of nccl-tests from that cluster");
  command->footer(calibrate_examples);
  command->add_option("LOG", a.logs, "What nccl-tests printed")->required();
  command->add_option("--cluster", a.cluster, "The preset or file to begin with");
  command->add_option("--nodes", a.nodes, "Nodes that ran")->check(within(1, 1'000'000));
  command->add_option("--ranks-per-node", a.ranks_per_node, "GPUs of each that ran; 0: all of them")
      ->check(within(0, 4096));
  command->add_option("--operation", a.operation, "all_reduce, ... if the log does not say");
  command->add_option("--least", a.least, "Leave out rows of fewer bytes");
  command->add_option("-o,--output", a.output, "The cluster file to write")->required();
  command->callback([arguments, &exit_code] {
    const Status status = calibrate(*arguments);
    if (!status.ok()) exit_code = complain(status);
  });
}

}  // namespace tessera::cli
