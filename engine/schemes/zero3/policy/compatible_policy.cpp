// SPDX-License-Identifier: Apache-2.0
// What modules need, and until when (deepspeed PartitionedParameterCoordinator: fetch_sub_module,
// release_sub_module, reset_step, release_and_reset_all).
#include "engine/schemes/zero3/policy/compatible_policy.h"

#include <fmt/format.h>

#include <algorithm>

#include "engine/schemes/zero3/parameters/marks.h"

namespace tessera {
namespace {

constexpr std::size_t fetches_in_flight = 2;

}  // namespace

CompatiblePolicy::CompatiblePolicy(const PolicyGround& ground, ModuleTrace::Mode first)
    : FetchPolicy(ground),
      coordinators_{Coordinator{ModuleTrace(model(), all_needs().all(), first), {}},
                    Coordinator{ModuleTrace(model(), all_needs().all(), first), {}}},
      inputs_(model().modules.size()),
      gradients_remaining_(model().modules.size(), 0) {}

Status CompatiblePolicy::begin_forward(const ForwardPass& pass) {
  training_ = pass.use != ForwardPass::Use::evaluate;
  gradient_flows_ = model().input_requires_grad;
  for (auto& visits : inputs_) visits.clear();
  return {};
}

// A recomputed visit has the inputs of the one that it repeats.
Status CompatiblePolicy::pre_forward(ModuleId module, bool recomputing) {
  auto& visits = inputs_[index(module)];
  if (!recomputing) visits.push_back(gradient_flows_);
  gradients_remaining_[index(module)] = !visits.empty() && visits.back() ? 1 : 0;
  return fetch(module);
}

void CompatiblePolicy::ran(ModuleId /*module*/, bool trains) { gradient_flows_ |= trains; }

Status CompatiblePolicy::post_forward(ModuleId module) { return release(module); }

Status CompatiblePolicy::pre_backward(ModuleId module) { return fetch(module); }

// The hook that frees hangs on the module's inputs: it never runs if none of them needs a gradient,
// and runs once for a module that ran several times, because every forward pass starts the count
// anew.
Status CompatiblePolicy::post_backward(ModuleId module) {
  auto& visits = inputs_[index(module)];
  if (visits.empty()) {
    return Status(Code::invalid_argument,
                  fmt::format("post_backward of module '{}', which did not run in this forward",
                              model().module(module).path));
  }
  const bool hooked = visits.back();
  visits.pop_back();
  if (!hooked || --gradients_remaining_[index(module)] != 0) return {};
  return release_after_backward(module);
}

// fetch_sub_module: what is missing, then a wait for all of it, then what comes next. The wait
// comes first, so gathers ahead overlap with this module's work, but never with the gathers it
// needs.
Status CompatiblePolicy::fetch(ModuleId module) {
  ModuleTrace& trace = coordinator().trace;
  if (!trace.visit(module)) {
    TESSERA_TRY(mover().note(module, {marks::trace_mismatch, trace.step()}));
    TESSERA_TRY(mismatched());
  }
  TESSERA_TRY(mover().note(module, {marks::fetched, trace.step()}));
  std::vector<ParameterId> missing;
  for (ParameterId id : needs(module)) {
    if (at(id).copy.missing()) missing.push_back(id);
  }
  TESSERA_TRY(gather(std::move(missing), Reason::needed));
  TESSERA_TRY(wait_for(module));
  if (trace.complete()) TESSERA_TRY(gather_ahead(module));
  trace.advance();
  return {};
}

// Counts elements without padding, and what flies as if it were there.
Status CompatiblePolicy::gather(std::vector<ParameterId> missing, Reason reason) {
  for (ParameterId id : missing) coordinator().available += at(id).numel;
  return mover().gather(std::move(missing), reason);
}

Status CompatiblePolicy::arrive(OnDemandParameter& p) {
  // Those that are over need no wait, but to wait for them takes no time either.
  if (p.copy.flying() && ongoing_fetches_.size() > fetches_in_flight) {
    TESSERA_TRY(mover().wait(ongoing_fetches_.front()));
    ongoing_fetches_.pop_front();
  }
  const std::shared_ptr<Gather> gather = p.copy.flying();
  TESSERA_ASSIGN(const bool arrived, mover().arrive(p));
  if (arrived) ongoing_fetches_.push_back(gather->done());
  return {};
}

Status CompatiblePolicy::wait_for(ModuleId module) {
  for (ParameterId id : needs(module)) {
    OnDemandParameter& p = at(id);
    if (p.active.count(module) == 0) p.active.insert(module);
    TESSERA_TRY(arrive(p));
    if (p.persistent && !swapper().unread(p)) TESSERA_TRY(swapper().release_buffer(p));
  }
  return mover().wait_for_gathers(module);
}

// What is there already, for whatever reason, is not registered: the original looks no further.
// Otherwise nobody says that it is in use, and the gather is not counted: the module's release
// frees it.
Status CompatiblePolicy::touch(ModuleId module, OnDemandParameter& p) {
  if (p.copy.available()) return {};
  TESSERA_TRY(add_need(module, p.id));
  if (p.copy.missing()) return mover().gather_now({p.id}, Reason::needed);
  TESSERA_TRY(arrive(p));
  return mover().wait_for_gathers(module);
}

// The limit of live parameters is asked here and nowhere else: what modules need at once may exceed
// it, and what is kept does, too.
Status CompatiblePolicy::gather_ahead(ModuleId module) {
  Coordinator& c = coordinator();
  TESSERA_TRY(c.trace.take(module));
  if (options().prefetch_bucket == Numel{0}) return {};
  const Numel budget =
      std::min(options().max_live_parameters - c.available, options().prefetch_bucket);
  auto ahead = c.trace.ahead(
      budget, [this](ParameterId id) { return at(id).copy.missing(); },
      [this](ParameterId id) { return swapper().unread(at(id)); });
  TESSERA_TRY(gather(std::move(ahead),
                     mover().in_backward() ? Reason::backward_prefetch : Reason::forward_prefetch));
  return read_ahead();
}

// DeepSpeed 0.9.0 passes the configuration of the optimizer's states for that of parameters
// (stage3.py).
bool CompatiblePolicy::reads_ahead() const {
  return options().offload_optimizer.device == Offload::Device::nvme;
}

// At least one, and no more than twice what flies.
Status CompatiblePolicy::read_ahead() {
  if (!reads_ahead()) return {};
  Numel flying{};
  for (const OnDemandParameter& p : parameters()) flying += p.copy.flying() ? p.numel : Numel{};
  Numel considered{};
  std::vector<ParameterId> chosen;
  for (const ModuleTrace::Use& use : coordinator().trace.queue()) {
    const OnDemandParameter& p = at(use.parameter);
    if (considered > 2 * flying || std::ssize(chosen) >= swapper().free_buffers()) break;
    const bool twice = std::find(chosen.begin(), chosen.end(), p.id) != chosen.end();
    if (swapper().unread(p) && !twice) chosen.push_back(p.id);
    considered += p.numel;
  }
  std::vector<OnDemandParameter*> all;
  for (ParameterId id : chosen) all.push_back(&at(id));
  return all.empty() ? Status{} : swapper().swap_in(all, true);
}

// release_sub_module: a module that holds the same parameter keeps it, so does one that returned it
// to whom runs around it, until the step.
Status CompatiblePolicy::release(ModuleId module) {
  ModuleTrace& trace = coordinator().trace;
  TESSERA_TRY(mover().note(module, {marks::released, trace.step()}));
  const auto& releasable = trace.releasable(module, options().max_reuse_distance,
                                            [this](ParameterId id) { return at(id).persistent; });
  for (ParameterId id : needs(module)) at(id).active.erase(module);
  for (ParameterId id : releasable) {
    if (!at(id).dangling) TESSERA_TRY(release(at(id)));
  }
  return {};
}

Status CompatiblePolicy::release(OnDemandParameter& p) {
  if (!p.copy.available() || !p.active.empty()) return {};
  coordinator().available -= p.numel;
  return mover().free(p);
}

// DeepSpeed raises at the end of a pass where prefetched parameters were never used: their handles
// would be waited for by nobody.
Status CompatiblePolicy::check_none_flies() {
  const OnDemandParameters& all = parameters();
  auto flies = [](const OnDemandParameter& p) { return p.copy.flying() != nullptr; };
  const auto first = std::find_if(all.begin(), all.end(), flies);
  if (first == all.end()) return {};
  return Status(
      Code::invalid_argument,
      fmt::format("still have inflight params, {} and {} more: they were gathered ahead "
                  "for modules that did not run; without prefetch the order may change",
                  model().parameter(first->id).name, std::count_if(first + 1, all.end(), flies)));
}

// The count of what is available starts from zero even if something is.
Status CompatiblePolicy::end_pass(bool dropped) {
  if (dropped) return {};  // no hook of DeepSpeed runs then
  TESSERA_TRY(check_none_flies());
  return start_over(coordinator(), 0);
}

Status CompatiblePolicy::start_over(Coordinator& c, std::int32_t when) {
  const bool recorded = c.trace.mode() == ModuleTrace::Mode::record;
  c.trace.reset();
  if (recorded) {
    for (const ModuleTrace::Use& use : c.trace.uses()) {
      TESSERA_TRY(mover().note(at(use.parameter), {marks::traced, use.step}));
    }
  }
  c.available = Numel{0};
  return mover().note({marks::trace_reset, when});
}

Status CompatiblePolicy::values_changed() {
  TESSERA_TRY(check_none_flies());
  for (OnDemandParameter& p : parameters()) {
    p.active.clear();
    TESSERA_TRY(release(p));
  }
  return {};
}

Status CompatiblePolicy::before_step() {
  TESSERA_TRY(check_none_flies());
  for (OnDemandParameter& p : parameters()) {
    p.active.clear();
    if (p.copy.missing()) TESSERA_TRY(mover().note(p, {marks::kept}));
    TESSERA_TRY(release(p));
  }
  return mover().note({marks::all_released});
}

// Not counted as available, as in DeepSpeed.
Status CompatiblePolicy::after_step() {
  std::vector<ParameterId> persistent;
  for (const OnDemandParameter& p : parameters()) {
    if (p.persistent) persistent.push_back(p.id);
  }
  return mover().gather_now(persistent, Reason::forward_prefetch);
}

// What nobody needs and is not persistent is there because it is used again soon, or because no
// hook has freed it.
void CompatiblePolicy::explain(const OnDemandParameter& p, LiveParameter& live) const {
  if (!p.active.empty()) {
    live.module = path(*p.active.begin());
  } else if (p.persistent) {
    live.reason = LiveParameter::Reason::persistent;
  } else {
    live.reason =
        p.copy.flying() ? LiveParameter::Reason::prefetched : LiveParameter::Reason::left_over;
  }
}

}  // namespace tessera
