// SPDX-License-Identifier: Apache-2.0
// What a policy decides, carried out.
#include <algorithm>

#include "engine/schemes/zero3/zero3_engine.h"

namespace tessera {

Status Zero3Engine::note(ModuleId module, Mark mark) {
  return note(unit_name_of(module), model_.module(module).path, mark,
              recomputing() ? Reason::recompute : Reason::none)
      .status();
}

Result<EventId> Zero3Engine::note(const OnDemandParameter& p, Mark mark, Reason reason) {
  return note(p.held.unit, name(p), mark, reason);
}

Status Zero3Engine::note(const OnDemandParameter& p, Mark mark) {
  return note(p, mark, Reason::none).status();
}

Status Zero3Engine::note(Mark mark) { return note("root", "", mark).status(); }

Result<bool> Zero3Engine::arrive(OnDemandParameter& p) {
  if (!p.flying) return false;
  const std::shared_ptr<Gather> gather = std::move(p.flying);
  TESSERA_TRY(finish(*gather));
  TESSERA_TRY(note(p, {Mark::Kind::unsharded, gather->number}, Reason::needed).status());
  return true;
}

// Its result is looked at where gathers run, so that the model's work does not wait for it.
Status Zero3Engine::drop(OnDemandParameter& p) {
  if (!p.flying) return {};
  const std::shared_ptr<Gather> gather = p.flying;
  TESSERA_TRY(arrive(p).status());
  const Cause why = cause(p.held.unit, Reason::free_memory);
  TESSERA_TRY(wait_event(all_gather_, gather->done, why));
  Compute looks{.cost = {.kernels = 0}, .reads = {}, .writes = {}, .body = {}};
  looks.reads = {View::whole(p.full, param_dtype(), p.partition * ranks_)};
  TESSERA_ASSIGN(p.last_use, submit(all_gather_, why, std::move(looks)));
  dropped_ = true;
  return {};
}

Status Zero3Engine::settle() {
  if (!std::exchange(dropped_, false)) return {};
  return wait_stream(compute_, all_gather_, cause("root", Reason::order));
}

Bytes Zero3Engine::gathered_bytes(ParameterId parameter) const {
  return bytes_of(at(parameter).partition * ranks_, param_dtype());
}

// Coalesced, the buffer of the gather and all copies out of it exist at the same time.
Bytes Zero3Engine::gather_bytes(std::span<const ParameterId> parameters) const {
  Bytes bytes{};
  for (ParameterId id : parameters) bytes += gathered_bytes(id);
  return parameters.size() > 1 && ranks_ > 1 ? 2 * bytes : bytes;
}

Status Zero3Engine::hand_over(ModuleId module) {
  if (needs_[index(module)].empty()) return {};
  TESSERA_TRY(wait_stream(compute_, all_gather_, cause(unit_name_of(module), Reason::needed)));
  return look_at_own(module);
}

Status Zero3Engine::hand_over(ModuleId module, std::span<const EventId> arrived) {
  if (!arrived.empty()) {
    const Cause why = cause(unit_name_of(module), Reason::needed);
    TESSERA_TRY(submit(compute_, why, Wait{}, arrived).status());
  }
  return look_at_own(module);
}

// What a container does with its own parameters is no entry of the forward list: it costs nothing
// here, but is a use.
Status Zero3Engine::look_at_own(ModuleId module) {
  const auto& needed = needs_[index(module)];
  if (needed.empty() || model_.module(module).children.empty()) return {};
  Compute looks{.cost = {.kernels = 0}, .reads = {}, .writes = {}, .body = {}};
  for (ParameterId id : needed) {
    TESSERA_ASSIGN(const View view, parameter_view(id));
    looks.reads.push_back(view);
  }
  return submit(compute_, cause(unit_name_of(module), Reason::needed), std::move(looks)).status();
}

Status Zero3Engine::free(OnDemandParameter& p) {
  if (p.state != State::available || !p.active.empty()) return {};
  TESSERA_TRY(note(p, {Mark::Kind::sharded}, Reason::free_memory).status());
  const EventId after = p.last_use.valid() ? p.last_use : last_compute();
  if (std::find(freed_.begin(), freed_.end(), after) == freed_.end()) freed_.push_back(after);
  TESSERA_TRY(release(p.full, after));
  live_ -= gathered_bytes(p.id);
  p.state = State::not_available;
  return facts_.rules.keeps_swap_buffers ? release_swap_buffer(p) : Status{};
}

}  // namespace tessera
