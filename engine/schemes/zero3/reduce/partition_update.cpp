// SPDX-License-Identifier: Apache-2.0
#include "engine/schemes/zero3/reduce/partition_update.h"

#include <array>
#include <utility>

#include "tessera/assert.h"

namespace tessera {

// What the CPU writes must have been read by the gathers before.
Status PartitionUpdate::enter() {
  if (!facts_.host.valid()) return {};
  TESSERA_TRY(operations_.wait_stream(facts_.host, facts_.all_gather, order()));
  return operations_.wait_stream(facts_.host, facts_.compute, order());
}

Status PartitionUpdate::refresh(const std::vector<ParamShard*>& all) {
  stale_ = false;
  TESSERA_TRY(enter());
  TESSERA_TRY(cast(all));
  if (!facts_.host.valid()) return {};
  return operations_.wait_stream(facts_.compute, facts_.host, order());
}

// Where both live in one kind of memory one copy casts all of them. What crosses a link is cast
// before, so that it crosses in its smaller dtype.
Status PartitionUpdate::cast(const std::vector<ParamShard*>& changed) {
  const Cause why = operations_.cause("root", Reason::copy_out);
  std::array<Copy, 2> within;  // the device, host memory
  within[1].route = CopyRoute::on_host;
  for (const ParamShard* shard : changed) {
    TESSERA_ASSERT(shard->map.segments().size() == 1, "a partition is of one parameter");
    const OnDemandParameter& p = parameters_[shard->map.segments().front().parameter];
    if (!p.cast.valid()) continue;
    const bool host = p.shard.memory != Memory::device;
    if (p.home == p.shard.memory) {
      within[host ? 1 : 0].pieces.push_back({.from = p.shard.values(), .to = partitions_.of(p)});
    } else {
      TESSERA_TRY(send(p, why));
    }
  }
  for (Copy& copy : within) {
    if (copy.pieces.empty()) continue;
    const bool host = copy.route == CopyRoute::on_host;
    TESSERA_TRY(
        operations_.submit(host ? facts_.host : facts_.compute, why, std::move(copy)).status());
  }
  return {};
}

Result<PartitionUpdate::Staged> PartitionUpdate::stage(const OnDemandParameter& p, Memory memory,
                                                       StreamId stream, const Cause& why) {
  const bool host = memory != Memory::device;
  Staged staged;
  TESSERA_ASSIGN(
      staged.buffer,
      operations_.allocate(p.shard.name + ".staged", bytes_of(p.partition, facts_.param_dtype()),
                           host ? MemoryClass::pinned_host : MemoryClass::temporary, stream, why,
                           memory));
  staged.view = View::whole(staged.buffer, facts_.param_dtype(), p.partition);
  return staged;
}

// Step by step: cast where the masters live, over the link, onto the drive. The link and the drive
// work while the next group is stepped.
Status PartitionUpdate::send(const OnDemandParameter& p, const Cause& why) {
  Cause move = why;
  move.reason = Reason::offload;
  const bool from_host = p.shard.memory != Memory::device;
  StreamId stream = from_host ? facts_.host : facts_.compute;
  View now = p.shard.values();
  std::vector<BufferId> staging;
  EventId last;
  if (facts_.mixed()) {
    TESSERA_ASSIGN(const Staged cast, stage(p, p.shard.memory, stream, why));
    TESSERA_ASSIGN(
        last, operations_.submit(stream, why,
                                 Copy{.pieces = {{.from = now, .to = cast.view}},
                                      .route = *route_between(p.shard.memory, p.shard.memory)}));
    staging.push_back(cast.buffer);
    now = cast.view;
  }
  // The gathers' stream copies to the device, so that gathers need no wait of their own for it.
  if (p.home == Memory::device) {
    TESSERA_TRY(operations_.wait_stream(facts_.all_gather, facts_.host, order()));
    stream = facts_.all_gather;
  }
  const bool straight = p.home == Memory::nvme && (from_host || facts_.options.aio.use_gds);
  if (!straight) {
    View to = partitions_.of(p);
    if (p.home == Memory::nvme) {
      TESSERA_ASSIGN(const Staged on_host, stage(p, Memory::pinned_host, stream, why));
      staging.push_back(on_host.buffer);
      to = on_host.view;
    }
    TESSERA_ASSIGN(last, operations_.submit(
                             stream, move,
                             Copy{.pieces = {{.from = now, .to = to}},
                                  .route = from_host ? CopyRoute::to_device : CopyRoute::to_host}));
    now = to;
  }
  if (p.home == Memory::nvme) {
    const Memory from = straight ? p.shard.memory : Memory::pinned_host;
    TESSERA_ASSIGN(last, swapper_.write(p, now, from, stream, why));
  }
  TESSERA_ASSERT(last.valid(), "what lives elsewhere moves");
  if (!facts_.mixed()) states_.follow(last);  // what moved was the master itself
  for (BufferId buffer : staging) TESSERA_TRY(operations_.release(buffer, last));
  return {};
}

}  // namespace tessera
