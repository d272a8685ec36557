// SPDX-License-Identifier: Apache-2.0
#include "cli/calibrate/run_fit.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "cli/calibrate/cluster_file.h"
#include "cli/train/host_program.h"

namespace tessera::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::int32_t simulated_steps = 3;
constexpr double rate_otherwise = 1e10;  // FLOP/s and bytes/s, before anything is fitted

// Where parts' factors hold everything that was measured, a rate only gives them a scale.
Json machine_of(const TraceRun& run) {
  const double flops = run.peak_flops_per_rank > 0 ? run.peak_flops_per_rank : rate_otherwise;
  const Json link = {{"bytes_per_s", rate_otherwise}, {"efficiency", 0.8}, {"latency_ns", 1000}};
  return {{"tessera_cluster", 1},
          {"name", run.cluster},
          {"gpus_per_node", run.ranks_per_node},
          {"gpu",
           {{"name", fmt::format("process of {}", run.cluster)},
            {"memory_bytes", std::int64_t{1} << 40},
            {"bf16_flops_per_s", flops},
            {"fp32_flops_per_s", flops},
            {"matmul_efficiency", 1},
            {"attention_efficiency", 1},
            {"memory_bytes_per_s", rate_otherwise},
            {"memory_efficiency", 1},
            {"kernel_launch_ns", 0}}},
          {"intra_node", link},
          {"inter_node", link},
          {"host", link},
          {"collective_launch_ns", 10000}};
}

// Keeps what a simulated step was made of.
class StepSink final : public TraceSink {
 public:
  std::map<std::pair<std::string, Phase>, std::pair<double, double>> parts;  // count, ns
  double operations = 0;
  double step_ns = 0;

  void begin(const TraceRun&) override {}
  void stream(const TraceStream&) override {}
  void communicator(const TraceCommunicator&) override {}
  void unit(const TraceUnit&) override {}
  void op(const TraceOp& op) override {
    if (op.step != simulated_steps - 1) return;
    keys_[op.id] = {std::string(sim::part_of(op.module, op.reason)), op.phase};
    if (is_collective(op.kind)) collectives_[op.id] = true;
  }
  void spans(const SpanBatch& batch) override {
    const auto key = keys_.find(batch.op);
    if (key == keys_.end() || batch.begin.empty()) return;
    operations += 1;
    if (collectives_.count(batch.op) > 0) return;
    auto& [count, ns] = parts[key->second];
    count += 1;
    ns += static_cast<double>(batch.end[0] - batch.begin[0]);
  }
  void buffer(const TraceBuffer&) override {}
  void memory(std::span<const MemorySample>) override {}
  void peak_memory(const PeakMemory&) override {}
  void rank_steps(const RankStepBatch& batch) override {
    step_ns = 0;
    for (std::size_t r = 0; r < batch.begin.size(); ++r) {
      step_ns = std::max(step_ns, static_cast<double>(batch.end[r] - batch.begin[r]));
    }
  }
  void diagnostic(const TraceDiagnostic&) override {}
  Status finish() override { return {}; }

 private:
  std::map<std::int32_t, std::pair<std::string, Phase>> keys_;
  std::map<std::int32_t, bool> collectives_;
};

Result<StepSink> simulated(const RunTrace& run, const sim::Cluster& cluster,
                           const sim::StackProfile& stack) {
  StepSink sink;
  sim::SimulateOptions options;
  options.cluster = cluster;
  options.cluster.gpu.memory = Bytes{};
  options.program = train_program();
  options.stack = stack;
  options.scheme = run.scheme;
  options.training = run.training;
  options.steps = simulated_steps;
  options.sink = &sink;
  options.recorded_ranks = {0};
  TESSERA_TRY(sim::simulate(run.model, options).status());
  return sink;
}

// Processes on CPUs hold what their program plans; a trace without threads does not say how much.
sim::StackProfile stack_of(const RunTrace& run) {
  sim::StackProfile stack;
  stack.name = "calibrated";
  stack.one_thread = true;
  stack.dropout = false;
  stack.fp8 = run.fp8;
  if (run.run.backend == "cuda" || run.threads == 0) return stack;
  stack.program = sim::StackProfile::Program::train;
  stack.threads = run.threads;
  return stack;
}

struct Fitted {
  sim::Cluster cluster;
  sim::StackProfile stack;
};

