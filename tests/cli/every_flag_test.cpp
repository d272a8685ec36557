// SPDX-License-Identifier: Apache-2.0
// Every flag that the help of a sub-command lists changes what the program decides, writes or
// prints, or is refused. What it leaves in the options of a trace does not count.
#include <fmt/format.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdint>
#include <fstream>
#include <map>
#include <set>

#include "tessera/scheme.h"
#include "tessera/training.h"
#include "tests/cli/flags.h"
#include "tests/cli/program.h"
#include "tests/options/sample_value.h"

namespace tessera::test {
namespace {

// Four blocks of unlike parameters, more than there are ranks; a buffer, a pass that leaves blocks
// out, odd sizes.
constexpr const char* model_text = R"({"tessera_model": 1, "name": "small", "root":
  {"class": "Net", "modules": [
    {"name": "h", "class": "List", "modules": [
      {"name": "0", "class": "Block", "modules": [{"name": "a", "class": "Linear", "parameters":
        [{"name": "bias", "shape": [7]}, {"name": "weight", "shape": [16, 8]}],
        "flops_per_sample": [0, 500000, 9], "activation_bytes_per_sample": [0, 64, 1]}],
        "buffers": [{"name": "mean", "shape": [5]}]},
      {"name": "1", "class": "Block", "parameters": [{"name": "weight", "shape": [32, 9]},
        {"name": "bias", "shape": [9]}]},
      {"name": "2", "class": "Block", "parameters": [{"name": "weight", "shape": [24, 8]},
        {"name": "bias", "shape": [11]}]},
      {"name": "3", "class": "Block", "parameters": [{"name": "weight", "shape": [40, 8]},
        {"name": "bias", "shape": [5]}]}]},
    {"name": "out", "class": "Linear", "parameters": [{"name": "weight", "shape": [4, 40]},
        {"name": "bias", "shape": [4]}]}]},
  "units": ["h.0", "h.1", "h.2", "h.3"], "graphs": {"short": ["h.0.a", "h.1", "out"]}})";

struct Seen {
  std::string what;  // exit codes, lists of operations, the report of a trace
  bool refused = false;
  std::string messages;
};

void write_model() {
  std::ofstream(run_folder() + "small.json") << model_text;
  std::ofstream(run_folder() + "plan.json") << R"({"tessera_plan": 1, "units": []})";
}

// One kernel, as PyTorch's profiler writes it.
void write_profile() {
  std::ofstream(run_folder() + "rank0.json") << R"({"traceEvents": [{"ph": "X", "cat": "kernel",
    "name": "gemm", "pid": 0, "tid": 7, "ts": 1.5, "dur": 2}]})";
}

// Steps enough for what the first ones decide.
Seen simulated(const std::string& arguments) {
  const ProgramRun listed = run_tessera("ops small.json --steps 3 " + arguments);
  const ProgramRun run =
      run_tessera("simulate small.json --steps 3 --json -o small.tessera " + arguments);
  return {listed.output + listed.messages + report_without_options(run.output) + run.messages,
          run.exit_code == 2 && listed.exit_code == 2, run.messages};
}

const Seen& simulated_before(const std::string& arguments) {
  static std::map<std::string, Seen> seen;
  const auto found = seen.find(arguments);
  return found != seen.end() ? found->second
                             : seen.emplace(arguments, simulated(arguments)).first->second;
}

