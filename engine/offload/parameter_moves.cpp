// SPDX-License-Identifier: Apache-2.0
// What a policy decides, carried out.
#include "engine/offload/zero3_engine.h"

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

Status Zero3Engine::hand_over(ModuleId module) {
  const auto& needed = needs_[index(module)];
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

Status Zero3Engine::free(OnDemandParameter& p) {
  if (p.state != State::available || !p.active.empty()) return {};
  TESSERA_TRY(note(p, {Mark::Kind::sharded}, Reason::free_memory).status());
  freed_ = last_compute_;
  TESSERA_TRY(release(p.full, freed_));
  p.state = State::not_available;
  return {};
}

}  // namespace tessera
