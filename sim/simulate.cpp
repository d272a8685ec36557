// SPDX-License-Identifier: Apache-2.0
#include "tessera/sim/simulate.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>
#include <set>

#include "engine/text/option_json.h"
#include "tessera/sim/error_range.h"

namespace tessera::sim {
namespace {

// Everything a run depends on, so that a trace says how to make it again.
std::string options_json(const Model& model, const SimulateOptions& options) {
  nlohmann::ordered_json json;
  json["cluster"] = options.cluster.name;
  json["nodes"] = options.cluster.nodes;
  json["profile"] = nlohmann::ordered_json::parse(to_json(options.stack));
  const SimulatedRun run = run_of(model, options);
  const auto parsed = [](const ErrorRange& range) {
    return nlohmann::ordered_json::parse(to_json(range));
  };
  const StackProfile& stack = options.stack;
  const ErrorRange time = stack.calibrated_runs > 0
                              ? calibrated_error(stack.calibrated_runs, stack.calibrated_p90)
                              : step_time_error(run);
  const bool planned = stack.program == StackProfile::Program::train;
  const ErrorRange memory = planned ? planned_memory_error() : memory_error(run);
  json["validated"] = {{"step_time", parsed(time)}, {"memory", parsed(memory)}};
  json["steps"] = options.steps;
  json["seed"] = options.seed;
  json["jitter"] = options.jitter;
  for (const SlowRank& slow : options.slow_ranks) {
    json["slow_ranks"].push_back({{"rank", slow.rank}, {"factor", slow.factor}});
  }
  for (const SlowLink& slow : options.slow_links) {
    json["slow_links"].push_back({{"node", slow.node}, {"factor", slow.factor}});
  }
  for (const auto& [name, value] : options_of(options.scheme, model)) {
    json[name] = option_json(value);
  }
  for (const auto& [name, value] : options_of(options.training)) json[name] = option_json(value);
  return json.dump();
}

bool computes_in_half(const SimulateOptions& options) {
  return options.stack.autocast || compute_dtype(options.scheme) != DType::float32;
}

TraceRun trace_run(const Model& model, const SimulateOptions& options) {
  const Cluster& cluster = options.cluster;
  const auto& training = options.training;
  const std::int64_t samples = training.batch * static_cast<std::int64_t>(cluster.ranks());
  std::int64_t passes = training.passes.empty() ? training.accumulation : 0;
  double flops = static_cast<double>(passes) * flops_per_sample(model, training.sequence_length);
  for (const TrainingPass& pass : training.passes) {
    if (!pass.trains()) continue;
    ++passes;
    flops += flops_per_sample(model, *model.find_graph(pass.graph), training.sequence_length);
  }
  const bool half = computes_in_half(options);
  TraceRun run;
  run.name = options.run_name.empty()
                 ? fmt::format("{} on {} x {}", model.name, cluster.ranks(), cluster.gpu.name)
                 : options.run_name;
  run.model = model.name;
  run.scheme = name_of(options.scheme);
  run.cluster = cluster.name;
  run.backend = "simulator";
  run.options = options_json(model, options);
  run.sources = options.sources;
  run.version = options.version;
  run.seed = options.seed;
  run.ranks = cluster.ranks();
  run.ranks_per_node = cluster.gpus_per_node;
  run.parameters = model.parameter_count().value;
  run.tokens_per_step = samples * passes * training.sequence_length;
  run.model_flops_per_step = static_cast<double>(samples) * flops;
  // Always the same peak, so that a slow type does not look well used.
  run.peak_flops_per_rank = cluster.gpu.bf16_flops_per_s;
  run.peak_name =
      fmt::format("{} bf16 dense, {:.0f} TFLOP/s{}", cluster.gpu.name,
                  run.peak_flops_per_rank / 1e12, half ? "" : "; the run computes in float32");
  run.memory_per_rank = cluster.gpu.memory;
  run.recorded_ranks = options.recorded_ranks;
  run.recorded_from = options.recorded_from;
  run.recorded_to = options.recorded_to;
  run.records_memory = options.records_memory;
  return run;
}

Status check_drives(const Scheme& scheme, const Cluster& cluster) {
  const auto* zero3 = std::get_if<Zero3Options>(&scheme);
  if (zero3 == nullptr || cluster.nvme.read_bytes_per_s > 0) return {};
  for (const Offload* offload : {&zero3->offload_param, &zero3->offload_optimizer}) {
    if (offload->device != Offload::Device::nvme) continue;
    return Status(Code::invalid_argument,
                  fmt::format("cluster {} has no NVMe to offload to: add \"nvme\" to its file or "
                              "offload to the CPU",
                              cluster.name));
  }
  return {};
}

Status check_fp8(const StackProfile& stack, const Gpu& gpu) {
  const bool on_cpus = stack.program == StackProfile::Program::train;
  if (!stack.fp8 || on_cpus || gpu.fp8_flops_per_s > 0) return {};
  return Status(Code::invalid_argument,
                fmt::format("{} has no fp8 (fp8_flops_per_s of the cluster's file): leave out "
                            "--matmul-dtype fp8",
                            gpu.name));
}

// A scheme's default may compute as no one trains.
std::optional<std::string> slow_matmuls(const SimulateOptions& options) {
  const Gpu& gpu = options.cluster.gpu;
  const double times = gpu.bf16_flops_per_s / gpu.fp32_flops_per_s;
  if (computes_in_half(options) || times < 2) return std::nullopt;
  return fmt::format(
      "matmuls{} run in float32 without TF32, which is {:.0f} times slower than bf16 on {}: "
      "--param-dtype bf16 is what most train in",
      options.stack.fp8 ? " beside those in fp8" : "", times, gpu.name);
}

// Beside parts that were measured, the costs of others mean little.
std::optional<std::string> unmeasured(const Model& model, const StackProfile& stack) {
  std::set<std::string_view> known, missing;
  for (const PartTime& time : stack.parts) known.insert(time.part);
  if (known.empty()) return std::nullopt;
  for (const ModuleId id : model.forward) {
    const std::string_view part = part_of(model.module(id).path, Reason::none);
    if (!known.contains(part)) missing.insert(part);
  }
  if (missing.empty()) return std::nullopt;
  return fmt::format("profile {} has no measured times of {}: calibrate by a run of such a model",
                     stack.name, fmt::join(missing, ", "));
}

std::vector<std::string> warnings_of(const Engine& engine, const Model& model,
                                     const SimulateOptions& options) {
  std::vector<std::string> warnings = engine.warnings();
  if (!model.cost_note.empty()) warnings.push_back(model.cost_note);
  if (const auto slow = slow_matmuls(options)) warnings.push_back(*slow);
  if (const auto parts = unmeasured(model, options.stack)) warnings.push_back(*parts);
  return warnings;
}

// A trace counts its time by steps, so nothing may come after the last one.
Status check_passes(const Model& model, const std::vector<TrainingPass>& passes) {
  std::int64_t steps = 0;
  bool trains = passes.empty();
  for (const TrainingPass& pass : passes) {
    steps += pass.kind == TrainingPass::Kind::step ? 1 : 0;
    trains = trains || pass.trains();
    if (model.find_graph(pass.graph) != nullptr) continue;
    return Status(Code::invalid_argument,
                  fmt::format("{} has no graph '{}'", model.name, pass.graph));
  }
  if (!passes.empty() && (steps != 1 || passes.back().kind != TrainingPass::Kind::step)) {
    return Status(Code::invalid_argument,
                  "the passes of a simulated step must end with their only optimizer step");
  }
  if (trains) return {};
  return Status(Code::invalid_argument,
                "none of the passes trains, so there are no gradients to step with: add train to "
                "them, before step");
}

// Ranks that take part in nothing would count in tokens per second all the same.
Status check_groups(const Scheme& scheme, Rank ranks) {
  const std::optional<RankGroups> groups = std::visit(
      [](const auto& options) -> std::optional<RankGroups> {
        if constexpr (requires { options.groups; }) return options.groups;
        return std::nullopt;
      },
      scheme);
  if (!groups) return {};
  const RankSet idle = RankSet::range(0, ranks).minus(groups->ranks());
  if (idle.empty()) return {};
  return Status(Code::invalid_argument,
                fmt::format("process_groups: ranks {} are in no group and would do nothing: name "
                            "all ranks of the cluster, or give a cluster of fewer",
                            idle.to_string()));
}

// FSDP and ZeRO leave a model's buffers as they are: whole, on every rank.
Status hold_buffers(Runtime& runtime, const Model& model, const Scheme& scheme,
                    const Engine& engine) {
  const bool held = std::holds_alternative<ReplicateOptions>(scheme) ||
                    std::holds_alternative<ShardedDataParallelOptions>(scheme);
  Bytes bytes{};
  for (const Buffer& buffer : model.buffers) bytes += buffer.bytes();
  if (held || bytes == Bytes{}) return {};
  return runtime
      .allocate({.bytes = bytes,
                 .memory_class = MemoryClass::buffers,
                 .stream = engine.compute_stream(),
                 .where = runtime.world(),
                 .cause = {},
                 .name = "buffers"})
      .status();
}

// The host program of models that are known by shape and cost.
class ShapeProgram final : public HostProgram {
 public:
  static Result<std::unique_ptr<HostProgram>> create(Runtime& runtime, const Model& model,
                                                     const SimulateOptions& options) {
    TESSERA_ASSIGN(auto engine, make_engine(runtime, model, options.scheme));
    TESSERA_TRY(hold_buffers(runtime, model, options.scheme, *engine));
    return std::unique_ptr<HostProgram>(
        std::make_unique<ShapeProgram>(std::move(engine), model, options));
  }
  ShapeProgram(std::unique_ptr<Engine> engine, const Model& model, const SimulateOptions& options)
      : engine_(std::move(engine)), steps_(*engine_, model), training_(options.training) {
    using Saves = StackProfile::Saves;
    const StackProfile& stack = options.stack;
    training_.sums_in_place = stack.saves == Saves::fused;
    training_.kept = {.input_bytes = stack.fp8 && stack.saves == Saves::fused ? 1.0 : 2.0,
                      .norms = stack.saves != Saves::compiled,
                      .gates = stack.saves == Saves::eager,
                      .elementwise = stack.elementwise_bytes};
    if (!training_.adam.state_type) training_.adam.state_type = options.stack.optimizer_dtype;
  }

