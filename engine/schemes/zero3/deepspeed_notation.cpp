// SPDX-License-Identifier: Apache-2.0
// A recording of zero3 in the notation of recorded DeepSpeed runs, so that it can be compared line
// by line. Those runs were seen through hooks on DeepSpeed 0.9.0's coordinator and optimizer.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>

#include "engine/schemes/zero3/deepspeed_swap_lines.h"
#include "engine/schemes/zero3/parameters/marks.h"
#include "tessera/recording.h"
#include "tessera/zero3.h"

namespace tessera {
namespace {

class DeepSpeedNotation {
 public:
  DeepSpeedNotation(const Recording& recording, std::span<const PartitionedParameter> parameters)
      : recording_(recording),
        swaps_(std::any_of(parameters.begin(), parameters.end(), on_nvme)),
        swap_lines_(ids_of(parameters)) {
    for (const PartitionedParameter& p : parameters) numel_[p.name] = p.numel;
    layout(parameters);
  }

  std::vector<std::string> lines() {
    for (const Record& record : recording_.records) {
      if (record.kind != Record::Kind::op) continue;
      const auto* const mark = std::get_if<Mark>(&record.op.what);
      const bool announces = mark != nullptr && mark->kind == marks::evaluating;
      if (record.cause.phase == Phase::init && !announces) continue;
      if (mark != nullptr) {
        note(record, *mark);
      } else if (const auto* reduce = std::get_if<ReduceScatter>(&record.op.what)) {
        emit_training(fmt::format("  REDUCE_SCATTER numel {}", reduce->input.numel.value));
      }
    }
    end_gather();
    return std::move(lines_);
  }

 private:
  enum class Forward : std::uint8_t { training, evaluation, extra };

  struct Pass {  // training or evaluation
    std::string mode = "RECORD";
    std::vector<std::string> modules, uses;
  };

  static bool on_nvme(const PartitionedParameter& p) { return p.home == Memory::nvme; }
  static std::map<std::string, std::size_t> ids_of(
      std::span<const PartitionedParameter> parameters) {
    std::map<std::string, std::size_t> ids;
    for (std::size_t k = 0; k < parameters.size(); ++k) ids[parameters[k].name] = k;
    return ids;
  }

  void emit(std::string line) {
    end_gather();
    swap_lines_.end_call(lines_);
    lines_.push_back(std::move(line));
  }

  // Runs with NVMe were recorded with the parameters' side alone.
  void emit_training(std::string line) {
    if (!swaps_) emit(std::move(line));
  }

  void layout_on_nvme(std::span<const PartitionedParameter> parameters) {
    static constexpr const char* homes[] = {"None", "<OffloadDeviceEnum.cpu: 'cpu'>",
                                            "<OffloadDeviceEnum.nvme: 'nvme'>"};
    std::vector<std::string> cuts;
    for (const PartitionedParameter& p : parameters) {
      cuts.push_back(fmt::format("('{}', {}, {}, {}, '{}')", p.name, p.numel.value,
                                 p.partition.value, homes[static_cast<std::size_t>(p.home)],
                                 on_nvme(p) ? "NOT_AVAILABLE" : "AVAILABLE"));
    }
    lines_.push_back(fmt::format("PARAMS [{}]", fmt::join(cuts, ", ")));
  }

  void layout(std::span<const PartitionedParameter> parameters) {
    if (swaps_) return layout_on_nvme(parameters);
    std::vector<std::string> cuts;
    std::map<std::int32_t, std::vector<std::string>> members;
    for (const PartitionedParameter& p : parameters) {
      cuts.push_back(fmt::format("('{}', {}, {}, '{}')", p.name, p.numel.value, p.partition.value,
                                 p.persistent ? "persist" : ""));
      if (p.sub_group >= 0) members[p.sub_group].push_back(p.name);
    }
    std::vector<std::string> groups;
    for (const auto& [group, names] : members) groups.push_back(quoted_list(names));
    lines_.push_back(
        fmt::format("PARAMS [{}] subgroups [{}]", fmt::join(cuts, ", "), fmt::join(groups, ", ")));
  }

  static std::string module(const Cause& cause) {
    return cause.module.empty() ? "root" : std::string(cause.module);
  }
  static std::string visit(const Record& r, std::int32_t step) {
    const bool backward = r.cause.phase == Phase::backward && r.cause.reason != Reason::recompute;
    return fmt::format("{} step={} mod={}", backward ? 'B' : 'F', step, module(r.cause));
  }
  Pass& pass() { return passes_[!one_order_ && forward_ == Forward::evaluation ? 1 : 0]; }

