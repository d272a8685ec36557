// SPDX-License-Identifier: Apache-2.0
// New values: from the float32 partitions that the optimizer stepped to those that are gathered.
#include "engine/offload/zero3_engine.h"

namespace tessera {

// What the CPU writes must have been read by the gathers before.
Status Zero3Engine::enter_update() {
  if (!host_.valid()) return {};
  const Cause why = cause("root", Reason::order);
  TESSERA_TRY(wait_stream(host_, all_gather_, why));
  return enter_host(why);
}

// Where both live in one kind of memory one copy casts all of them. What crosses the link is cast
// before, so that it crosses in its smaller dtype.
Status Zero3Engine::cast_partitions(const std::vector<Held*>& changed) {
  const Cause why = cause("root", Reason::copy_out);
  std::array<Copy, 2> within;  // the device, host memory
  within[1].route = CopyRoute::on_host;
  for (const Held* held : changed) {
    const OnDemandParameter& p = at(held->map.segments().front().parameter);
    if (!p.cast.valid()) continue;
    const bool host = p.held.memory != Memory::device;
    if (p.home == p.held.memory) {
      within[host ? 1 : 0].pieces.push_back({.from = p.held.values(), .to = partition_of(p)});
    } else {
      TESSERA_TRY(host ? cast_from_host(p, why) : cast_from_device(p, why));
    }
  }
  for (Copy& copy : within) {
    if (copy.pieces.empty()) continue;
    const bool host = copy.route == CopyRoute::on_host;
    TESSERA_TRY(submit(host ? host_ : compute_, why, std::move(copy)).status());
  }
  return {};
}

Status Zero3Engine::cast_from_device(const OnDemandParameter& p, const Cause& why) {
  View from = p.held.values();
  BufferId staging;
  if (mixed()) {
    TESSERA_ASSIGN(staging, allocate(p.held.name + ".staged", bytes_of(p.partition, param_dtype()),
                                     MemoryClass::temporary, compute_, why));
    const View staged = View::whole(staging, param_dtype(), p.partition);
    TESSERA_TRY(submit(compute_, why, Copy{.pieces = {{.from = from, .to = staged}}}).status());
    from = staged;
  }
  Cause move = why;
  move.reason = Reason::offload;
  TESSERA_ASSIGN(const EventId moved, submit(compute_, move,
                                             Copy{.pieces = {{.from = from, .to = partition_of(p)}},
                                                  .route = CopyRoute::to_host}));
  return staging.valid() ? release(staging, moved) : Status{};
}

// The link works while the CPU steps the next group.
Status Zero3Engine::cast_from_host(const OnDemandParameter& p, const Cause& why) {
  View from = p.held.values();
  BufferId staging;
  if (mixed()) {
    TESSERA_ASSIGN(staging, runtime_.allocate({.bytes = bytes_of(p.partition, param_dtype()),
                                               .memory = Memory::pinned_host,
                                               .memory_class = MemoryClass::pinned_host,
                                               .stream = host_,
                                               .where = everyone_,
                                               .cause = why,
                                               .name = p.held.name + ".staged"}));
    const View staged = View::whole(staging, param_dtype(), p.partition);
    TESSERA_TRY(submit(host_, why,
                       Copy{.pieces = {{.from = from, .to = staged}}, .route = CopyRoute::on_host})
                    .status());
    from = staged;
  }
  Cause move = why;
  move.reason = Reason::offload;
  TESSERA_TRY(wait_stream(all_gather_, host_, cause("root", Reason::order)));
  TESSERA_ASSIGN(const EventId moved, submit(all_gather_, move,
                                             Copy{.pieces = {{.from = from, .to = partition_of(p)}},
                                                  .route = CopyRoute::to_device}));
  return staging.valid() ? release(staging, moved) : Status{};
}

}  // namespace tessera
