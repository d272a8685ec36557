// SPDX-License-Identifier: Apache-2.0
// Fits descriptions of a machine to what was measured on it.
#include "tessera/sim/calibrate.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <sstream>

#include "cli/calibrate/cluster_file.h"
#include "cli/calibrate/kernel_log.h"
#include "cli/calibrate/run_fit.h"
#include "cli/collective/collective_rows.h"
#include "cli/collective/nccl_log.h"
#include "cli/command.h"
#include "cli/options/checks.h"
#include "cli/text_file.h"
#include "cli/train/named_files.h"
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
  std::string profile;             // to write
  std::vector<std::string> given;  // options that not every kind of log has a use for
};

constexpr const char* calibrate_examples = R"(Examples:
  all_reduce_perf -b 32K -e 16G -f 2 -g 8 > node.log
  tessera calibrate node.log --cluster dgx-h100 -o mine.json
  tessera calibrate two.log --cluster mine.json --nodes 2 -o mine2.json
  scripts/kernel-sweep > kernels.csv; tessera calibrate kernels.csv --cluster mine.json -o m.json
  tessera calibrate a.tessera b.tessera -o machine.json --profile-output stack.json

Exit codes: 0 done, 2 bad input.)";

Result<std::string> text_in(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  if (file) text << file.rdbuf();
  if (!file) return refused(fmt::format("cannot read the log {}", path));
  return text.str();
}

// Errors of halves that predict each other above this are no fit's fault.
constexpr double disagreeing = 0.3;

Result<OpKind> kind_of(const CalibrateArguments& a, const NcclLog& log, const std::string& path) {
  if (a.operation.empty()) {
    if (log.kind) return *log.kind;
    return refused(fmt::format("{} does not say what ran: add --operation", path));
  }
  TESSERA_ASSIGN(const auto kinds, parse_operations({a.operation}));
  if (!log.kind || *log.kind == kinds.front()) return kinds.front();
  return refused(fmt::format("{} says that {} ran, --operation says {}: leave that out", path,
                             name_of(*log.kind), a.operation));
}

std::string repeated_text(const std::string& path, std::size_t rows) {
  return fmt::format("{}: {} rows are as others in size and time and are left out", path, rows);
}

Status add_nccl_log(const CalibrateArguments& a, const sim::Cluster& cluster, Bytes least,
                    const NcclLog& log, const std::string& path,
                    std::vector<sim::MeasuredCollective>& samples) {
  TESSERA_ASSIGN(const OpKind kind, kind_of(a, log, path));
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
  std::size_t repeated = 0;
  for (const NcclLogRow& row : log.rows) {
    if (row.bytes < least) continue;
    const auto same = [&](const sim::MeasuredCollective& s) {
      return s.shape.kind == kind && s.shape.bytes == row.bytes && s.us == row.us;
    };
    // They would predict each other, and seem to be sure.
    const bool again = std::any_of(samples.begin(), samples.end(), same);
    repeated += again ? 1 : 0;
    if (!again) samples.push_back({{kind, row.bytes, ranks, a.nodes, per_node}, row.us});
  }
  std::vector<std::string> warnings = warnings_of(log, path);
  if (repeated > 0) warnings.push_back(repeated_text(path, repeated));
  print_warnings(warnings);
  return {};
}

Status add_samples(const CalibrateArguments& a, const sim::Cluster& cluster, Bytes least,
                   const std::string& text, const std::string& path,
                   std::vector<sim::MeasuredCollective>& samples) {
  TESSERA_ASSIGN(const auto logs, parse_nccl_logs(text, path));
  for (const NcclLog& log : logs) {
    TESSERA_TRY(add_nccl_log(a, cluster, least, log, path, samples));
  }
  return {};
}

struct Inputs {
  std::vector<sim::MeasuredCollective> collectives;
  std::optional<KernelLog> kernels;
  std::vector<RunTrace> runs;
};

Status add_kernels(const std::string& text, const std::string& path, Inputs& inputs) {
  TESSERA_ASSIGN(KernelLog log, parse_kernel_log(text, path));
  if (log.repeated > 0) print_warnings({repeated_text(path, log.repeated)});
  if (!inputs.kernels) {
    inputs.kernels = std::move(log);
    return {};
  }
  if (inputs.kernels->attention != log.attention) {
    return refused(fmt::format("{} is of attention {}, another sweep of {}: calibrate by one first",
                               path, log.attention, inputs.kernels->attention));
  }
  auto& all = inputs.kernels->kernels;
  all.insert(all.end(), log.kernels.begin(), log.kernels.end());
  return {};
}

