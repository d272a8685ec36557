// SPDX-License-Identifier: Apache-2.0
// New values: from the float32 partitions that the optimizer stepped to those that are gathered.
#include "engine/schemes/zero3/zero3_engine.h"

namespace tessera {

// What the CPU writes must have been read by the gathers before.
Status Zero3Engine::enter_update() {
  if (!host_.valid()) return {};
  const Cause why = cause("root", Reason::order);
  TESSERA_TRY(wait_stream(host_, all_gather_, why));
  return enter_host(why);
}

// Where both live in one kind of memory one copy casts all of them. What crosses a link is cast
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
      TESSERA_TRY(send(p, why));
    }
  }
  for (Copy& copy : within) {
    if (copy.pieces.empty()) continue;
    const bool host = copy.route == CopyRoute::on_host;
    TESSERA_TRY(submit(host ? host_ : compute_, why, std::move(copy)).status());
  }
  return {};
}

Result<Zero3Engine::Staged> Zero3Engine::stage(const OnDemandParameter& p, Memory memory,
                                               StreamId stream, const Cause& why) {
  const bool host = memory != Memory::device;
  Staged staged;
  TESSERA_ASSIGN(
      staged.buffer,
      allocate(p.held.name + ".staged", bytes_of(p.partition, param_dtype()),
               host ? MemoryClass::pinned_host : MemoryClass::temporary, stream, why, memory));
  staged.view = View::whole(staged.buffer, param_dtype(), p.partition);
  return staged;
}

// Step by step: cast where the masters live, over the link, onto the drive. The link and the drive
// work while the next group is stepped.
Status Zero3Engine::send(const OnDemandParameter& p, const Cause& why) {
  Cause move = why;
  move.reason = Reason::offload;
  const bool from_host = p.held.memory != Memory::device;
  StreamId stream = from_host ? host_ : compute_;
  View now = p.held.values();
  std::vector<BufferId> staging;
  EventId last;
  if (mixed()) {
    TESSERA_ASSIGN(const Staged cast, stage(p, p.held.memory, stream, why));
    TESSERA_ASSIGN(last, submit(stream, why,
                                Copy{.pieces = {{.from = now, .to = cast.view}},
                                     .route = *route_between(p.held.memory, p.held.memory)}));
    staging.push_back(cast.buffer);
    now = cast.view;
  }
  if (p.home == Memory::device) {
    TESSERA_TRY(wait_stream(all_gather_, host_, cause("root", Reason::order)));
    stream = all_gather_;
  }
  const bool straight = p.home == Memory::nvme && (from_host || options_.aio.use_gds);
  if (!straight) {
    View to = partition_of(p);
    if (p.home == Memory::nvme) {
      TESSERA_ASSIGN(const Staged on_host, stage(p, Memory::pinned_host, stream, why));
      staging.push_back(on_host.buffer);
      to = on_host.view;
    }
    TESSERA_ASSIGN(last,
                   submit(stream, move,
                          Copy{.pieces = {{.from = now, .to = to}},
                               .route = from_host ? CopyRoute::to_device : CopyRoute::to_host}));
    now = to;
  }
  if (p.home == Memory::nvme) {
    const Memory from = straight ? p.held.memory : Memory::pinned_host;
    TESSERA_ASSIGN(last, swapper_.write(p, now, from, stream, why));
  }
  if (!mixed()) states_swapper_.follow(last);  // what moved was the master itself
  for (BufferId buffer : staging) TESSERA_TRY(release(buffer, last));
  return {};
}

}  // namespace tessera
