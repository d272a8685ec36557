// SPDX-License-Identifier: Apache-2.0
#include "engine/base/activations.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "tessera/assert.h"

namespace tessera {
namespace {

View all_of(BufferId id, Bytes bytes) { return View::whole(id, DType::uint8, Numel{bytes.value}); }

}  // namespace

Activations::Activations(Issuer& issuer) : issuer_(issuer), saved_(issuer.model().modules.size()) {}

Activations::Stack& Activations::stack(ModuleId module) { return saved_[module.index()]; }

Status Activations::run(const ModuleWork& work, const Cause& why, Compute what) {
  const bool backward = work.pass == ModuleWork::Pass::backward;
  const std::string& path = issuer_.model().module(work.module).path;
  auto& saved = stack(work.module);
  if (work.offloads && !backward && work.saves > Bytes{0}) {
    TESSERA_TRY(begin_block(work.module, why));
  }
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
    saved.push_back({.buffer = fresh, .bytes = work.saves});
  }
  what.writes.insert(what.writes.end(), work.workspace.begin(), work.workspace.end());
  const bool uses_saved = backward && work.saves > Bytes{0} && !saved.empty();
  if (uses_saved) TESSERA_TRY(bring(work, why));
  if (uses_saved) what.reads.push_back(all_of(saved.back().buffer, work.saves));
  TESSERA_ASSIGN(const EventId done,
                 issuer_.submit(issuer_.compute_stream(), why, std::move(what)));
  if (temporary.valid()) TESSERA_TRY(issuer_.release(temporary, done));
  if (!backward && work.offloads && work.saves > Bytes{0}) TESSERA_TRY(leave(work, done, why));
  return uses_saved ? free_youngest(work.module, done) : Status{};
}

Status Activations::keep(const ModuleWork& work, const Cause& why) {
  Cause allocating = why;
  allocating.module = {};
  TESSERA_ASSIGN(
      const BufferId kept,
      issuer_.allocate(issuer_.model().module(work.module).path + ".checkpoint", work.saves,
                       MemoryClass::activations, issuer_.compute_stream(), allocating));
  stack(work.module).push_back({.buffer = kept, .bytes = work.saves});
  if (!work.body && !work.offloads) return {};
  Compute what{.cost = work.cost, .reads = {}, .writes = {}, .body = work.body};
  if (!work.body) what.cost.kernels = 0;  // the block before has written it
  what.writes.push_back(all_of(kept, work.saves));
  what.writes.insert(what.writes.end(), work.workspace.begin(), work.workspace.end());
  TESSERA_ASSIGN(const EventId done,
                 issuer_.submit(issuer_.compute_stream(), why, std::move(what)));
  return work.offloads ? leave(work, done, why) : Status{};
}

Status Activations::restore(const ModuleWork& work, const Cause& why) {
  const auto& saved = stack(work.module);
  if (saved.empty()) return keeps_none(work.module);
  TESSERA_TRY(bring(work, why));
  if (!work.body) return {};
  Compute what{.cost = work.cost, .reads = {}, .writes = work.workspace, .body = work.body};
  what.on_numbers = !work.on_device;
  what.reads.push_back(all_of(saved.back().buffer, work.saves));
  return issuer_.submit(issuer_.compute_stream(), why, std::move(what)).status();
}

Status Activations::free(ModuleId module) {
  if (stack(module).empty()) return keeps_none(module);
  return free_youngest(module, issuer_.last_compute());
}

Status Activations::free_youngest(ModuleId module, EventId after) {
  auto& saved = stack(module);
  TESSERA_ASSERT(!saved.empty(), "what a backward has used was saved in forward");
  Saved& youngest = saved.back();
  TESSERA_TRY(issuer_.release(youngest.buffer, after));
  if (youngest.host.valid()) {
    TESSERA_TRY(issuer_.release(youngest.host, youngest.moved));
    const auto place = std::find(offloaded_.rbegin(), offloaded_.rend(), module);
    offloaded_.erase(std::next(place).base());
  }
  saved.pop_back();
  return {};
}