bool is_trace(std::string_view text) { return text.starts_with("SQLite format 3"); }

// Rows that are there twice would predict each other.
Status check_files(const CalibrateArguments& a) {
  std::vector<NamedFile> logs;
  for (const std::string& log : a.logs) {
    for (const NamedFile& earlier : logs) {
      if (same_file(earlier.path, log)) return refused(fmt::format("{} is given twice", log));
    }
    logs.push_back({"a log", log});
  }
  TESSERA_TRY(check_apart({"--output", a.output}, logs));
  if (a.profile.empty()) return {};
  TESSERA_TRY(check_apart({"--profile-output", a.profile}, logs));
  if (!same_file(a.output, a.profile)) return {};
  return refused(
      fmt::format("--output and --profile-output name the same file {}: choose two", a.output));
}

Status check_meant(const CalibrateArguments& a, const Inputs& inputs) {
  if (!inputs.collectives.empty()) return {};
  for (const std::string& flag : a.given) {
    const bool of_machine = flag == "--cluster";
    if (of_machine && inputs.runs.empty()) continue;
    return refused(fmt::format("{} means nothing for {}: it is about logs of {}", flag,
                               inputs.runs.empty() ? "a sweep of kernels" : "traces of runs",
                               of_machine ? "a machine's parts" : "nccl-tests"));
  }
  return {};
}

Result<Inputs> read_inputs(const CalibrateArguments& a, const sim::Cluster& cluster) {
  TESSERA_ASSIGN(const Bytes least, parse_size("--least", a.least));
  TESSERA_TRY(check_files(a));
  Inputs inputs;
  std::set<std::string> texts;
  for (const std::string& path : a.logs) {
    TESSERA_ASSIGN(const std::string text, text_in(path));
    if (!texts.insert(text).second) {
      return refused(fmt::format("{} is a copy of another log: give it once", path));
    }
    if (is_trace(text)) {
      TESSERA_ASSIGN(RunTrace run, read_run_trace(path));
      inputs.runs.push_back(std::move(run));
    } else if (is_kernel_log(text)) {
      TESSERA_TRY(add_kernels(text, path, inputs));
    } else {
      TESSERA_TRY(add_samples(a, cluster, least, text, path, inputs.collectives));
    }
  }
  if (inputs.runs.empty() || inputs.runs.size() == a.logs.size()) {
    TESSERA_TRY(check_meant(a, inputs));
    return inputs;
  }
  return refused(
      "traces of runs and logs of one machine's parts give different files: calibrate by "
      "one kind at a time");
}

std::string source_of(const CalibrateArguments& a) {
  return fmt::format("tessera calibrate: {} on {} node{}", fmt::join(a.logs, ", "), a.nodes,
                     a.nodes == 1 ? "" : "s");
}

Status fit_machine(const CalibrateArguments& a, sim::Cluster cluster, const Inputs& inputs) {
  if (!a.profile.empty()) {
    return refused("--profile-output: a profile is fitted to traces of runs, and there are none");
  }
  TESSERA_ASSIGN(const std::string text, sim::cluster_text(a.cluster));
  auto json = nlohmann::ordered_json::parse(text);
  std::vector<std::string> said;
  if (inputs.kernels) {
    if (inputs.kernels->multiprocessors > 0) {
      cluster.gpu.multiprocessors = inputs.kernels->multiprocessors;
    }
    if (cluster.gpu.multiprocessors == 0) {
      return refused(
          fmt::format("{} does not say how many multiprocessors {} has: add a line "
                      "'# multiprocessors N' to the sweep",
                      a.cluster, cluster.gpu.name));
    }
    const auto& kernels = *inputs.kernels;
    const auto fit = sim::fit_kernels(cluster.gpu, kernels.attention, kernels.kernels);
    put_kernels(json, fit.gpu, source_of(a));
    said.push_back(fmt::format(
        "{} kernels: matmuls {:.1f} % in the median, 9 in 10 within {:.1f} %; attention {:.1f} %, "
        "{:.1f} %",
        kernels.kernels.size(), 100 * fit.matmul_median, 100 * fit.matmul_p90,
        100 * fit.attention_median, 100 * fit.attention_p90));
  }
  const std::size_t rows = inputs.collectives.size();
  if (rows > 0 || !inputs.kernels) {
    if (rows < 4)
      return refused(fmt::format("{} rows of at least {}: a fit needs 4", rows, a.least));
    const sim::CollectiveFit fit = sim::fit_collectives(cluster, inputs.collectives);
    put_collectives(json, fit.cluster,
                    fmt::format("{}, mean error where halves of the rows predict each other "
                                "{:.1f} %",
                                source_of(a), 100 * fit.error_of_others));
    said.push_back(fmt::format(
        "{} rows, mean error {:.1f} % before, {:.1f} % fitted, {:.1f} % where halves of the rows "
        "predict each other",
        rows, 100 * fit.error_before, 100 * fit.error_after, 100 * fit.error_of_others));
    if (fit.error_of_others > disagreeing) {
      print_warnings(
          {"the rows do not agree with one another, or with any machine of this kind: "
           "look at what else ran, and at --cluster"});
    }
  }
  TESSERA_TRY(write_text_file(a.output, json.dump(2) + "\n"));
  for (const std::string& sentence : said) fmt::print("{}: {}\n", a.output, sentence);
  return {};
}