  Engine& engine() override { return *engine_; }
  Status step() override { return steps_.run(training_); }
  Status finish() override { return {}; }

 private:
  std::unique_ptr<Engine> engine_;
  TrainingSteps steps_;
  TrainingOptions training_;
};

Status check_program(const SimulateOptions& options) {
  if (options.stack.program == StackProfile::Program::framework || options.program) return {};
  return Status(Code::not_supported,
                fmt::format("profile {} is of the program of tessera train, which is not here: "
                            "tessera simulate has it, or choose another profile",
                            options.stack.name));
}

// Launches that a stream of CUDA takes before it blocks its host. Processes on CPUs have no such
// queue.
std::int64_t launches_ahead(const StackProfile& stack) {
  return stack.program == StackProfile::Program::framework ? 1'024 : 0;
}

HostProgramMaker maker_of(const SimulateOptions& options) {
  if (options.stack.program == StackProfile::Program::train) return options.program;
  return ShapeProgram::create;
}

// Steps in which a run must have begun to repeat; what they keep is paid for by those that follow.
constexpr std::int32_t steps_watched = 8;

// Steps are like one another, and so soon need no engine.
Status run_steps(HostProgram& program, LockstepRuntime& runtime, const SimulateOptions& options,
                 SimulateSummary& summary) {
  const bool may_repeat = options.repeats && options.steps >= steps_watched &&
                          options.stack.program == StackProfile::Program::framework &&
                          options.training.scaler == nullptr;
  bool repeats = false;
  for (std::int32_t step = 0; step < options.steps; ++step) {
    TESSERA_TRY(repeats ? runtime.repeat_step() : program.step());
    summary.repeated_steps += repeats ? 1 : 0;
    if (may_repeat && !repeats && step < steps_watched) repeats = runtime.step_repeats();
    summary.steps = step + 1;
    if (options.progress) options.progress(step + 1, options.steps);
    if (options.stopped && options.stopped()) break;
  }
  return {};
}

}  // namespace

Status check_ranks(const Scheme& scheme, Rank ranks) {
  // Owners are reduced to one by one, so time grows with the square of the ranks; all else is a few
  // KiB of memory for each of them.
  constexpr Rank most_owners = 1 << 15, most = 1 << 22;
  const bool owners = std::holds_alternative<Zero12Options>(scheme) ||
                      std::holds_alternative<ShardedDataParallelOptions>(scheme);
  if (ranks <= (owners ? most_owners : most)) return {};
  return Status(Code::invalid_argument,
                fmt::format("{} ranks: {} is simulated for at most {}{}; give fewer nodes", ranks,
                            name_of(scheme), owners ? most_owners : most,
                            owners ? ", as it reduces to each rank by an operation of its own, and "
                                     "what a rank holds hardly changes beyond"
                                   : ""));
}

Result<SimulateSummary> simulate(const Model& described, const SimulateOptions& options) {
  if (options.steps < 1) {
    return Status(Code::invalid_argument,
                  fmt::format("{} steps: simulate at least 1", options.steps));
  }
  TESSERA_TRY(check_drives(options.scheme, options.cluster));
  TESSERA_TRY(check_passes(described, options.training.passes));
  TESSERA_TRY(check_ranks(options.scheme, options.cluster.ranks()));
  TESSERA_TRY(check_groups(options.scheme, options.cluster.ranks()));
  TESSERA_TRY(attention_of(options.stack, options.cluster.gpu).status());
  TESSERA_TRY(check_fp8(options.stack, options.cluster.gpu));
  TESSERA_TRY(check_program(options));
  const bool limited = options.cluster.gpu.memory > Bytes{};  // 0: whatever it takes
  const Bytes capacity = limited ? options.cluster.gpu.memory - options.stack.context : Bytes{};
  if (limited && capacity <= Bytes{}) {
    return Status(Code::invalid_argument,
                  fmt::format("{} leaves no memory beside the {} bytes of the profile's context",
                              options.cluster.gpu.name, options.stack.context.value));
  }
  const Model model = adapted(described, options.stack);
  const bool reads = options.stack.program != StackProfile::Program::framework;
  const auto cost = make_cost_model(options.cluster, options.stack);
  TESSERA_ASSIGN(auto runtime,
                 LockstepRuntime::create(
                     {.world_size = options.cluster.ranks(),
                      .ranks_per_node = options.cluster.gpus_per_node,
                      .cost = cost.get(),
                      .seed = options.seed,
                      .jitter = options.jitter,
                      .slow_ranks = options.slow_ranks,
                      .slow_links = options.slow_links,
                      .spread = options.cluster.spread,
                      .host = {options.stack.host_kernel_ns, options.stack.host_module_ns,
                               options.stack.host_collective_ns, options.stack.host_micro_batch_ns,
                               options.stack.host_step_ns, options.stack.host_pass_ns,
                               launches_ahead(options.stack)},
                      .contention = options.stack.contention,
                      .one_thread = options.stack.one_thread,
                      .between_ns = options.stack.between_ns,
                      .parts = options.stack.parts,
                      .reads = reads ? std::optional(0.0F) : std::nullopt,
                      .memory_per_rank = capacity,
                      .ends_when_full = options.ends_when_full,
                      .allocator = options.stack.allocator,
                      .sink = options.sink,
                      .recorded_ranks = options.recorded_ranks,
                      .only_collectives = options.only_collectives}));
  if (options.sink != nullptr) options.sink->begin(trace_run(model, options));
  TESSERA_ASSIGN(const auto program, maker_of(options)(*runtime, model, options));
  SimulateSummary summary;
  summary.units = program->engine().units();
  summary.warnings = warnings_of(program->engine(), model, options);
  for (std::size_t u = 0; u < summary.units.size() && options.sink != nullptr; ++u) {
    const UnitInfo& unit = summary.units[u];
    options.sink->unit(
        {static_cast<std::int32_t>(u), unit.name, unit.parameters, unit.numel, unit.padding});
  }
  TESSERA_TRY(run_steps(*program, *runtime, options, summary));
  TESSERA_TRY(program->finish());
  TESSERA_TRY(runtime->finish());
  summary.out_of_memory = runtime->out_of_memory();
  summary.fits = summary.out_of_memory.empty();
  summary.peak_reserved = runtime->peak_device_memory();
  summary.cache_returns = runtime->cache_returns();
  summary.parameters = model.parameter_count();
  summary.op_ranks = runtime->op_ranks();
  return summary;
}

}  // namespace tessera::sim
