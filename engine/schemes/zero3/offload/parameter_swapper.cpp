// SPDX-License-Identifier: Apache-2.0
#include "engine/schemes/zero3/offload/parameter_swapper.h"

#include <fmt/format.h>

#include <algorithm>

#include "engine/schemes/zero3/parameters/marks.h"

namespace tessera {

Status ParameterSwapper::setup(const OnDemandParameters& parameters) {
  const OnDemandParameter* largest = nullptr;
  for (const OnDemandParameter& p : parameters) {
    if (p.home != Memory::nvme) continue;
    if (largest == nullptr || p.partition > largest->partition) largest = &p;
  }
  if (largest == nullptr) return {};
  const Offload& offload = options_.offload_param;
  if (largest->partition > offload.buffer_size) {
    return Status(
        Code::invalid_argument,
        fmt::format("{}: its partition has {} elements, more than a swap buffer of {}: "
                    "set buffer_size to as many at least",
                    largest->shard.name, largest->partition.value, offload.buffer_size.value));
  }
  TESSERA_ASSIGN(stream_, operations_.create_stream("nvme", StreamRole::host));
  const Cause why = operations_.cause("root", Reason::none);
  const auto memory_class =
      options_.aio.use_gds ? MemoryClass::all_gather_buffers : MemoryClass::nvme_staging;
  for (std::int64_t k = 0; k < offload.buffer_count; ++k) {
    Buffer buffer;
    // No larger than what can ever be in it.
    TESSERA_ASSIGN(buffer.memory,
                   operations_.allocate(fmt::format("swap_buffer_{}", k),
                                        bytes_of(largest->partition, options_.param_dtype),
                                        memory_class, stream_, why, memory()));
    buffers_.push_back(buffer);
  }
  return {};
}

std::int32_t ParameterSwapper::free_buffers() const {
  return static_cast<std::int32_t>(
      std::count_if(buffers_.begin(), buffers_.end(), [](auto& b) { return !b.holds.valid(); }));
}

const ParameterSwapper::Buffer* ParameterSwapper::find(ParameterId id) const {
  const auto found =
      std::find_if(buffers_.begin(), buffers_.end(), [id](auto& b) { return b.holds == id; });
  return found == buffers_.end() ? nullptr : &*found;
}

ParameterSwapper::Buffer* ParameterSwapper::find(ParameterId id) {
  return const_cast<Buffer*>(std::as_const(*this).find(id));
}

// The one that was free for longest: its copy to the device is over soonest.
ParameterSwapper::Buffer* ParameterSwapper::free_buffer() {
  Buffer* best = nullptr;
  for (Buffer& b : buffers_) {
    if (!b.holds.valid() && (best == nullptr || b.copied < best->copied)) best = &b;
  }
  return best;
}

ParameterSwapper::Buffer& ParameterSwapper::youngest() {
  TESSERA_ASSERT(exists(), "what is on NVMe comes through buffers");
  return *std::max_element(buffers_.begin(), buffers_.end(),
                           [](auto& a, auto& b) { return a.turn < b.turn; });
}

View ParameterSwapper::view(const Buffer& buffer, const OnDemandParameter& p) const {
  return View::whole(buffer.memory, options_.param_dtype, p.partition);
}

// As the file has it: DeepSpeed reads and writes multiples of its alignment.
Numel ParameterSwapper::aligned(const OnDemandParameter& p) const {
  const std::int64_t unit =
      std::max<std::int64_t>(1, options_.aio.alignment.value / size_of(options_.param_dtype).value);
  return Numel{(p.partition.value + unit - 1) / unit * unit};
}

Status ParameterSwapper::note(const OnDemandParameter* p, Mark mark) {
  Cause why = operations_.cause(p == nullptr ? "root" : p->shard.unit, Reason::offload);
  if (p != nullptr) why.module = facts_.name(p->id);
  return operations_.submit(facts_.compute, why, mark).status();
}

// The buffer's earlier values may still be on their way to the device: the read follows that copy.
Status ParameterSwapper::read(Buffer& buffer, const OnDemandParameter& p) {
  TESSERA_ASSERT(p.home == Memory::nvme && p.cast.valid(), "only what is on NVMe is read");
  TESSERA_ASSERT(!has(p), "a partition is in one buffer at most");
  const Cause why = operations_.cause(p.shard.unit, Reason::offload);
  if (buffer.copied.valid()) {
    TESSERA_TRY(operations_.wait_event(stream_, buffer.copied,
                                       operations_.cause(p.shard.unit, Reason::order)));
  }
  const View from = View::whole(p.cast, options_.param_dtype, p.partition);
  TESSERA_ASSIGN(buffer.read,
                 operations_.submit(stream_, why,
                                    Copy{.pieces = {{.from = from, .to = view(buffer, p)}},
                                         .route = *route_between(Memory::nvme, memory())}));
  buffer.holds = p.id;
  buffer.copied = {};
  buffer.waited_for = false;
  buffer.turn = ++turns_;
  return {};
}

Status ParameterSwapper::read_ahead(std::span<OnDemandParameter* const> next) {
  for (OnDemandParameter* p : next) {
    if (!unread(*p)) continue;
    if (free_buffers() < 2) return {};
    TESSERA_TRY(read(*free_buffer(), *p));
  }
  return {};
}

Result<EventId> ParameterSwapper::bring(OnDemandParameter& p, const View& to,
                                        CommunicatorId index_in, StreamId stream,
                                        const Cause& why) {
  Buffer* buffer = find(p.id);
  if (buffer == nullptr) {
    buffer = free_buffer();
    // What was read ahead last is needed last, and can be read again.
    if (buffer == nullptr) buffer = &youngest();
    TESSERA_TRY(read(*buffer, p));
  }
  TESSERA_TRY(
      operations_.wait_event(stream, buffer->read, operations_.cause(why.unit, Reason::order)));
  Cause move = why;
  if (memory() != Memory::device) move.reason = Reason::offload;
  TESSERA_ASSIGN(buffer->copied,
                 operations_.submit(stream, move,
                                    Copy{.index_in = index_in,
                                         .pieces = {{.from = view(*buffer, p), .to = to}},
                                         .route = *route_between(memory(), Memory::device)}));
  // Free at once: the next read into it follows the copy by an event, not by the host.
  if (!facts_.rules.keeps_swap_buffers) buffer->holds = {};
  return buffer->copied;
}

// The one stream that moves files orders writes and later reads, so no read needs a wait for it.
Result<EventId> ParameterSwapper::write(const OnDemandParameter& p, const View& values,
                                        Memory where, StreamId source, const Cause& why) {
  // A buffer with the values of before would be taken for them by the next gather.
  if (Buffer* const old = find(p.id)) old->holds = {};
  TESSERA_TRY(operations_.wait_stream(stream_, source, operations_.cause(why.unit, Reason::order)));
  Cause move = why;
  move.reason = Reason::offload;
  const View to = View::whole(p.cast, options_.param_dtype, p.partition);
  return operations_.submit(
      stream_, move,
      Copy{.pieces = {{.from = values, .to = to}}, .route = *route_between(where, Memory::nvme)});
}

Status ParameterSwapper::swap_in(std::span<OnDemandParameter* const> parameters, bool async) {
  const std::int32_t free = free_buffers();
  if (free < std::ssize(parameters)) {
    return Status(Code::invalid_argument,
                  fmt::format("Not enough buffers {} for swapping {}: {} and what is gathered "
                              "already keep a buffer each; raise buffer_count",
                              free, parameters.size(), parameters.front()->shard.name));
  }
  TESSERA_TRY(note(nullptr, {async ? marks::swapping_in_ahead : marks::swapping_in, free}));
  for (OnDemandParameter* p : parameters) {
    TESSERA_TRY(note(p, {marks::reading, static_cast<std::int32_t>(aligned(*p).value)}));
    Buffer* const buffer = free_buffer();
    TESSERA_ASSERT(buffer != nullptr, "free buffers were counted before");
    TESSERA_TRY(read(*buffer, *p));
  }
  return async ? Status{} : synchronize_reads();
}

Status ParameterSwapper::synchronize_reads() {
  std::int32_t pending = 0;
  for (Buffer& buffer : buffers_) {
    if (!buffer.holds.valid() || buffer.waited_for) continue;
    buffer.waited_for = true;
    TESSERA_TRY(operations_.wait(buffer.read));
    ++pending;
  }
  return note(nullptr, {marks::reads_awaited, pending});
}

// As in DeepSpeed, where a gather begins with this call: one parameter that was not read ahead
// makes the host wait for the reads of all.
Status ParameterSwapper::ensure_availability(std::span<OnDemandParameter* const> parameters) {
  std::vector<OnDemandParameter*> missing;
  bool flying = false;
  for (OnDemandParameter* p : parameters) {
    if (p->home != Memory::nvme) continue;
    const Buffer* const buffer = find(p->id);
    if (buffer == nullptr) missing.push_back(p);
    flying |= buffer != nullptr && !buffer->waited_for;
  }
  if (!missing.empty()) return swap_in(missing, false);
  return flying ? synchronize_reads() : Status{};
}

Status ParameterSwapper::release_buffer(const OnDemandParameter& p) {
  if (p.home != Memory::nvme) return {};
  TESSERA_TRY(note(&p, {marks::buffer_released, free_buffers()}));
  if (Buffer* const buffer = find(p.id)) buffer->holds = {};
  return {};
}

}  // namespace tessera
