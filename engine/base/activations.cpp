// SPDX-License-Identifier: Apache-2.0
#include "engine/base/activations.h"

#include <fmt/format.h>

#include "tessera/assert.h"

namespace tessera {
namespace {

View all_of(BufferId id, Bytes bytes) { return View::whole(id, DType::uint8, Numel{bytes.value}); }

}  // namespace

Activations::Activations(Issuer& issuer) : issuer_(issuer), saved_(issuer.model().modules.size()) {}

std::vector<BufferId>& Activations::stack(ModuleId module) { return saved_[module.index()]; }

Status Activations::run(const ModuleWork& work, const Cause& why, Compute what) {
  const bool backward = work.pass == ModuleWork::Pass::backward;
  const std::string& path = issuer_.model().module(work.module).path;
  auto& saved = stack(work.module);
  BufferId temporary;
  if (work.temporary > Bytes{0}) {
    TESSERA_ASSIGN(temporary,
                   issuer_.allocate(path + ".temporary", work.temporary, MemoryClass::temporary,
                                    issuer_.compute_stream(), why));
    what.writes.push_back(all_of(temporary, work.temporary));
  }
  if (!backward && work.saves > Bytes{0}) {
    TESSERA_ASSIGN(const BufferId fresh,
                   issuer_.allocate(path + ".activations", work.saves, MemoryClass::activations,
                                    issuer_.compute_stream(), why));
    what.writes.push_back(all_of(fresh, work.saves));
    saved.push_back(fresh);
  }
  what.writes.insert(what.writes.end(), work.workspace.begin(), work.workspace.end());
  const bool uses_saved = backward && work.saves > Bytes{0} && !saved.empty();
  if (uses_saved) what.reads.push_back(all_of(saved.back(), work.saves));
  TESSERA_ASSIGN(const EventId done,
                 issuer_.submit(issuer_.compute_stream(), why, std::move(what)));
  if (temporary.valid()) TESSERA_TRY(issuer_.release(temporary, done));
  return uses_saved ? free_youngest(saved, done) : Status{};
}

Status Activations::keep(const ModuleWork& work, const Cause& why) {
  Cause allocating = why;
  allocating.module = {};
  TESSERA_ASSIGN(
      const BufferId kept,
      issuer_.allocate(issuer_.model().module(work.module).path + ".checkpoint", work.saves,
                       MemoryClass::activations, issuer_.compute_stream(), allocating));
  stack(work.module).push_back(kept);
  if (!work.body) return {};
  Compute what{.cost = work.cost, .reads = {}, .writes = {}, .body = work.body};
  what.writes.push_back(all_of(kept, work.saves));
  what.writes.insert(what.writes.end(), work.workspace.begin(), work.workspace.end());
  return issuer_.submit(issuer_.compute_stream(), why, std::move(what)).status();
}

Status Activations::restore(const ModuleWork& work, const Cause& why) {
  const auto& saved = stack(work.module);
  if (saved.empty()) return keeps_none(work.module);
  if (!work.body) return {};
  Compute what{.cost = work.cost, .reads = {}, .writes = work.workspace, .body = work.body};
  what.on_numbers = !work.on_device;
  what.reads.push_back(all_of(saved.back(), work.saves));
  return issuer_.submit(issuer_.compute_stream(), why, std::move(what)).status();
}

Status Activations::free(ModuleId module) {
  auto& saved = stack(module);
  if (saved.empty()) return keeps_none(module);
  return free_youngest(saved, issuer_.last_compute());
}

Status Activations::free_youngest(std::vector<BufferId>& saved, EventId after) {
  TESSERA_ASSERT(!saved.empty(), "what a backward has used was saved in forward");
  TESSERA_TRY(issuer_.release(saved.back(), after));
  saved.pop_back();
  return {};
}

Status Activations::keeps_none(ModuleId module) const {
  return Status(Code::invalid_argument,
                fmt::format("module {} keeps no activations", issuer_.model().module(module).path));
}

}  // namespace tessera
