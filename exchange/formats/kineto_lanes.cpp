// SPDX-License-Identifier: Apache-2.0
#include "exchange/formats/kineto_lanes.h"

#include <fmt/format.h>

#include <algorithm>

#include "exchange/import/torch_collectives.h"

namespace tessera::exchange {
namespace {

constexpr Time wait_min = 50'000;  // ns; shorter synchronisations are no waiting

bool packs(const KinetoContext& context) {
  return context.reason == Reason::copy_in || context.reason == Reason::copy_out;
}

/// "Memcpy DtoH (Device -> Pinned)": leaves the device or comes to it.
bool is_offload(std::string_view name) {
  return name.find("DtoH") != std::string_view::npos || name.find("HtoD") != std::string_view::npos;
}

std::string numbered(const char* name, int count) {
  return count == 1 ? std::string(name) : fmt::format("{} {}", name, count);
}

}  // namespace

KinetoLanes::KinetoLanes(const KinetoFile& file, const KinetoContexts& contexts, ImportedRank& rank,
                         ImportedRun& run)
    : file_(file), contexts_(contexts), rank_(rank), run_(run), uses_(file.threads.size()) {
  step_name_ = run.text("ProfilerStep");
}

void KinetoLanes::choose(const std::vector<KinetoContext>& contexts) {
  for (std::size_t i = 0; i < file_.events.size(); ++i) {
    const KinetoEvent& event = file_.events[i];
    Use& use = uses_[static_cast<std::size_t>(event.thread)];
    const std::string& name = run_.text(event.name);
    switch (event.category) {
      case KinetoCategory::kernel:
        device_ = true;
        if (is_nccl_kernel(name)) break;
        ++use.kernels;
        use.busy += event.end - event.begin;
        use.packing += packs(contexts[i]) ? 1 : 0;
        break;
      case KinetoCategory::copy:
      case KinetoCategory::set:
        device_ = true;
        ++use.copies;
        break;
      case KinetoCategory::annotation: use.gloo += name.starts_with("gloo:") ? 1 : 0; break;
      case KinetoCategory::cpu_op: ++use.operations; break;
      default: break;
    }
  }
  choose_streams();
  choose_threads();
}

// The stream that is busiest with kernels is the first that computes.
void KinetoLanes::choose_streams() {
  std::vector<std::size_t> order;
  for (std::size_t t = 0; t < uses_.size(); ++t) {
    if (uses_[t].kernels + uses_[t].copies > 0) order.push_back(t);
  }
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return uses_[a].busy > uses_[b].busy; });
  int computing = 0, copying = 0, packing = 0;
  for (const std::size_t t : order) {
    Use& use = uses_[t];
    if (use.kernels > 0 && 2 * use.packing > use.kernels + use.copies) {
      use.lane = rank_.lane(numbered("copy-in", ++packing), StreamRole::copy, run_);
    } else if (use.kernels > 0) {
      use.lane = rank_.lane(numbered("compute", ++computing), StreamRole::compute, run_);
    } else {
      use.lane = rank_.lane(numbered("copy", ++copying), StreamRole::copy, run_);
    }
  }
}

void KinetoLanes::choose_threads() {
  int others = 0;
  for (std::size_t t = 0; t < uses_.size(); ++t) {
    Use& use = uses_[t];
    if (use.kernels + use.copies > 0 || use.gloo > 0) continue;
    const auto thread = static_cast<std::int32_t>(t);
    const bool main = thread == contexts_.main_thread();
    const bool computes = main || contexts_.runs_backward(thread);
    std::string name = main                              ? "main thread"
                       : contexts_.runs_backward(thread) ? "autograd thread"
                                                         : "";
    if (name.empty() && use.operations > 0) name = numbered("other thread", ++others);
    if (name.empty()) continue;
    const StreamRole role = computes && !device_ ? StreamRole::compute : StreamRole::host;
    use.lane = rank_.lane(name, role, run_);
    use.annotations = rank_.lane(name + ", annotations", StreamRole::host, run_);
  }
}

std::int32_t KinetoLanes::communication_lane(const KinetoEvent& event) {
  std::string group;
  if (event.message >= 0) {
    const KinetoMessage& message = file_.messages[static_cast<std::size_t>(event.message)];
    const bool nameless = message.description.empty() || message.description == undescribed;
    group = nameless ? message.group : message.description;
  }
  const bool nccl = event.category == KinetoCategory::kernel;
  const std::string name = nccl ? (group.empty() ? "nccl" : "nccl " + group) : "gloo";
  return rank_.lane(name, StreamRole::communication, run_);
}

KinetoLanes::Place KinetoLanes::lost(std::string_view what) {
  run_.lost(what);
  return {};
}

KinetoLanes::Place KinetoLanes::host_place(const KinetoEvent& event, const KinetoContext& context) {
  const Use& use = uses_[static_cast<std::size_t>(event.thread)];
  const std::string& name = run_.text(event.name);
  if (event.category == KinetoCategory::synchronize) {
    if (event.end - event.begin < wait_min) return lost("waits of the host under 50 us");
    return {rank_.lane("host waits", StreamRole::host, run_), event.name};
  }
  if (use.lane < 0) return lost("annotations of threads that have nothing else");
  if (event.category == KinetoCategory::annotation) {
    return {use.annotations, name.starts_with("ProfilerStep#") ? step_name_ : event.name};
  }
  if (context.holds_marks) return {use.annotations, event.name};
  if (context.inside_op) return lost("host operations inside of others");
  // They compute nothing, and say nothing that the collective does not.
  if (name.starts_with("c10d::") || name == "record_param_comms") return lost("calls of c10d");
  const bool packing = packs(context) && !device_;
  return {use.lane, event.name, packing ? OpKind::copy : OpKind::compute};
}

KinetoLanes::Place KinetoLanes::place(std::size_t index, const KinetoContext& context) {
  const KinetoEvent& event = file_.events[index];
  const std::string& name = run_.text(event.name);
  const std::int32_t lane = uses_[static_cast<std::size_t>(event.thread)].lane;
  switch (event.category) {
    case KinetoCategory::kernel:
      if (is_nccl_kernel(name)) {
        return {communication_lane(event), event.name, OpKind::copy, true};
      }
      return {lane, event.name, packs(context) ? OpKind::copy : OpKind::compute};
    case KinetoCategory::copy:
    case KinetoCategory::set:
      if (is_offload(name) || packs(context)) return {lane, event.name, OpKind::copy};
      return {lane, event.name, OpKind::copy};
    case KinetoCategory::annotation:
      if (name.starts_with("gloo:")) {
        return {communication_lane(event), event.name, OpKind::copy, true};
      }
      return host_place(event, context);
    case KinetoCategory::gpu_annotation: return lost("annotations of devices");
    default: return host_place(event, context);
  }
}

}  // namespace tessera::exchange
