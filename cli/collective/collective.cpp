// SPDX-License-Identifier: Apache-2.0
// Collectives of a cluster beside each other, as nccl-tests print them.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/collective/collective_plot.h"
#include "cli/collective/collective_rows.h"
#include "cli/command.h"
#include "cli/options/checks.h"
#include "cli/options/rank_list.h"
#include "cli/report/table.h"
#include "cli/text_file.h"
#include "tessera/sim/error_range.h"
#include "tessera/sim/group_shape.h"

namespace tessera::cli {
namespace {

using Json = nlohmann::ordered_json;

struct CollectiveArguments {
  std::vector<std::string> operations;
  std::string cluster = "dgx-h100";
  std::int32_t nodes = 1;
  std::string sizes = "32K:16G";
  std::int32_t ranks_per_node = 0;
  std::string ranks;
  std::int32_t group_size = 0;
  std::int32_t group_stride = 1;
  std::string nccl;
  bool json = false;
  std::string plot;
};

constexpr const char* collective_examples = R"(Examples:
  tessera collective all_gather --cluster dgx-h100 --nodes 2 --sizes 32K:16G
  tessera collective all_reduce --cluster dgx-a100 --nodes 16 --group-size 16 --group-stride 8
  tessera collective all --ranks 0-3,8-11 --nodes 2 --plot busbw.svg

Exit codes: 0 done, 2 bad input.)";

std::vector<Rank> members_of_nodes(const sim::Cluster& cluster, Index per_node) {
  std::vector<Rank> members;
  for (Rank rank = 0; rank < cluster.ranks(); ++rank) {
    if (rank % cluster.gpus_per_node < per_node) members.push_back(rank);
  }
  return members;
}

Result<std::vector<Rank>> members_of(const CollectiveArguments& a, const sim::Cluster& cluster) {
  const int ways = (a.ranks_per_node > 0) + !a.ranks.empty() + (a.group_size > 0);
  if (ways > 1) return refused("give one of --ranks-per-node, --ranks and --group-size");
  if (a.group_size > 0) {
    const std::int64_t last = std::int64_t{a.group_size - 1} * a.group_stride;
    if (last >= cluster.ranks()) {
      return refused(
          fmt::format("--group-size {} with --group-stride {} needs rank {}, but there are "
                      "{} ranks: add nodes",
                      a.group_size, a.group_stride, last, cluster.ranks()));
    }
    if (cluster.ranks() % (std::int64_t{a.group_size} * a.group_stride) != 0) {
      return refused(
          fmt::format("--group-size {} with --group-stride {}: {} ranks are no whole number of "
                      "such groups; --ranks takes any",
                      a.group_size, a.group_stride, cluster.ranks()));
    }
    std::vector<Rank> members;
    for (Index i = 0; i < a.group_size; ++i) members.push_back(i * a.group_stride);
    return members;
  }
  if (!a.ranks.empty()) {
    TESSERA_ASSIGN(auto members, parse_rank_list("--ranks", a.ranks, cluster.ranks()));
    return members;
  }
  if (a.ranks_per_node > cluster.gpus_per_node) {
    return refused(fmt::format("--ranks-per-node {}: nodes of {} have {} GPUs", a.ranks_per_node,
                               cluster.name, cluster.gpus_per_node));
  }
  return members_of_nodes(cluster, a.ranks_per_node > 0 ? a.ranks_per_node : cluster.gpus_per_node);
}

std::string title_of(const sim::Cluster& cluster, const sim::CollectiveShape& group) {
  return fmt::format("{}, {} ranks on {} node{}, NCCL {}", cluster.name, group.ranks, group.nodes,
                     group.nodes == 1 ? "" : "s", cluster.nccl.version);
}

sim::ErrorRange error_of(const sim::Cluster& cluster, const sim::CollectiveShape& group,
                         const CollectiveTable& table) {
  sim::CollectiveShape shape = group;
  shape.kind = table.kind;
  const auto [least, most] = std::minmax_element(
      table.rows.begin(), table.rows.end(),
      [](const CollectiveRow& a, const CollectiveRow& b) { return a.bytes < b.bytes; });
  return sim::collective_error(sim::name_unless_changed(cluster), shape, least->bytes, most->bytes);
}

void print_tables(const sim::Cluster& cluster, const sim::CollectiveShape& group,
                  const std::vector<CollectiveTable>& tables) {
  const std::string title = title_of(cluster, group);
  for (const CollectiveTable& rows : tables) {
    Table table(fmt::format("{}: {}", name_of(rows.kind), title),
                {"size", "bytes", "count", "algorithm", "protocol", "channels", "us", "algbw GB/s",
                 "busbw GB/s"});
    for (const CollectiveRow& row : rows.rows) {
      table.row({short_size(row.bytes), with_separators(row.bytes.value),
                 with_separators(row.count), row.plan.algorithm,
                 row.plan.protocol.empty() ? "-" : row.plan.protocol,
                 std::to_string(row.plan.channels),
                 fmt::format("{:.1f}", static_cast<double>(row.plan.time) / 1e3),
                 fmt::format("{:.2f}", row.algbw), fmt::format("{:.2f}", row.busbw)});
    }
    table.note("how sure: " + error_of(cluster, group, rows).text);
    fmt::print("{}", table.text(false));
  }
}

void print_json(const sim::Cluster& cluster, const sim::CollectiveShape& group,
                const std::vector<CollectiveTable>& tables) {
  Json out{{"cluster", cluster.name},
           {"nccl", cluster.nccl.version},
           {"ranks", group.ranks},
           {"nodes", group.nodes},
           {"ranks_per_node", group.ranks_per_node}};
  for (const CollectiveTable& table : tables) {
    out["validated"][std::string(name_of(table.kind))] =
        Json::parse(sim::to_json(error_of(cluster, group, table)));
    for (const CollectiveRow& row : table.rows) {
      out["rows"].push_back({{"op", name_of(table.kind)},
                             {"bytes", row.bytes.value},
                             {"count", row.count},
                             {"algorithm", row.plan.algorithm},
                             {"protocol", row.plan.protocol},
                             {"channels", row.plan.channels},
                             {"time_us", static_cast<double>(row.plan.time) / 1e3},
                             {"algbw_gbytes_per_s", row.algbw},
                             {"busbw_gbytes_per_s", row.busbw},
                             {"nccl_estimate_us", row.plan.nccl_us}});
    }
  }
  fmt::print("{}\n", out.dump(2));
}

// Sizes that give every rank something; the others are named.
Result<std::vector<Bytes>> sizes_among(const std::vector<Bytes>& sizes, OpKind kind, Index ranks) {
  const Bytes least = least_size(kind, ranks);
  std::vector<Bytes> enough;
  std::copy_if(sizes.begin(), sizes.end(), std::back_inserter(enough),
               [&](Bytes size) { return size >= least; });
  if (enough.size() == sizes.size()) return enough;
  const std::string why = fmt::format("{} among {} ranks has at least {} bytes, a float32 of each",
                                      name_of(kind), ranks, least.value);
  if (enough.empty()) return refused(fmt::format("--sizes: {}: give more", why));
  print_warnings({fmt::format("{}: smaller sizes are left out", why)});
  return enough;
}

Status collective(const CollectiveArguments& a) {
  TESSERA_ASSIGN(const auto kinds, parse_operations(a.operations));
  TESSERA_ASSIGN(const auto sizes, parse_sizes(a.sizes));
  TESSERA_ASSIGN(auto cluster, sim::load_cluster(a.cluster, a.nodes));
  if (!a.nccl.empty() && a.nccl != cluster.nccl.version) {
    cluster.nccl.version = a.nccl;
    cluster.shipped = false;
    if (!sim::knows_gpu(cluster.nccl)) {
      return refused(fmt::format("--nccl {}: is older than the GPUs of {}: give 2.27 or newer",
                                 a.nccl, cluster.name));
    }
  }
  TESSERA_ASSIGN(const auto members, members_of(a, cluster));
  if (members.size() < 2) return refused("a collective needs at least 2 ranks");
  print_warnings(sim::idle_numbers(cluster));
  const sim::CollectiveShape group = sim::shape_of(members, cluster.gpus_per_node);
  std::vector<CollectiveTable> tables;
  for (const OpKind kind : kinds) {
    TESSERA_ASSIGN(const auto enough, sizes_among(sizes, kind, group.ranks));
    tables.push_back(collective_table(cluster, group, kind, enough));
  }
  if (!a.plot.empty()) {
    TESSERA_TRY(check_overwrites("--plot", a.plot, "SVG", "<svg"));
    if (std::filesystem::path(a.plot).extension() != ".svg") {
      return refused(
          fmt::format("--plot {}: plots are SVG files: give a name that ends in .svg", a.plot));
    }
    TESSERA_TRY(write_text_file(a.plot, collective_plot(title_of(cluster, group), tables)));
  }
  a.json ? print_json(cluster, group, tables) : print_tables(cluster, group, tables);
  return {};
}

void add_group_options(CLI::App& command, CollectiveArguments& a) {
  const char* group = "Group";
  command
      .add_option("--ranks-per-node", a.ranks_per_node,
                  "GPUs of every node that take part; 0: all of them")
      ->check(within(0, 4096))
      ->group(group);
  command.add_option("--ranks", a.ranks, "Just these, such as 0-3,8-11")->group(group);
  command
      .add_option("--group-size", a.group_size,
                  "Ranks of one group of a mesh, all groups at once; 0: one group of everybody")
      ->check(within(0, 8e6))
      ->group(group);
  command.add_option("--group-stride", a.group_stride, "Ranks between members of that group")
      ->check(within(1, 8e6))
      ->group(group);
}

}  // namespace

