// SPDX-License-Identifier: Apache-2.0
// Rules of thumb beside what a simulated run needs.
#include "tessera/estimate.h"

#include <fmt/format.h>

#include <array>
#include <future>
#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "cli/options/checks.h"
#include "cli/options/engine_options.h"
#include "cli/report/table.h"
#include "tessera/sim/error_range.h"
#include "tessera/sim/simulate.h"

namespace tessera::cli {
namespace {

using Json = nlohmann::ordered_json;

struct EstimateArguments {
  std::string model_path;
  std::string cluster = "dgx-h100";
  std::int32_t nodes = 1;
  std::int64_t batch = 1;
  std::int64_t sequence_length = 0;
  std::string checkpointing = "none";
  bool json = false;
};

constexpr const char* estimate_examples = R"(Examples:
  tessera estimate examples/models/llama-3-8b.json --nodes 8
  tessera estimate config.json --nodes 2 --checkpointing full --json

Exit codes: 0 done, 2 bad input.)";

// Keeps the memory of the step and ranks that need most.
class PeakSink final : public TraceSink {
 public:
  PeakMemory peak;

  void begin(const TraceRun&) override {}
  void stream(const TraceStream&) override {}
  void communicator(const TraceCommunicator&) override {}
  void unit(const TraceUnit&) override {}
  void op(const TraceOp&) override {}
  void spans(const SpanBatch&) override {}
  void buffer(const TraceBuffer&) override {}
  void memory(std::span<const MemorySample>) override {}
  void peak_memory(const PeakMemory& found) override {
    if (found.allocated > peak.allocated) peak = found;
  }
  void rank_steps(const RankStepBatch&) override {}
  void diagnostic(const TraceDiagnostic&) override {}
  Status finish() override { return {}; }
};

struct Row {
  std::int32_t stage = 0;
  double paper = 0;
  double deepspeed = 0;  // 0: it has no estimate
  Bytes parameters{}, gradients{}, optimizer{}, activations{}, buffers{}, unused{}, total{};
  Bytes available{};  // of a GPU, beside the context
  bool fits() const { return total <= available; }
  sim::ErrorRange sure;
};

Bytes sum(const PeakMemory& peak, std::initializer_list<MemoryClass> classes) {
  Bytes total{};
  for (MemoryClass c : classes) total += peak.by_class[static_cast<std::size_t>(c)];
  return total;
}

Scheme scheme_of(std::int32_t stage) {
  if (stage == 3) {
    Zero3Options options;
    options.param_dtype = DType::bfloat16;
    return options;
  }
  return Zero12Options{.stage = stage, .overlap_comm = stage == 2, .param_dtype = DType::bfloat16};
}

// What DeepSpeed's own table of offloading has.
struct OffloadRow {
  std::int32_t stage = 0;
  const char* offloaded = "";
  bool zero_init = true;
  DeepSpeedAnswer says;
};

std::vector<OffloadRow> offload_rows(const Model& model, const sim::Cluster& cluster) {
  DeepSpeedQuestion q{.parameters = static_cast<double>(model.parameter_count().value),
                      .largest_layer = static_cast<double>(largest_layer(model).value),
                      .gpus_per_node = cluster.gpus_per_node,
                      .nodes = cluster.nodes};
  std::vector<OffloadRow> rows;
  for (q.stage = 2; q.stage <= 3; ++q.stage) {
    for (const int offloaded : {0, 1, 2}) {
      q.offload_optimizer = offloaded > 0;
      q.offload_parameters = offloaded == 2;
      for (const bool init : {true, false}) {
        q.zero_init = init;
        if (q.stage == 2 && (!init || q.offload_parameters)) continue;
        constexpr const char* names[] = {"none", "optimizer", "optimizer, parameters"};
        rows.push_back({q.stage, names[offloaded], init, deepspeed_estimate(q)});
      }
    }
  }
  return rows;
}

Result<Row> row_of(std::int32_t stage, const Model& model, const sim::Cluster& cluster,
                   const TrainingOptions& training) {
  using enum MemoryClass;
  const auto parameters = static_cast<double>(model.parameter_count().value);
  Row row{.stage = stage, .paper = zero_model_states(stage, parameters, cluster.ranks())};
  if (stage > 1) {
    row.deepspeed =
        deepspeed_estimate({.stage = stage,
                            .parameters = parameters,
                            .largest_layer = static_cast<double>(largest_layer(model).value),
                            .gpus_per_node = cluster.gpus_per_node,
                            .nodes = cluster.nodes})
            .device;
  }
  PeakSink sink;
  sim::SimulateOptions options;
  options.cluster = cluster;
  row.available = cluster.gpu.memory - options.stack.context;
  options.cluster.gpu.memory = Bytes{};  // whatever it takes
  options.scheme = scheme_of(stage);
  options.training = training;
  options.steps = 2;
  options.sink = &sink;
  TESSERA_TRY(sim::simulate(model, options).status());
  row.parameters = sum(sink.peak, {sharded_parameters, unsharded_parameters});
  row.gradients = sum(sink.peak, {sharded_gradients, unsharded_gradients});
  row.optimizer = sum(sink.peak, {optimizer_state});
  row.activations = sum(sink.peak, {activations, temporary, inputs});
  row.unused = sum(sink.peak, {reserved_unused});
  row.total = sink.peak.reserved;
  row.sure = sim::memory_error(sim::run_of(model, options));
  row.buffers =
      row.total - row.parameters - row.gradients - row.optimizer - row.activations - row.unused;
  return row;
}

std::string gib(double bytes) { return fmt::format("{:.2f}", bytes / (1 << 30)); }
std::string gib(Bytes bytes) { return gib(static_cast<double>(bytes.value)); }

void print_table(const Model& model, const sim::Cluster& cluster, const std::vector<Row>& rows) {
  Table table(fmt::format("{}, {} parameters on {} GPUs, GiB per GPU", model.name,
                          with_separators(model.parameter_count().value), cluster.ranks()),
              {"stage", "ZeRO paper", "DeepSpeed 0.19 says", "simulated", "fits", "parameters",
               "gradients", "optimizer", "activations", "buffers", "unused"});
  for (const Row& r : rows) {
    table.row({std::to_string(r.stage), gib(r.paper), r.deepspeed > 0 ? gib(r.deepspeed) : "-",
               gib(r.total), r.fits() ? "yes" : "no", gib(r.parameters), gib(r.gradients),
               gib(r.optimizer), gib(r.activations), gib(r.buffers), gib(r.unused)});
  }
  table.note(
      "The first two are formulas of model states: they leave out buckets, gathered parameters, "
      "activations and fragmentation. The others are what rank memory is made of when the "
      "simulated run needs most.");
  table.note(fmt::format("It fits within {} GiB: what a GPU of {} has beside the CUDA context.",
                         gib(rows.front().available), cluster.name));
  for (const Row& r : rows) {
    if (&r == &rows.front() || r.sure.text != rows.front().sure.text) {
      table.note("how sure: " + r.sure.text);
    }
  }
  fmt::print("{}", table.text(false));
}

void print_offload_table(const std::vector<OffloadRow>& rows) {
  Table table("What DeepSpeed 0.19 says of model states, GiB",
              {"stage", "on the CPU", "zero.Init", "per GPU", "host, per node"});
  for (const OffloadRow& r : rows) {
    table.row({std::to_string(r.stage), r.offloaded,
               r.stage == 2  ? "-"
               : r.zero_init ? "yes"
                             : "no",
               gib(r.says.device), gib(r.says.host)});
  }
  fmt::print("\n{}", table.text(false));
}

void print_json(const Model& model, const sim::Cluster& cluster, const std::vector<Row>& rows) {
  Json out{{"model", model.name},
           {"parameters", model.parameter_count().value},
           {"largest_layer", largest_layer(model).value},
           {"ranks", cluster.ranks()}};
  for (const Row& r : rows) {
    Json row{{"stage", r.stage}, {"paper_bytes", r.paper}};
    row["deepspeed_bytes"] = r.deepspeed > 0 ? Json(r.deepspeed) : Json();
    row["simulated"] = {{"total_bytes", r.total.value},
                        {"parameters_bytes", r.parameters.value},
                        {"gradients_bytes", r.gradients.value},
                        {"optimizer_bytes", r.optimizer.value},
                        {"activations_bytes", r.activations.value},
                        {"buffers_bytes", r.buffers.value},
                        {"unused_bytes", r.unused.value}};
    row["available_bytes"] = r.available.value;
    row["fits"] = r.fits();
    row["validated"] = {{"memory", Json::parse(sim::to_json(r.sure))}};
    out["stages"].push_back(std::move(row));
  }
  for (const OffloadRow& r : offload_rows(model, cluster)) {
    out["deepspeed_0_19"].push_back({{"stage", r.stage},
                                     {"offloaded", r.offloaded},
                                     {"zero_init", r.zero_init},
                                     {"device_bytes", r.says.device},
                                     {"host_bytes", r.says.host}});
  }
  fmt::print("{}\n", out.dump(2));
}

Status estimate(const EstimateArguments& a) {
  TESSERA_ASSIGN(const Model model, load_model(a.model_path));
  TESSERA_ASSIGN(const auto cluster, sim::load_cluster(a.cluster, a.nodes));
  TESSERA_TRY(sim::check_ranks(scheme_of(1), cluster.ranks()));
  TrainingOptions training;
  training.batch = a.batch;
  training.sequence_length = a.sequence_length;
  TESSERA_TRY(settle_sequences(training, model));
  print_warnings(model_warnings(a.model_path, model));
  if (a.checkpointing == "full") training.checkpointing = ActivationCheckpointing::full;
  std::vector<std::future<Result<Row>>> runs;  // side by side: they share nothing
  for (std::int32_t stage = 1; stage <= 3; ++stage) {
    runs.push_back(std::async(std::launch::async,
                              [&, stage] { return row_of(stage, model, cluster, training); }));
  }
  std::vector<Row> rows;
  for (auto& run : runs) {
    TESSERA_ASSIGN(const Row row, run.get());
    rows.push_back(row);
  }
  if (a.json) {
    print_json(model, cluster, rows);
  } else {
    print_table(model, cluster, rows);
    print_offload_table(offload_rows(model, cluster));
  }
  return {};
}

}  // namespace

