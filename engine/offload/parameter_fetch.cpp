// SPDX-License-Identifier: Apache-2.0
// What modules need, and until when (deepspeed PartitionedParameterCoordinator: fetch_sub_module,
// release_sub_module, reset_step, release_and_reset_all).
#include <fmt/format.h>

#include "engine/offload/zero3_engine.h"

namespace tessera {
namespace {

constexpr std::size_t fetches_in_flight = 2;

}  // namespace

Status Zero3Engine::fetch(ModuleId module) {
  Coordinator& c = coordinator();
  if (!c.trace.visit(module)) TESSERA_TRY(note(module, Mark::Kind::trace_mismatch));
  TESSERA_TRY(note(module, Mark::Kind::fetched));
  std::vector<ParameterId> missing;
  for (ParameterId id : needs_[index(module)]) {
    if (at(id).state == State::not_available) missing.push_back(id);
  }
  TESSERA_TRY(gather(std::move(missing), Reason::needed));
  TESSERA_TRY(wait_for(module));
  if (c.trace.complete()) TESSERA_TRY(gather_ahead(module));
  c.trace.advance();
  return {};
}

Status Zero3Engine::arrive(OnDemandParameter& p) {
  Coordinator& c = coordinator();
  const auto flying = c.in_flight.find(p.id);
  if (flying == c.in_flight.end()) return {};
  // Those that are over need no wait, but to wait for them takes no time either.
  if (ongoing_fetches_.size() > fetches_in_flight) {
    TESSERA_TRY(runtime_.wait(ongoing_fetches_.front()));
    ongoing_fetches_.pop_front();
  }
  const std::shared_ptr<Gather> gather = flying->second;
  c.in_flight.erase(flying);
  TESSERA_TRY(finish(*gather));
  TESSERA_TRY(note(p, {Mark::Kind::unsharded, gather->number}, Reason::needed).status());
  ongoing_fetches_.push_back(gather->done);
  return {};
}

Status Zero3Engine::wait_for(ModuleId module) {
  const auto& needed = needs_[index(module)];
  for (ParameterId id : needed) {
    at(id).active.insert(module);
    TESSERA_TRY(arrive(at(id)));
  }
  if (needed.empty()) return {};
  const std::string_view unit = unit_name_of(module);
  TESSERA_TRY(wait_stream(compute_, all_gather_, cause(unit, Reason::needed)));
  if (model_.module(module).children.empty()) return {};
  // What a container does with its own parameters is no entry of the forward list: it costs nothing
  // here, but is a use.
  Compute looks{.cost = {.kernels = 0}, .reads = {}, .writes = {}, .body = {}};
  for (ParameterId id : needed) {
    TESSERA_ASSIGN(const View view, parameter_view(id));
    looks.reads.push_back(view);
  }
  return submit(compute_, cause(unit, Reason::needed), std::move(looks)).status();
}

Status Zero3Engine::gather_ahead(ModuleId module) {
  Coordinator& c = coordinator();
  TESSERA_TRY(c.trace.take(module));
  if (options_.prefetch_bucket == Numel{0}) return {};
  const Numel budget =
      std::min(options_.max_live_parameters - c.available, options_.prefetch_bucket);
  auto ahead = c.trace.ahead(
      budget, [this](ParameterId id) { return at(id).state == State::not_available; });
  const bool forward = stage_ == Stage::forward;
  return gather(std::move(ahead), forward ? Reason::forward_prefetch : Reason::backward_prefetch);
}

Status Zero3Engine::release_module(ModuleId module) {
  TESSERA_TRY(note(module, Mark::Kind::released));
  const auto& needed = needs_[index(module)];
  const auto& releasable = coordinator().trace.releasable(
      module, options_.max_reuse_distance, [this](ParameterId id) { return at(id).persistent; });
  for (ParameterId id : needed) at(id).active.erase(module);
  for (ParameterId id : releasable) {
    if (!at(id).dangling) TESSERA_TRY(release_parameter(at(id)));
  }
  return {};
}

Status Zero3Engine::release_parameter(OnDemandParameter& p) {
  if (p.state != State::available || !p.active.empty()) return {};
  TESSERA_TRY(note(p, {Mark::Kind::sharded}, Reason::free_memory).status());
  freed_ = last_compute_;
  TESSERA_TRY(release(p.full, freed_));
  p.state = State::not_available;
  coordinator().available -= p.numel;
  return {};
}

// The count of what is available starts from zero even if something is.
Status Zero3Engine::reset_trace() {
  Coordinator& c = coordinator();
  if (!c.in_flight.empty()) {
    return Status(
        Code::invalid_argument,
        fmt::format("still have inflight params, {} and {} more: they were gathered ahead "
                    "for modules that did not run; without prefetch the order may change",
                    name(at(c.in_flight.begin()->first)), c.in_flight.size() - 1));
  }
  const bool recorded = c.trace.mode() == ModuleTrace::Mode::record;
  c.trace.reset();
  if (recorded) {
    for (const ModuleTrace::Use& use : c.trace.uses()) {
      TESSERA_TRY(note(at(use.parameter), {Mark::Kind::traced, use.step}).status());
    }
  }
  c.available = Numel{0};
  return note("root", "", {Mark::Kind::trace_reset}).status();
}

Status Zero3Engine::release_all() {
  for (OnDemandParameter& p : parameters_) {
    TESSERA_ASSERT(p.state != State::in_flight, "no pass ends with parameters in flight");
    p.active.clear();
    if (p.state == State::not_available) TESSERA_TRY(note(p, {Mark::Kind::kept}).status());
    TESSERA_TRY(release_parameter(p));
  }
  return note("root", "", {Mark::Kind::all_released}).status();
}

}  // namespace tessera