  void note(const Record& r, const Mark& mark) {
    const std::string name(r.cause.module);
    if (DeepSpeedSwapLines::shows(mark)) {
      end_gather();
      swap_lines_.note(mark, name, lines_);
      return;
    }
    const Mark::Kind kind = mark.kind;
    if (kind == marks::phase) return phase(r.cause);
    if (kind == marks::evaluating) {
      next_ = mark.number == 0 ? Forward::evaluation : Forward::extra;
    } else if (kind == marks::trace_mismatch) {
      pass() = {.mode = "INVALID", .modules = {}, .uses = {}};
      emit(fmt::format("INVALIDATE step={} mod={}", mark.number, module(r.cause)));
    } else if (kind == marks::fetched) {
      if (pass().mode == "RECORD") pass().modules.push_back(module(r.cause));
      emit(fmt::format("FETCH {} trace={}", visit(r, mark.number), pass().mode));
    } else if (kind == marks::released) {
      emit("RELEASE " + visit(r, mark.number));
    } else if (kind == marks::in_flight) {
      in_flight(name, mark.number, r.cause.reason);
    } else if (kind == marks::unsharded) {
      wait(mark.number);
    } else if (kind == marks::sharded) {
      emit("  PARTITION " + name);
    } else if (kind == marks::traced) {
      pass().uses.push_back(fmt::format("('{}', {})", name, mark.number));
    } else if (kind == marks::trace_reset) {
      reset(r.cause, mark.number == 1);
    } else {
      note_of_step(mark, name);
    }
  }

  void note_of_step(const Mark& mark, const std::string& name) {
    const Mark::Kind kind = mark.kind;
    if (kind == marks::gradient_ready) emit_training("  GRAD_READY " + name);
    if (kind == marks::all_released) emit_training("OPT _overflow_check_and_loss_scale_update ");
    if (kind == marks::kept) emit(fmt::format("  KEEP {} status=NOT_AVAILABLE active=[]", name));
    if (kind == marks::sub_group_ready) sub_group(mark.number);
    if (kind == marks::step_done) emit_training("OPT _post_step ");
  }

  void phase(const Cause& cause) {
    if (cause.phase == Phase::backward) {
      between_ = true;
      return emit("--- BACKWARD");
    }
    if (cause.phase == Phase::optimizer) {
      emit(swaps_ ? "--- partition_all" : "--- STEP");
      return emit("RELEASE_AND_RESET_ALL");
    }
    // One heading per training pass; passes without backward belong to the one that follows.
    const bool first = std::exchange(between_, false);
    forward_ = std::exchange(next_, Forward::training);
    if (first) emit(fmt::format("===== ITERATION {}", ++iteration_));
    if (forward_ == Forward::evaluation) return emit("--- EVAL FORWARD (no_grad)");
    if (forward_ == Forward::extra) return emit("--- EXTRA FORWARD");
    if (!first) emit("--- TRAIN FORWARD");
  }

  void in_flight(const std::string& parameter, std::int32_t gather, Reason reason) {
    if (gather != open_gather_) end_gather();
    open_gather_ = gather;
    open_reason_ = reason;
    gathered_[gather].push_back(parameter);
  }

  void end_gather() {
    if (open_gather_ < 0) return;
    const auto& names = gathered_[std::exchange(open_gather_, -1)];
    Numel numel{};
    for (const std::string& name : names) numel += numel_[name];
    lines_.push_back(fmt::format("  {} {} numel={}",
                                 open_reason_ == Reason::needed ? "ALLGATHER" : "PREFETCH",
                                 quoted_list(names), numel.value));
  }

  void wait(std::int32_t gather) {
    const bool first = complete_.insert(gather).second;
    emit(fmt::format("  WAIT {}{}", quoted_list(gathered_[gather]),
                     first ? "" : " (already complete)"));
  }

  // DeepSpeed 0.19 has one order of all passes, which does not begin before the first of them.
  void reset(const Cause& cause, bool forward_begins) {
    if (forward_begins && !std::exchange(one_order_, true)) passes_[0].mode = "INVALID";
    const std::string before = pass().mode;
    pass().mode = before == "INVALID" ? "RECORD" : "COMPLETE";
    emit(fmt::format("RESET_STEP {}->{} modules={} params=[{}]", before, pass().mode,
                     quoted_list(pass().modules), fmt::join(pass().uses, ", ")));
    if (cause.phase != Phase::backward) return;
    emit_training("--- EPILOGUE");
    emit_training("OPT independent_gradient_partition_epilogue ");
  }

  void sub_group(std::int32_t group) {
    for (const char* call :
         {"_prepare_sub_group", "_optimizer_step", "_reassign_or_swap_out_partitioned_parameters",
          "_release_sub_group"}) {
      emit_training(fmt::format("OPT {} {}", call, group));
    }
  }

  const Recording& recording_;
  const bool swaps_;
  DeepSpeedSwapLines swap_lines_;
  std::map<std::string, Numel> numel_;  // by parameter
  std::vector<std::string> lines_;
  Pass passes_[2];
  bool one_order_ = false;
  Forward forward_ = Forward::training;
  Forward next_ = Forward::training;
  bool between_ = true;  // no forward since the last backward began
  std::int32_t iteration_ = 0;
  std::map<std::int32_t, std::vector<std::string>> gathered_;
  std::set<std::int32_t> complete_;
  std::int32_t open_gather_ = -1;  // its parameters are still being named
  Reason open_reason_ = Reason::none;
};

}  // namespace

std::vector<std::string> to_deepspeed_notation(const Recording& recording,
                                               std::span<const PartitionedParameter> parameters) {
  return DeepSpeedNotation(recording, parameters).lines();
}

}  // namespace tessera