// What an option needs besides what it says itself: without these defaults hide what it does.
std::string context_of(const std::string& scheme, const Option& option) {
  static const std::map<std::string, std::string> contexts = {
      {"keep_low_precision_grads", "--reduce-dtype bf16 "},
      {"forward_prefetch", "--batch 4 "},
      {"offload_ratio", "--sub-group-size 64 "},
      {"max_reuse_distance", "--persistence-threshold 0 --prefetch-bucket 0 "},
      {"bucket_cap", "--first-bucket-cap 3 "},
      {"reduce_buffer_size", "--process-group 2 "},
      {"round_robin_gradients", "--reduce-bucket 300 "},
      {"offload_param", "--persistence-threshold 0 "},
      {"max_live_parameters", "--persistence-threshold 0 --policy compatible "},
      {"prefetch_bucket", "--persistence-threshold 0 --policy compatible "},
      {"live_budget", "--persistence-threshold 0 "},
      {"find_unused_parameters", "--passes train:short,step "},
      {"buffer_size", "--nvme-smallest 0 --persistence-threshold 0 "},
      {"buffer_count", "--nvme-smallest 0 --persistence-threshold 0 --buffer-size 400 "},
      {"optimizer_buffer_count", "--nvme-smallest 0 --persistence-threshold 0 "},
      {"use_gds", "--nvme-smallest 0 --persistence-threshold 0 "},
      {"nvme_alignment", "--nvme-smallest 0 --persistence-threshold 0 "},
      {"pipeline_read", "--nvme-smallest 0 --persistence-threshold 0 --sub-group-size 64 "},
      {"pipeline_write", "--nvme-smallest 0 --persistence-threshold 0 --sub-group-size 64 "}};
  std::string context = "--scheme " + scheme + " ";
  if (scheme.starts_with("hybrid") && option.name != "shard_group") context += "--shard-group 4 ";
  for (const Option& other : options_known_to(scheme)) {
    if (option.needs.empty() || other.name != option.needs.front().option) continue;
    const bool flag = other.kind == OptionKind::flag;
    context += flag_of(other) + (flag ? " " : " " + option.needs.front().words.back() + " ");
  }
  if (context.find("nvme") != std::string::npos) context += "--nvme-smallest 0 ";
  const auto special = contexts.find(option.name);
  return special == contexts.end() ? context : context + special->second;
}

std::string argument_of(const Option& option, bool keeps_whole) {
  static const std::map<std::string, std::string> samples = {
      {"nvme_smallest", "1000000"},  {"buffer_size", "400"},         {"live_budget", "3000"},
      {"leaf_modules", "h"},         {"module_granularity", "1000"}, {"reduce_dtype", "float16"},
      {"broadcast_dtype", "float16"}};
  if (option.kind == OptionKind::flag) return "";
  // Of another size than what programs gather unless told.
  if (option.name == "param_dtype") return keeps_whole ? "fp16" : "fp32";
  const auto special = samples.find(option.name);
  return special == samples.end() ? to_text(sample_value(option)) : special->second;
}

}  // namespace

TEST_CASE("every option of every scheme changes operations, times or memory, or is refused",
          "[cli][flags]") {
  write_model();
  for (const std::string& scheme : scheme_names()) {
    const bool keeps_whole = scheme == "replicate" || scheme == "sharded_data_parallel";
    for (const Option& option : options_known_to(scheme)) {
      const std::string context = context_of(scheme, option);
      std::string with = context + flag_of(option);
      if (option.kind != OptionKind::flag) with += " '" + argument_of(option, keeps_whole) + "'";
      // Where all ranks are one node there is nothing to save between nodes.
      if (option.name == "quantized_gradients") with += " --ranks-per-node 4";
      INFO("tessera ops small.json " << with);
      const Seen seen = simulated(with);
      CHECK((seen.refused || seen.what != simulated_before(context).what));
    }
  }
}

TEST_CASE("a flag that means nothing to a scheme is refused with both names", "[cli][flags]") {
  write_model();
  std::map<std::string, Option> options;
  std::map<std::string, std::set<std::string>> known;
  for (const std::string& scheme : scheme_names()) {
    for (const Option& option : options_known_to(scheme)) {
      options.emplace(flag_of(option), option);
      known[flag_of(option)].insert(scheme);
    }
  }
  // Of those that plan wrapping, replicate's flag is that of the planner.
  options.erase("--ignore-modules");
  for (const auto& [flag, option] : options) {
    int tried = 0;  // two schemes are enough, for all are asked in the same way
    for (const std::string& scheme : scheme_names()) {
      if (known[flag].contains(scheme) || ++tried > 2) continue;
      const bool bare = option.kind == OptionKind::flag;
      const ProgramRun run = run_tessera("ops small.json --scheme " + scheme + " " + flag +
                                         (bare ? "" : " '" + to_text(sample_value(option)) + "'"));
      INFO(scheme << " " << flag << ": " << run.messages);
      CHECK(run.exit_code == 2);
      CHECK(run.messages.find(flag + " means nothing to the scheme " + scheme) !=
            std::string::npos);
    }
  }
}