void add_collective(CLI::App& app, int& exit_code) {
  auto arguments = std::make_shared<CollectiveArguments>();
  CollectiveArguments& a = *arguments;
  CLI::App* command = app.add_subcommand(
      "collective", "Print how NCCL carries out a collective on a cluster, and how long it takes");
  command->footer(collective_examples);
  command
      ->add_option("OPERATION", a.operations,
                   "all_gather, reduce_scatter, all_reduce, broadcast, reduce, all_to_all, or all")
      ->required();
  command->add_option("--cluster", a.cluster, "A preset or a JSON file");
  command->add_option("--nodes", a.nodes, "Number of nodes")->check(within(1, 1'000'000));
  command->add_option("--sizes", a.sizes,
                      "Bytes of the whole buffer: FIRST:LAST by doubling, or a list; K, M, G");
  command->add_option("--nccl", a.nccl, "Another version than the cluster's")
      ->check(CLI::IsMember({"2.19", "2.27", "2.28", "2.30"}));
  add_group_options(*command, a);
  command->add_flag("--json", a.json, "Print one JSON object with raw numbers");
  command->add_option("--plot", a.plot, "Write bus bandwidth by size as SVG to this file");
  command->callback([arguments, command, &exit_code] {
    Status status = check_acting(
        *command, {{"--group-stride", arguments->group_size > 0, "without --group-size"}});
    if (status.ok()) status = check_not_empty(*command);
    if (status.ok()) status = collective(*arguments);
    if (!status.ok()) exit_code = complain(status);
  });
}

}  // namespace tessera::cli