Status fit_to_runs(const CalibrateArguments& a, const std::vector<RunTrace>& runs) {
  if (a.profile.empty()) {
    return refused("traces of runs give a cluster and a profile: add --profile-output FILE");
  }
  for (const RunTrace& run : runs) {
    if (run.run.ranks == runs.front().run.ranks) continue;
    return refused(
        fmt::format("{} has {} ranks, {} has {}: processes that share cores are another "
                    "machine, so calibrate by runs of as many ranks",
                    runs.front().path, runs.front().run.ranks, run.path, run.run.ranks));
  }
  TESSERA_ASSIGN(const RunFit fit, fit_runs(runs));
  TESSERA_TRY(write_text_file(a.output, fit.cluster));
  TESSERA_TRY(write_text_file(a.profile, fit.profile));
  for (std::size_t k = 0; k < runs.size(); ++k) {
    const std::string others =
        fit.errors_of_others.empty()
            ? ""
            : fmt::format(", {:+.1f} % by the others", 100 * fit.errors_of_others[k]);
    fmt::print("{}: {:.3f} ms a step, simulated {:+.1f} %{}\n", runs[k].path, runs[k].step_ns / 1e6,
               100 * fit.errors[k], others);
  }
  fmt::print("tessera simulate ... --cluster {} --profile {}\n", a.output, a.profile);
  return {};
}

Status calibrate(const CalibrateArguments& a) {
  TESSERA_ASSIGN(const auto cluster, sim::load_cluster(a.cluster, a.nodes));
  TESSERA_ASSIGN(const Inputs inputs, read_inputs(a, cluster));
  TESSERA_TRY(check_overwrites("--output", a.output, "cluster file", "\"tessera_cluster\""));
  TESSERA_TRY(check_overwrites("--profile-output", a.profile, "profile", "\"tessera_profile\""));
  return inputs.runs.empty() ? fit_machine(a, cluster, inputs) : fit_to_runs(a, inputs.runs);
}

}  // namespace

void add_calibrate(CLI::App& app, int& exit_code) {
  auto arguments = std::make_shared<CalibrateArguments>();
  CalibrateArguments& a = *arguments;
  CLI::App* command =
      app.add_subcommand("calibrate", "Fit descriptions of a machine to what was measured on it");
  command->footer(calibrate_examples);
  command
      ->add_option("LOG", a.logs,
                   "What nccl-tests or scripts/kernel-sweep printed, or traces of tessera train")
      ->required();
  command->add_option("--cluster", a.cluster, "The preset or file to begin with");
  command->add_option("--nodes", a.nodes, "Nodes that ran")->check(within(1, 1'000'000));
  command->add_option("--ranks-per-node", a.ranks_per_node, "GPUs of each that ran; 0: all of them")
      ->check(within(0, 4096));
  command->add_option("--operation", a.operation, "all_reduce, ... if the log does not say");
  command->add_option("--least", a.least, "Leave out rows of fewer bytes");
  command->add_option("-o,--output", a.output, "The cluster file to write")->required();
  command->add_option("--profile-output", a.profile, "Of traces: the profile to write")
      ->default_str("");
  command->callback([arguments, command, &exit_code] {
    for (const char* flag :
         {"--cluster", "--nodes", "--ranks-per-node", "--operation", "--least"}) {
      if (command->count(flag) > 0) arguments->given.emplace_back(flag);
    }
    const Status status = calibrate(*arguments);
    if (!status.ok()) exit_code = complain(status);
  });
}

}  // namespace tessera::cli
