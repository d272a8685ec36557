// SPDX-License-Identifier: Apache-2.0
#include "engine/schemes/zero3/parameters/gathered_memory.h"

#include <fmt/format.h>

namespace tessera {

Bytes GatheredMemory::of(ParameterId parameter) const {
  return bytes_of(parameters_[parameter].partition * facts_.ranks, facts_.param_dtype());
}

// Coalesced, the buffer of the gather and all copies out of it exist at the same time.
Bytes GatheredMemory::most_of(std::span<const ParameterId> parameters) const {
  Bytes bytes{};
  for (ParameterId id : parameters) bytes += of(id);
  return most_of(bytes, parameters.size());
}

// torch.cat makes the unpadded size; the padding stays here, so that a copy of it is simple.
Status GatheredMemory::allocate(OnDemandParameter& p, StreamId stream, const Cause& why) {
  TESSERA_ASSIGN(const BufferId buffer,
                 operations_.allocate(fmt::format("{}.full", facts_.name(p.id)), of(p.id),
                                      MemoryClass::unsharded_parameters, stream, why));
  p.copy.place(buffer);
  live_ += of(p.id);
  return {};
}

Status GatheredMemory::free(OnDemandParameter& p, EventId after) {
  BufferId buffer = p.copy.free();
  live_ -= of(p.id);
  TESSERA_ASSERT(live_ >= Bytes{0}, "nothing is freed twice");
  return operations_.release(buffer, after);
}

Result<BufferId> GatheredMemory::allocate_flat(std::int32_t gather, Numel numel, const Cause& why) {
  const Bytes bytes = bytes_of(numel, facts_.param_dtype());
  TESSERA_ASSIGN(const BufferId flat,
                 operations_.allocate(fmt::format("gather_{}.flat", gather), bytes,
                                      MemoryClass::all_gather_buffers, facts_.all_gather, why));
  live_ += bytes;
  promised_ += bytes;
  return flat;
}

Status GatheredMemory::release_flat(BufferId& flat, Numel numel, EventId after) {
  const Bytes bytes = bytes_of(numel, facts_.param_dtype());
  promised_ -= bytes;
  live_ -= bytes;
  TESSERA_ASSERT(promised_ >= Bytes{0} && live_ >= promised_, "a gather is split once");
  return operations_.release(flat, after);
}

}  // namespace tessera
