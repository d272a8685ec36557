// SPDX-License-Identifier: Apache-2.0
#include "engine/schemes/zero3/gather/partitions.h"

#include <algorithm>

#include "tessera/assert.h"

namespace tessera {

Result<BufferId> allocate_in(Operations& operations, const Zero3Facts& facts, Memory memory,
                             const std::string& name, Bytes bytes, MemoryClass on_device,
                             const Cause& why) {
  static constexpr MemoryClass elsewhere[] = {
      {}, MemoryClass::pinned_host, MemoryClass::nvme_staging};
  const auto place = static_cast<std::size_t>(memory);
  return operations.allocate_in(facts.options.offload_param.nvme_path, memory, name, bytes,
                                memory == Memory::device ? on_device : elsewhere[place], why);
}

Status Partitions::allocate(OnDemandParameter& p) {
  TESSERA_ASSERT(!p.shard.value.valid() && !p.cast.valid(), "a partition gets its memory once");
  const Cause why = operations_.cause(p.shard.unit, Reason::none);
  constexpr auto memory_class = MemoryClass::sharded_parameters;
  TESSERA_ASSIGN(p.shard.value,
                 allocate_in(operations_, facts_, p.shard.memory, p.shard.name + ".partition",
                             bytes_of(p.partition, DType::float32), memory_class, why));
  // What comes and goes with the optimizer's step cannot be gathered meanwhile.
  if (!facts_.mixed() && p.home == p.shard.memory && !p.shard.swapped) return {};
  TESSERA_ASSIGN(p.cast,
                 allocate_in(operations_, facts_, p.home, p.shard.name + ".cast",
                             bytes_of(p.partition, facts_.param_dtype()), memory_class, why));
  return {};
}

Status Partitions::prepare(const std::vector<ParameterId>& parameters) {
  if (!swapper_.exists() || !facts_.rules.host_waits_for_reads) return {};
  std::vector<OnDemandParameter*> all;
  for (ParameterId id : parameters) all.push_back(&parameters_[id]);
  return swapper_.ensure_availability(all);
}

// What is on NVMe comes one by one, each as soon as it was read; the rest by one copy per route.
Result<EventId> Partitions::bring(StreamId stream, const Cause& why, CommunicatorId index_in,
                                  const std::vector<GatherPart>& parts) {
  std::vector<RoutedBlocks> pieces;
  for (const GatherPart& part : parts) {
    if (part.home == Memory::nvme) continue;
    pieces.push_back(
        {*route_between(part.home, Memory::device), {.from = part.from, .to = part.to}});
  }
  TESSERA_ASSIGN(EventId done, operations_.copy_by_route(stream, why, index_in, pieces));
  for (const GatherPart& part : parts) {
    if (part.home != Memory::nvme) continue;
    // On the same stream as the copies above, so the last event stands for all of them.
    TESSERA_ASSIGN(done,
                   swapper_.bring(parameters_[part.parameter], part.to, index_in, stream, why));
  }
  const bool moved = std::any_of(parts.begin(), parts.end(), [](const GatherPart& part) {
    return part.home != Memory::device;
  });
  TESSERA_ASSERT(done.valid() || parts.empty(), "whatever is brought is brought by a copy");
  if (moved && facts_.rules.host_waits_for_copies) TESSERA_TRY(operations_.wait(done));
  return done;
}

// What is offloaded comes straight to its place in the gathered copy: the all_gather is in place
// then, and needs no further buffer.
Result<View> Partitions::gather_input(const OnDemandParameter& p, const View& full, StreamId stream,
                                      const Cause& why) {
  TESSERA_ASSERT(facts_.ranks > 1, "a single rank has nobody to gather from");
  if (p.home == Memory::device) return of(p);
  View own = View::shard(full.buffer, full.dtype, p.partition, facts_.ranks);
  own.first = Numel{0};
  own.numel = p.partition;
  TESSERA_TRY(bring(stream, why, facts_.world, {{p.id, of(p), own, p.home}}).status());
  return own;
}

}  // namespace tessera