namespace {

// Flags of simulate and ops that no scheme has.
const std::vector<FlagCase> planning_cases = {
    {"--scheme", "replicate", ""},
    {"--wrap", "Linear", ""},
    {"--ignore-modules", "h.1", ""},
    {"--ignore-modules", "h.1", "--scheme full_shard "},
    {"--ignore-modules", "h.1", "--scheme replicate "},
    {"--ignore-parameters", "h.1.weight", ""},
    {"--ignore-parameters", "h.1.weight", "--scheme no_shard "},
    {"--plan", "plan.json", ""},
    {"--deepspeed", "ds.json", ""},
    {"--batch", "3", ""},
    {"--sequence-length", "7", ""},
    {"--accumulation", "2", ""},
    {"--no-sync", "", ""},
    {"--no-sync", "", "--accumulation 2 "},
    {"--no-sync", "", "--accumulation 2 --scheme zero2 "},
    {"--no-sync", "", "--accumulation 2 --scheme zero3 "},
    {"--no-sync", "", "--deepspeed ds.json "},
    {"--max-grad-norm", "1", ""},
    {"--optimizer-states", "1", ""},
    {"--optimizer-dtype", "int8", ""},
    {"--checkpointing", "full", ""},
    {"--checkpoint-every", "2", ""},
    {"--checkpoint-every", "2", "--checkpointing full "},
    {"--checkpoint-blocks", "h.1", ""},
    {"--checkpoint-blocks", "h.1", "--checkpointing full "},
    {"--recompute", "norm", ""},
    {"--offload-activations", "1", ""},
    {"--lora", "rank=2,target=all-linear", ""},
    {"--passes", "eval,train,step", ""}};

const std::vector<FlagCase> simulate_cases = {{"--cluster", "dgx-2", ""},
                                              {"--nodes", "2", ""},
                                              {"--jitter", "0.5", ""},
                                              {"--slow-rank", "1:3", ""},
                                              {"--slow-link", "0:3", ""},
                                              {"--steps", "2", ""},
                                              {"--seed", "3", "--jitter 0.5 "},
                                              {"--output", "y.tessera", ""},
                                              {"--record-ranks", "none", ""},
                                              {"--record-steps", "0", "--steps 2 "},
                                              {"--no-record-memory", "", ""},
                                              {"--json", "", ""},
                                              {"--quiet", "", ""},
                                              {"--again", "y.tessera", ""}};

const std::vector<FlagCase> ops_cases = {
    {"--ranks", "3", ""}, {"--steps", "2", ""}, {"--format", "fsdp", ""}};

// Of language models, whose attention and loss these are about.
const std::vector<FlagCase> software_cases = {
    {"--profile", "compile", ""},  {"--attention-kernel", "unfused", ""}, {"--loss", "chunked", ""},
    {"--allocator", "events", ""}, {"--matmul-dtype", "fp8", ""},         {"--no-dropout", "", ""}};

std::vector<FlagCase> operator+(std::vector<FlagCase> a, const std::vector<FlagCase>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

// Those that the lists of schemes try.
std::vector<FlagCase> listed_cases() {
  std::vector<FlagCase> cases;
  for (const OptionFamily& family : option_families()) {
    for (const Option& option : family.options) cases.push_back({flag_of(option), "", ""});
  }
  return cases;
}

}  // namespace

TEST_CASE("every flag of simulate and ops acts or is refused", "[cli][flags]") {
  write_model();
  std::ofstream(run_folder() + "ds.json") << R"({"zero_optimization": {"stage": 2}})";
  CHECK(missing(flags_of("simulate"),
                planning_cases + simulate_cases + software_cases + listed_cases()) == "");
  CHECK(missing(flags_of("ops"), planning_cases + ops_cases + listed_cases()) == "");
  check_cases("simulate small.json -o small.tessera", "small.tessera",
              planning_cases + simulate_cases);
  check_cases("simulate '" + example_model("gpt2") + "' --steps 1 -o small.tessera",
              "small.tessera", software_cases);
  check_cases("ops small.json", "", planning_cases + ops_cases);
}

TEST_CASE("every flag of estimate, wrap, report and doctor acts or is refused", "[cli][flags]") {
  write_model();
  const std::vector<FlagCase> estimate = {{"--cluster", "dgx-2", ""},
                                          {"--nodes", "2", ""},
                                          {"--batch", "3", "--json "},
                                          {"--sequence-length", "7", "--json "},
                                          {"--checkpointing", "full", "--json "},
                                          {"--json", "", ""}};
  CHECK(missing(flags_of("estimate"), estimate) == "");
  check_cases("estimate '" + example_model("gpt-tiny") + "'", "", estimate);
  const std::vector<FlagCase> wrap = {{"--policy", "always", ""},
                                      {"--class", "Linear", ""},
                                      {"--class", "Linear", "--policy class "},
                                      {"--min-params", "100", "--policy size "},
                                      {"--min-params", "100", ""},
                                      {"--force-leaf", "Block", "--policy size --min-params 9 "},
                                      {"--exclude", "Linear", "--policy size --min-params 9 "},
                                      {"--ignore-modules", "h.1", ""},
                                      {"--ignore-parameters", "h.1.weight", ""},
                                      {"--plan", "plan.json", ""},
                                      {"--write-plan", "written.json", ""},
                                      {"--layout", "flat", ""},
                                      {"--ranks", "3", ""},
                                      {"--dtype", "bf16", ""},
                                      {"--json", "", ""}};
  CHECK(missing(flags_of("wrap"), wrap) == "");
  check_cases("wrap small.json", "written.json", wrap);
  REQUIRE(run_tessera("simulate small.json -q -o small.tessera").exit_code == 0);
  const std::vector<FlagCase> report = {{"--ranks", "0", ""}, {"--json", "", ""}};
  CHECK(missing(flags_of("report"), report) == "");
  check_cases("report small.tessera", "", report);
  CHECK(missing(flags_of("doctor"), {{"--json", "", ""}}) == "");
  check_cases("doctor", "", {{"--json", "", ""}});
  const std::vector<FlagCase> completion = {{"--output", "c.bash", ""}};
  CHECK(missing(flags_of("completion"), completion) == "");
  check_cases("completion bash", "", completion);
}

#ifdef TESSERA_HAS_INSPECTOR
TEST_CASE("every flag of inspect changes the picture", "[cli][flags]") {
  write_model();
  REQUIRE(run_tessera("simulate small.json -q --slow-rank 3:2 -o small.tessera").exit_code == 0);
  const std::string small = "--size 640x360 ";
  const std::vector<FlagCase> inspect = {{"--panel", "memory", small},
                                         {"--beside", "overview", "--size 900x500 "},
                                         {"--below", "overview", "--size 900x500 "},
                                         {"--time", "0:0.05", small + "--panel timeline "},
                                         {"--rank", "1", small},
                                         {"--theme", "light", small},
                                         {"--scale", "0.5", small},
                                         {"--size", "700x400", ""},
                                         {"--screenshot", "other.png", ""},
                                         {"--against", "small.tessera", small},
                                         {"--query", "'SELECT 1'", small}};
  CHECK(missing(flags_of("inspect"), inspect) == "");
  check_cases("inspect small.tessera --screenshot x.png", "x.png", inspect);
}
#endif

TEST_CASE("every flag of trace acts or is refused", "[cli][flags]") {
  write_model();
  REQUIRE(run_tessera("simulate small.json -q -o small.tessera").exit_code == 0);
  const std::vector<FlagCase> recover = {{"--output", "other.tessera", ""}};
  const std::vector<FlagCase> json = {{"--json", "", ""}};
  CHECK(missing(flags_of("trace recover"), recover) == "");
  check_cases("trace recover small.tessera -o x.tessera", "x.tessera", recover);
  CHECK(missing(flags_of("trace merge"), recover + json) == "");
  check_cases("trace merge small.tessera -o m.tessera", "m.tessera", recover + json);
  CHECK(missing(flags_of("trace verify"), json) == "");
  check_cases("trace verify small.tessera", "", json);
  const std::vector<FlagCase> quiet = {{"--quiet", "", ""}};
  const std::vector<FlagCase> to_export = {
      {"--output", "other.csv", ""}, {"--ranks", "0", ""}, {"--format", "chrome", ""}};
  CHECK(missing(flags_of("trace export"), to_export + quiet) == "");
  check_cases("trace export small.tessera -f csv -o x.csv", "x.csv", to_export);
  write_profile();
  CHECK(missing(flags_of("trace import"), recover + json + quiet) == "");
  check_cases("trace import rank0.json -o i.tessera", "i.tessera", recover + json);
  const std::vector<FlagCase> query = {{"--csv", "", ""}, {"--json", "", ""}};
  const std::vector<FlagCase> endless = {{"--deadline", "", ""}};  // below
  CHECK(missing(flags_of("query"), query + endless) == "");
  check_cases("query small.tessera 'SELECT * FROM run'", "", query);
  CHECK(missing(flags_of("compare"), json) == "");
  check_cases("compare small.tessera small.tessera", "", json);
}

TEST_CASE("every flag of collective, cluster and calibrate acts or is refused", "[cli][flags]") {
  const std::vector<FlagCase> collective = {
      {"--cluster", "dgx-a100", "--sizes 1M "},
      {"--nodes", "2", "--sizes 1M "},
      {"--ranks-per-node", "4", "--sizes 1M "},
      {"--ranks", "0-3", "--sizes 1M "},
      {"--group-size", "2", "--sizes 1M "},
      {"--group-stride", "2", "--sizes 1M "},
      {"--group-stride", "8", "--sizes 1M --nodes 2 --group-size 2 "},
      {"--sizes", "1M", ""},
      {"--nccl", "2.19", "--sizes 1M "},
      {"--json", "", "--sizes 1M "},
      {"--plot", "x.svg", "--sizes 1M "}};
  CHECK(missing(flags_of("collective"), collective) == "");
  check_cases("collective all_reduce", "x.svg", collective);
  for (const std::string command : {"cluster list", "cluster show", "cluster check"})
    CHECK(flags_of(command).empty());
  std::ofstream log(run_folder() + "plain.log");
  for (std::int64_t bytes = 32 << 10; bytes <= 256 << 20; bytes *= 2) {
    const double us = 20 + static_cast<double>(bytes) / 2e5;
    const double algbw = static_cast<double>(bytes) / us / 1e3;
    log << fmt::format(
        "  {}  {}  float  sum  -1  {:.2f}  {:.2f}  {:.2f}  0  {:.2f}  {:.2f}  {:.2f}  0\n", bytes,
        bytes / 4, us, algbw, algbw * 1.75, us, algbw, algbw * 1.75);
  }
  log.close();
  const std::string named = "--operation all_reduce ";
  const std::vector<FlagCase> calibrate = {{"--operation", "all_reduce", ""},
                                           {"--cluster", "dgx-a100", named},
                                           {"--nodes", "2", named},
                                           {"--ranks-per-node", "4", named},
                                           {"--least", "128K", named},
                                           {"--output", "other.json", named},
                                           {"--profile-output", "p.json", named}};
  CHECK(missing(flags_of("calibrate"), calibrate) == "");
  check_cases("calibrate plain.log -o x.json", "x.json", calibrate);
}

}  // namespace tessera::test
