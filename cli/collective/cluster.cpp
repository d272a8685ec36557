// SPDX-License-Identifier: Apache-2.0
// The clusters that are shipped, and whether a cluster file is one.
#include "tessera/sim/cluster.h"

#include <fmt/format.h>

#include <memory>

#include "cli/command.h"
#include "cli/report/table.h"

namespace tessera::cli {
namespace {

constexpr const char* cluster_examples = R"(Examples:
  tessera cluster list
  tessera cluster show dgx-h100 > mine.json
  tessera cluster check mine.json

Exit codes: 0 done, 2 bad input.)";

std::string giga(double bytes_per_s) { return fmt::format("{:g}", bytes_per_s / 1e9); }

Status list_clusters() {
  Table table("Clusters", {"name", "GPU", "a node", "GiB", "bf16 TFLOP/s", "memory GB/s",
                           "in a node GB/s", "network GB/s"});
  for (const std::string& name : sim::cluster_presets()) {
    TESSERA_ASSIGN(const auto cluster, sim::load_cluster(name, 1));
    table.row({name, cluster.gpu.name, std::to_string(cluster.gpus_per_node),
               fmt::format("{:.1f}", static_cast<double>(cluster.gpu.memory.value) / (1 << 30)),
               fmt::format("{:g}", cluster.gpu.bf16_flops_per_s / 1e12),
               giga(cluster.gpu.memory_bytes_per_s), giga(cluster.intra_node.bytes_per_s),
               giga(cluster.inter_node.bytes_per_s)});
  }
  table.note(
      "Rates are per GPU and in one direction; tessera cluster show NAME prints a file with "
      "all numbers and their sources.");
  fmt::print("{}", table.text(false));
  return {};
}

Status show_cluster(const std::string& name) {
  TESSERA_ASSIGN(const std::string text, sim::cluster_text(name));
  fmt::print("{}", text);
  return {};
}

Status check_cluster(const std::string& path) {
  TESSERA_ASSIGN(const auto cluster, sim::load_cluster(path, 1));
  fmt::print("{}: {}, {} x {} a node\n", path, cluster.name, cluster.gpus_per_node,
             cluster.gpu.name);
  print_warnings(sim::idle_numbers(cluster));
  return {};
}

}  // namespace

void add_cluster(CLI::App& app, int& exit_code) {
  CLI::App* command =
      app.add_subcommand("cluster", "List, show and check descriptions of clusters");
  command->footer(cluster_examples);
  command->require_subcommand(1);
  const auto finish = [&exit_code](const Status& status) {
    if (!status.ok()) exit_code = complain(status);
  };
  CLI::App* list = command->add_subcommand("list", "The shipped clusters");
  list->callback([finish] { finish(list_clusters()); });
  auto name = std::make_shared<std::string>();
  CLI::App* show = command->add_subcommand("show", "Print a cluster file: all numbers and sources");
  show->add_option("NAME", *name, "A preset or a JSON file")->required();
  show->callback([name, finish] { finish(show_cluster(*name)); });
  auto path = std::make_shared<std::string>();
  CLI::App* check = command->add_subcommand("check", "Say whether a file describes a cluster");
  check->add_option("FILE", *path, "A JSON file, or a preset")->required();
  check->callback([path, finish] { finish(check_cluster(*path)); });
}

}  // namespace tessera::cli