// Times of parts that were not simulated belong to what passes between operations.
Status add_run(const RunTrace& run, const Fitted& fitted, std::vector<sim::MeasuredPart>& parts,
               std::vector<sim::MeasuredPart>& between) {
  TESSERA_ASSIGN(const StepSink sink, simulated(run, fitted.cluster, fitted.stack));
  double idle = run.idle_ns;
  for (const PartSum& sum : run.parts) {
    const auto expected = sink.parts.find({sum.part, sum.phase});
    if (expected == sink.parts.end() || !(sum.ns > 0)) {
      idle += sum.ns;
      continue;
    }
    const auto& [count, ns] = expected->second;
    parts.push_back({sum.part, sum.phase, sum.ns / count, ns / count});
  }
  const auto passes = static_cast<double>(std::max<std::int64_t>(1, run.training.accumulation));
  between.push_back(
      {"between", Phase::none, std::max(1.0, idle / passes), sink.operations / passes});
  return {};
}

// Processes reduce to parts and gather these (engine/backends/host): what both took is known where
// only they were measured.
void add_all_reduces(std::vector<sim::MeasuredCollective>& collectives) {
  std::vector<sim::MeasuredCollective> added;
  for (const sim::MeasuredCollective& reduce : collectives) {
    if (reduce.shape.kind != OpKind::reduce_scatter) continue;
    for (const sim::MeasuredCollective& gather : collectives) {
      if (gather.shape.kind != OpKind::all_gather || gather.shape.bytes != reduce.shape.bytes ||
          gather.shape.ranks != reduce.shape.ranks) {
        continue;
      }
      sim::MeasuredCollective both = reduce;
      both.shape.kind = OpKind::all_reduce;
      both.us += gather.us;
      added.push_back(both);
      break;
    }
  }
  collectives.insert(collectives.end(), added.begin(), added.end());
}

Result<Fitted> fitted_to(const std::vector<const RunTrace*>& runs) {
  const std::string text = machine_of(runs.front()->run).dump();
  Fitted out;
  TESSERA_ASSIGN(out.cluster, sim::parse_cluster(text, "the machine", 1));
  out.stack = stack_of(*runs.front());
  std::vector<sim::MeasuredPart> parts, between;
  std::vector<sim::MeasuredCollective> collectives;
  for (const RunTrace* run : runs) {
    TESSERA_TRY(add_run(*run, out, parts, between));
    collectives.insert(collectives.end(), run->collectives.begin(), run->collectives.end());
  }
  if (runs.front()->run.backend != "cuda") add_all_reduces(collectives);
  if (!collectives.empty()) out.cluster = fit_collectives(out.cluster, collectives).cluster;
  out.stack.parts = fit_parts(parts);
  const sim::PartTime gap = fit_parts(between).front();
  out.stack.between_ns = std::llround(gap.factor);
  out.stack.host_micro_batch_ns = gap.start_ns;
  return out;
}

Result<double> error_of(const RunTrace& run, const Fitted& fitted) {
  TESSERA_ASSIGN(const StepSink sink, simulated(run, fitted.cluster, fitted.stack));
  return sink.step_ns / run.step_ns - 1;
}

std::string cluster_json(const RunTrace& run, const sim::Cluster& cluster,
                         const std::string& source) {
  Json json = machine_of(run.run);
  put_collectives(json, cluster, source);
  json["sources"]["gpu"] = source + "; rates are a scale for the profile's parts";
  return json.dump(2) + "\n";
}

std::string profile_json(const sim::StackProfile& stack, const std::string& source) {
  Json json{{"tessera_profile", 1}};
  json.update(Json::parse(sim::to_json(stack)));
  json["source"] = source;
  return json.dump(2) + "\n";
}

}  // namespace

Result<RunFit> fit_runs(const std::vector<RunTrace>& runs) {
  std::vector<const RunTrace*> all;
  std::vector<std::string> names;
  for (const RunTrace& run : runs) {
    all.push_back(&run);
    names.push_back(run.path);
  }
  TESSERA_ASSIGN(Fitted fitted, fitted_to(all));
  RunFit out;
  for (const RunTrace& run : runs) {
    TESSERA_ASSIGN(const double error, error_of(run, fitted));
    out.errors.push_back(error);
    fitted.stack.calibrated_p90 = std::max(fitted.stack.calibrated_p90, std::abs(error));
  }
  for (std::size_t k = 0; k < all.size() && all.size() > 1; ++k) {
    std::vector<const RunTrace*> others = all;
    others.erase(others.begin() + static_cast<std::ptrdiff_t>(k));
    TESSERA_ASSIGN(const Fitted without, fitted_to(others));
    TESSERA_ASSIGN(const double error, error_of(runs[k], without));
    out.errors_of_others.push_back(error);
    fitted.stack.calibrated_p90 = std::max(fitted.stack.calibrated_p90, std::abs(error));
  }
  fitted.stack.calibrated_runs = static_cast<std::int64_t>(runs.size());
  const std::string source = fmt::format("tessera calibrate: {}", fmt::join(names, ", "));
  out.cluster = cluster_json(runs.front(), fitted.cluster, source);
  out.profile = profile_json(fitted.stack, source);
  return out;
}

}  // namespace tessera::cli
