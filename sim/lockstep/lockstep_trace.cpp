// SPDX-License-Identifier: Apache-2.0
// What the lockstep backend tells the trace: op rows, spans and memory of recorded ranks, steps.
#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "engine/runtime/allocator.h"
#include "engine/tracing/trace_row.h"
#include "sim/lockstep/lockstep_backend.h"
#include "sim/memory/memory_map.h"

namespace tessera::sim {
namespace {

std::string gibibytes(Bytes bytes) {
  return fmt::format("{:.2f} GiB", static_cast<double>(bytes.value) / (1 << 30));
}

// "activations 41.20 GiB, optimizer state 7.48 GiB, ...": the three largest.
template <class ByClass>
std::string holders(const ByClass& by_class) {
  std::vector<std::pair<Bytes, MemoryClass>> classes;
  for (int c = 0; c < memory_class_count; ++c) {
    classes.emplace_back(by_class[static_cast<std::size_t>(c)], static_cast<MemoryClass>(c));
  }
  std::stable_sort(classes.begin(), classes.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  std::string text;
  for (std::size_t k = 0; k < 3; ++k) {
    text += fmt::format("{}{} {}", k == 0 ? "" : ", ", name_of(classes[k].second),
                        gibibytes(classes[k].first));
  }
  return text;
}

}  // namespace

Status LockstepBackend::stream_created(StreamId id, const Stream& stream) {
  if (keeps_calls_) calls_.spoil();
  streams_.push_back({.clock = pool_.same(0), .pending = {}});
  waited_.add_stream();
  if (options_.sink != nullptr) options_.sink->stream({id.value, stream.name, stream.role});
  return {};
}

void LockstepBackend::trace_op(const Op& op, EventId event) {
  const CommunicatorId id = communicator_of(op);
  if (options_.sink == nullptr || (options_.only_collectives && !id.valid())) return;
  const std::vector<std::int32_t> after = waited_.after(op.stream);
  std::string_view algorithm;
  if (id.valid()) {
    CollectiveShape shape = state(id).shapes.front();
    shape.kind = kind_of(op);
    shape.bytes = bytes_of(op);
    algorithm = options_.cost->algorithm(shape);
  }
  TraceRow row(op, event);
  row.op.algorithm = algorithm;
  row.op.after = after;
  options_.sink->op(row.op);
}

void LockstepBackend::trace_spans(const Op& op, EventId event, const Timing& timing) {
  if (options_.sink == nullptr || memory_.ranks().empty()) return;
  const CommunicatorId id = communicator_of(op);
  auto& [ranks, begin, ready, end] = spans_;
  ranks.clear();
  for (auto* times : {&begin, &ready, &end}) times->clear();
  for (Rank rank : memory_.ranks()) {
    if (!op.where.contains(rank)) continue;
    const auto r = static_cast<std::size_t>(rank);
    Time cost = (*timing.end)[r] - (*timing.begin)[r];
    if (timing.costs.size() == 1) cost = timing.costs[0];
    if (timing.costs.size() > 1) {
      cost = timing.costs[static_cast<std::size_t>(communicator(id).groups.group_of(rank))];
    }
    ranks.push_back(rank);
    begin.push_back((*timing.begin)[r]);
    ready.push_back((*timing.end)[r] - cost);
    end.push_back((*timing.end)[r]);
  }
  options_.sink->spans({event.value, ranks, begin, ready, end});
}

Status LockstepBackend::buffer_requested(BufferId id, const Allocation& request) {
  if (keeps_calls_) calls_.add(RequestCall(id, request));
  requested(id, request);
  return options_.numerics ? numbers_.allocate(id, request) : Status();
}

void LockstepBackend::requested(BufferId id, const Allocation& request) {
  enter_step(request.cause.step);
  if (traces_buffers()) traced_.add(id, request, *options_.sink);
}

// What lay where when there was no room for `id`, which has got memory that is not there since.
void LockstepBackend::trace_shortage(BufferId id, const Allocation& request, Rank rank) {
  MemoryMap map(options_.memory_per_rank, cached_ ? Bytes{1} : allocator_page);
  const auto row = [&](BufferId of) { return of.valid() ? traced_.row_of(of) : -1; };
  if (cached_) {
    for (const CachedMemory::Piece& piece : cached_->pieces_at_failure(rank)) {
      const bool usable = piece.at.stream == request.stream.value;
      map.add(
          {piece.at.address, piece.at.bytes, piece.at.segment, piece.at.stream, row(piece.buffer)},
          usable);
    }
  } else {
    for (const MemoryPiece& piece : device_memory(rank, request.stream)) {
      const bool own = piece.buffer == id;
      map.add({piece.offset, piece.bytes, {}, -1, own ? -1 : row(piece.buffer)},
              own || piece.usable);
    }
  }
  map.add_rest();
  options_.sink->memory_shortage({.rank = rank,
                                  .time = horizon(rank),
                                  .buffer = traced_.row_of(id),
                                  .request = request.bytes,
                                  .capacity = options_.memory_per_rank,
                                  .free = map.free(),
                                  .largest_free = map.largest_free(),
                                  .blocks = map.blocks()});
}

void LockstepBackend::tell_out_of_memory(BufferId id, const Allocation& request, Rank rank,
                                         const MemoryUse& device, Bytes reserved) {
  auto by_class = device.by_class;
  by_class[static_cast<std::size_t>(MemoryClass::reserved_unused)] = reserved - device.allocated;
  out_of_memory_ =
      fmt::format("rank {} is out of memory in step {}: {} of {} does not fit into {}; it holds {}",
                  rank, step_, request.name, gibibytes(request.bytes),
                  gibibytes(options_.memory_per_rank), holders(by_class));
  if (options_.sink == nullptr) return;
  options_.sink->diagnostic({.severity = TraceDiagnostic::Severity::error,
                             .code = "out_of_memory",
                             .rank = rank,
                             .time = horizon(rank),
                             .message = out_of_memory_});
  // Without recorded ranks there are no buffers that it could name.
  if (traces_buffers()) trace_shortage(id, request, rank);
}

// What the allocator that the run is said to have takes for a buffer of `ranks`.
CachedMemory::Taken LockstepBackend::take(BufferId id, const Allocation& request,
                                          const RankSet& ranks, const MemoryUse& device) {
  const Bytes capacity = options_.memory_per_rank;
  CachedMemory::Taken taken{.reserved = device.reserved,
                            .fits = capacity == Bytes{} || device.reserved <= capacity};
  if (cached_) {
    bool tells = false;
    if (traces_buffers()) memory_.for_each_slot_in(ranks, [&](std::size_t) { tells = true; });
    taken = cached_->allocate(id, request.bytes, request.stream, ranks,
                              host_.time_of(ranks.first()), tells);
  }
  if (taken.retried) {
    for (const StreamState& s : streams_) host_.wait(s.clock, pool_);
    ++cache_returns_;
  }
  if (!taken.fits && out_of_memory_.empty()) {
    tell_out_of_memory(id, request, ranks.first(), device, taken.reserved);
  }
  return taken;
}

Status LockstepBackend::buffer_placed(BufferId id, const Allocation& request, const RankSet& ranks,
                                      const Placement& placement) {
  if (keeps_calls_) calls_.add(PlaceCall{ranks, placement.offset, placement.device});
  return placed(id, request, ranks, placement);
}

// The moment a stream reaches its next op: where buffers for that op begin to exist.
Status LockstepBackend::placed(BufferId id, const Allocation& request, const RankSet& ranks,
                               const Placement& placement) {
  const bool on_device = request.memory == Memory::device;
  CachedMemory::Taken taken{};
  if (on_device) taken = take(id, request, ranks, placement.device);
  if (on_device && !taken.fits && options_.ends_when_full) {
    return {Code::out_of_memory, out_of_memory_};
  }
  if (!traces_buffers()) return {};
  const bool has_place = options_.allocator == StackProfile::Allocator::events;
  const Bytes end = has_place ? placement.offset + request.bytes : taken.reserved;
  const MemoryClass memory_class = class_in(request.memory, request.memory_class);
  memory_.for_each_slot_in(ranks, [&](std::size_t slot) {
    const Rank rank = memory_.ranks()[slot];
    Time time = request.stream.valid() ? next_begin(request.stream, rank) : horizon(rank);
    if (taken.retried) {
      time = std::max(time, host_.time_of(rank));  // which has waited for all streams
      memory_.gave_back(slot, time, cached_->reserved(rank));
    }
    memory_.change(slot, time, traced_.row_of(id), memory_class, request.bytes, end);
  });
  return {};
}

Time LockstepBackend::next_begin(StreamId id, Rank rank) const {
  const StreamState& stream = streams_[static_cast<std::size_t>(id.value)];
  Time time = (*stream.clock)[static_cast<std::size_t>(rank)];
  for (const Pending& pending : stream.pending) {
    time = std::max(time, (*pending.clock)[static_cast<std::size_t>(rank)]);
  }
  return time;
}

template <class TimeOf>
Time LockstepBackend::earliest(const TimeOf& time_of) const {
  Time earliest = std::numeric_limits<Time>::max();
  for (std::size_t s = 0; s < streams_.size(); ++s) {
    const StreamId stream{static_cast<std::int32_t>(s)};
    if (waited_.last(stream) >= 0) earliest = std::min(earliest, time_of(stream));
  }
  return earliest == std::numeric_limits<Time>::max() ? 0 : earliest;
}

Time LockstepBackend::horizon(Rank rank) const {
  return earliest([&](StreamId stream) {
    const StreamState& state = streams_[static_cast<std::size_t>(stream.value)];
    return (*state.clock)[static_cast<std::size_t>(rank)];
  });
}

// What nobody knows any more is over for every stream: no later than the first of them goes on. A
// stream that rests may have stood still for long before that.
Time LockstepBackend::time_at(const EventTime* event, Rank rank) const {
  if (event == nullptr) {
    return earliest([&](StreamId stream) { return next_begin(stream, rank); });
  }
  Time time = (*event->clock)[static_cast<std::size_t>(rank)];
  for (const Pending& pending : event->also) {
    time = std::max(time, (*pending.clock)[static_cast<std::size_t>(rank)]);
  }
  return time;
}

void LockstepBackend::buffer_released(BufferId id, EventId after, const RankSet& ranks) {
  if (options_.numerics) numbers_.release(id, ranks);
  std::vector<std::pair<Rank, bool>> asked;
  const auto waits = [&](StreamId owner, Rank rank) {
    const bool anyway = runs_after(owner, after, rank);
    if (keeps_calls_) asked.emplace_back(rank, anyway);
    return anyway;
  };
  const EventId live = if_live(after);
  released(id, buffer(id), live, ranks, waits);
  if (keeps_calls_) calls_.add(ReleaseCall{id, buffer(id), live, ranks, std::move(asked)});
}

void LockstepBackend::released(BufferId id, const Buffer& buffer, EventId after,
                               const RankSet& ranks, const WaitsFor& waits) {
  const EventTime* event = after.valid() ? find(after) : nullptr;
  if (cached_ && buffer.memory == Memory::device) {
    cached_->release(id, ranks, [&](StreamId owner, Rank rank) -> std::optional<CachedMemory::Use> {
      if (event == nullptr || waits(owner, rank)) return {};
      return CachedMemory::Use{event->stream, time_at(event, rank)};
    });
  }
  if (!traces_buffers()) return;
  memory_.for_each_slot_in(ranks, [&](std::size_t slot) {
    memory_.change(slot, time_at(event, memory_.ranks()[slot]), traced_.row_of(id),
                   class_in(buffer.memory, buffer.memory_class), -buffer.bytes, Bytes{});
  });
  traced_.release(id, ranks);
}

void LockstepBackend::enter_step(std::int32_t step) {
  while (step_open_ && step_ < step) close_step();
  step_ = std::max(step_, step);
  step_open_ = true;
}

// Steps that repeat use the memory that the last one of the program did.
std::vector<PeakMemory> LockstepBackend::peaks_of_step() {
  if (step_ <= own_steps_) return peaks_ = take_peaks(step_);
  for (PeakMemory& peak : peaks_) peak.step = step_;
  return peaks_;
}

void LockstepBackend::close_step() {
  std::vector<PeakMemory> peaks = peaks_of_step();
  if (cached_) cached_->settle();
  for (PeakMemory& peak : peaks) {
    if (!cached_) break;
    peak.reserved = std::max(cached_->peak(peak.first_rank), peak.allocated);
    peak.by_class[static_cast<std::size_t>(MemoryClass::reserved_unused)] =
        peak.reserved - peak.allocated;
  }
  if (cached_) cached_->restart_peaks();
  for (std::size_t s = 0; s < streams_.size(); ++s) {
    const StreamId id{static_cast<std::int32_t>(s)};
    if (stream(id).role != StreamRole::compute) continue;
    const Clock end = resolve(id);
    std::vector<Bytes> allocated(static_cast<std::size_t>(options_.world_size));
    std::vector<Bytes> reserved(allocated.size());
    for (const PeakMemory& peak : peaks) {
      std::fill(allocated.begin() + peak.first_rank, allocated.begin() + peak.end_rank,
                peak.allocated);
      std::fill(reserved.begin() + peak.first_rank, reserved.begin() + peak.end_rank,
                peak.reserved);
    }
    accounts_.close(step_, end, allocated, reserved, options_.sink);
    break;
  }
  close_memory(peaks);
  ++step_;
}

void LockstepBackend::close_memory(const std::vector<PeakMemory>& peaks) {
  if (options_.sink == nullptr) return;
  for (const PeakMemory& peak : peaks) options_.sink->peak_memory(peak);
  for (std::size_t slot = 0; slot < memory_.ranks().size(); ++slot) {
    memory_.flush(slot, horizon(memory_.ranks()[slot]), *options_.sink);
  }
}

Status LockstepBackend::finish() {
  if (step_open_) close_step();
  step_open_ = false;
  if (options_.sink != nullptr) {
    for (std::size_t slot = 0; slot < memory_.ranks().size(); ++slot) {
      memory_.flush(slot, std::numeric_limits<Time>::max(), *options_.sink);
    }
  }
  return CheckedRuntime::finish();
}

}  // namespace tessera::sim