void add_estimate(CLI::App& app, int& exit_code) {
  auto arguments = std::make_shared<EstimateArguments>();
  EstimateArguments& a = *arguments;
  CLI::App* command = app.add_subcommand(
      "estimate", "Print what formulas say of ZeRO's memory beside what a simulated run needs");
  command->footer(estimate_examples);
  command
      ->add_option("MODEL", a.model_path,
                   "Hugging Face config.json, or a module tree (docs/model-format.md)")
      ->required();
  command->add_option("--cluster", a.cluster, "A preset or a JSON file");
  command->add_option("--nodes", a.nodes, "Number of nodes")->check(within(1, 1'000'000));
  command->add_option("--batch", a.batch, "Sequences per rank")->check(within(1, 1'000'000));
  command
      ->add_option("--sequence-length", a.sequence_length,
                   "Tokens per sequence; 0: the model's longest, at most 8192")
      ->check(within(0, 100'000'000));
  command->add_option("--checkpointing", a.checkpointing, "Activation checkpointing of the blocks")
      ->check(CLI::IsMember({"none", "full"}));
  command->add_flag("--json", a.json, "Print one JSON object with raw numbers");
  command->callback([arguments, &exit_code] {
    const Status status = estimate(*arguments);
    if (!status.ok()) exit_code = complain(status);
  });
}

}  // namespace tessera::cli