ModuleId Activations::block_of(ModuleId module) const {
  const Model& model = issuer_.model();
  for (ModuleId m = module; m.valid(); m = model.module(m).parent) {
    if (model.module(m).is_block) return m;
  }
  return module;
}

Status Activations::begin_block(ModuleId module, const Cause& why) {
  const ModuleId block = block_of(module);
  if (block == block_) return {};
  block_ = block;
  const EventId before = std::exchange(copy_before_, std::exchange(last_copy_, EventId{}));
  return before.valid() ? issuer_.wait_event(issuer_.compute_stream(), before, why) : Status{};
}

// The youngest of the module goes to host memory.
Status Activations::leave(const ModuleWork& work, EventId written, Cause why) {
  why.reason = Reason::offload;
  if (!copies_.valid()) {
    TESSERA_ASSIGN(copies_, issuer_.create_stream("activations", StreamRole::copy));
  }
  TESSERA_TRY(begin_block(work.module, why));
  Saved& saved = stack(work.module).back();
  const std::string& path = issuer_.model().module(work.module).path;
  TESSERA_ASSIGN(saved.host,
                 issuer_.allocate(path + ".offloaded", saved.bytes, MemoryClass::pinned_host,
                                  copies_, why, Memory::pinned_host));
  TESSERA_TRY(issuer_.wait_event(copies_, written, why));
  TESSERA_ASSIGN(saved.moved,
                 issuer_.submit(copies_, why,
                                Copy{.pieces = {{.from = all_of(saved.buffer, saved.bytes),
                                                 .to = all_of(saved.host, saved.bytes)}},
                                     .route = CopyRoute::to_host}));
  last_copy_ = saved.moved;
  offloaded_.push_back(work.module);
  return issuer_.release(saved.buffer, saved.moved);
}

Status Activations::fetch(ModuleId module, Saved& saved, const Cause& why) {
  TESSERA_ASSIGN(saved.buffer,
                 issuer_.allocate(issuer_.model().module(module).path + ".activations", saved.bytes,
                                  MemoryClass::activations, copies_, why));
  TESSERA_ASSIGN(saved.moved,
                 issuer_.submit(copies_, why,
                                Copy{.pieces = {{.from = all_of(saved.host, saved.bytes),
                                                 .to = all_of(saved.buffer, saved.bytes)}},
                                     .route = CopyRoute::to_device}));
  return {};
}

// Those of the module's block, and of the block before it in forward.
Status Activations::fetch_blocks(ModuleId module, const Cause& why) {
  ModuleId last = block_of(module);
  int blocks = 1;
  bool waits = true;
  std::map<ModuleId, std::size_t> seen;
  for (auto id = offloaded_.rbegin(); id != offloaded_.rend(); ++id) {
    const ModuleId block = block_of(*id);
    if (block != last && ++blocks > 2) break;
    last = block;
    Stack& saved = stack(*id);
    Saved& next = saved[saved.size() - 1 - seen[*id]++];
    if (next.buffer.valid()) continue;
    // Memory of what backward has used is free from here on.
    if (std::exchange(waits, false)) {
      TESSERA_TRY(issuer_.wait_stream(copies_, issuer_.compute_stream(), why));
    }
    TESSERA_TRY(fetch(*id, next, why));
  }
  return {};
}

// Makes the youngest of the module readable on the device.
Status Activations::bring(const ModuleWork& work, Cause why) {
  const Saved& saved = stack(work.module).back();
  if (!saved.host.valid()) return {};
  why.reason = Reason::offload;
  block_ = {};  // forward is over
  TESSERA_TRY(fetch_blocks(work.module, why));
  return issuer_.wait_event(issuer_.compute_stream(), saved.moved, why);
}

Status Activations::keeps_none(ModuleId module) const {
  return Status(Code::invalid_argument,
                fmt::format("module {} keeps no activations", issuer_.model().module(module).path));
}

}  // namespace tessera
