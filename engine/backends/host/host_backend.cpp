// SPDX-License-Identifier: Apache-2.0
// When operations are carried out; what they do is in host_ops.cpp.
#include "engine/backends/host/host_backend.h"

#include <fmt/format.h>

#include <algorithm>

#include "engine/backends/host/thread_transport.h"
#include "engine/backends/host/transport_module.h"
#include "engine/numbers/number.h"
#include "engine/runtime/op_checks.h"
#include "tessera/assert.h"

namespace tessera {
HostBackend::HostBackend(std::unique_ptr<Transport> transport, const HostOptions& options)
    : ProcessRuntime(RankSet::all(transport->ranks()), RankSet::single(transport->rank())),
      transport_(std::move(transport)),
      options_(options),
      watch_(*transport_, options),
      guard_(transport_->rank(), options),
      rank_(transport_->rank()),
      swapped_(options.aio, options.swap_io, options.clock) {}

Status HostBackend::setup() {
  const Status prepared = prepare();
  return prepared.ok() ? Status{} : fail(prepared);
}

Status HostBackend::prepare() {
  for (HostMemory& memory : memory_) {
    TESSERA_ASSIGN(memory, HostMemory::reserve());
  }
  TESSERA_ASSIGN(const auto all, RankGroups::strided(transport_->ranks(), transport_->ranks()));
  TESSERA_TRY(transport_->add_communicator(control, all));
  const ProcessName own = ProcessName::own();
  std::vector<ProcessName> names(static_cast<std::size_t>(transport_->ranks()));
  TESSERA_TRY(gather(std::as_bytes(std::span(&own, 1)), std::as_writable_bytes(std::span(names)),
                     "the start of all ranks"));
  watch_.watch(PeerProcesses(names));
  TESSERA_ASSIGN(trace_link_, trace_link_of(*transport_));
  const bool has_sink = rank_ == 0 || options_.own_trace;
  TESSERA_ASSIGN(trace_, HostTrace::start(*trace_link_,
                                          {.sink = has_sink ? options_.sink : nullptr,
                                           .own = options_.own_trace},
                                          options_.clock, [this](Transport::Request request) {
                                            return complete(request, "the start of the trace");
                                          }));
  return {};
}

HostBackend::~HostBackend() {
  if (finished_ || transport_->ranks() == 1 || !transport_->ended().ok()) return;
  give_up(Status(Code::cancelled, "it ended its run before it was finished"));
}

Status HostBackend::stream_created(StreamId id, const Stream& stream) {
  queues_.emplace_back();
  last_.emplace_back();
  const auto place = id.index();
  const bool first = stream.role == StreamRole::communication;
  turns_.insert(first ? turns_.begin() : turns_.end(), place);
  if (trace_) trace_->add_stream(id, stream.name, stream.role);
  return {};
}

Status HostBackend::communicator_created(CommunicatorId id, const Communicator& communicator) {
  // Transports may wait for all ranks inside of add_communicator, where no deadline is checked. So
  // ranks meet first, which ends with an error if one of them does not come.
  TESSERA_TRY(meet("communicator", communicator.name).status());
  const HangGuard::Inside inside(guard_, nullptr);
  Status added = transport_->add_communicator(id, communicator.groups);
  if (trace_) trace_->add_communicator(id, communicator.name, communicator.groups);
  return added.ok() ? Status{} : fail(added);
}

Status HostBackend::buffer_requested(BufferId id, const Allocation& request) {
  while (!leaving_.empty() && is_done(leaving_.front().first)) {
    free_place(leaving_.front().second);
    leaving_.pop_front();
  }
  enter_step(request.cause.step);
  if (trace_) trace_->allocate(id, request);
  const bool here = request.where.contains(rank_);
  if (!here || request.memory != Memory::nvme) return {};
  Status allocated = swapped_.allocate(id, request, rank_);
  return allocated.ok() ? Status{} : fail(allocated);
}

void HostBackend::free_place(BufferId id) {
  swapped_.release(id, rank_);
  places_.erase(id);
}

void HostBackend::buffer_released(BufferId id, EventId after, const RankSet& ranks) {
  const Buffer& released = buffer(id);
  if (trace_ && released.memory == Memory::device) {
    trace_->release(id, released.memory_class, released.bytes, after, ranks);
  }
  if (!ranks.contains(rank_)) return;
  if (after.valid() && !is_done(after)) {
    leaving_.emplace_back(after, id);
  } else {
    free_place(id);
  }
}

Status HostBackend::buffer_placed(BufferId id, const Allocation& request, const RankSet& ranks,
                                  const Placement& placement) {
  const Bytes end = placement.offset + request.bytes;
  if (trace_ && request.memory == Memory::device) {
    trace_->place(id, request, ranks, end);
  }
  if (!ranks.contains(rank_)) return {};
  places_.add(id, {request.memory, placement.offset});
  if (request.memory == Memory::nvme) return {};  // it is in a file
  const Bytes room = memory_[static_cast<std::size_t>(request.memory)].reserved();
  if (end <= room) return {};
  return fail(Status(
      Code::out_of_memory,
      fmt::format("rank {} has no room for the {} bytes of {}: {} bytes would be in use, the "
                  "machine has {}",
                  rank_, request.bytes.value, request.name, end.value, room.value)));
}

Status HostBackend::execute(const Op& op, EventId event) {
  TESSERA_TRY(failure_);
  enter_step(op.cause.step);
  if (communicator_of(op).valid()) {
    watch_.log().add(op);
    if (Status heard = watch_.logged(); !heard.ok()) return fail(heard);
  }
  const bool here = op.where.contains(rank_);
  // Events are counted on every rank, also where the op does not hold: whoever waits for it there
  // has to find that it has happened.
  done_.add(!here);
  const auto place = trace_ ? trace_->submit(op, event, first_live_event(), here) : -1;
  if (!here) return {};
  if (takes_no_turns(op)) {
    // Operations for which other ranks wait start first.
    TESSERA_TRY(progress().status());
    if (may_run_now(op)) return run_now(op, event, place);
  }
  Queued next{.event = event,
              .op = op,
              .after = {op.after.begin(), op.after.end()},
              .number = watch_.log().count(),
              .running = nullptr,
              .trace_place = place};
  next.op.after = {};
  const auto* wait = std::get_if<Wait>(&op.what);
  if (wait != nullptr && wait->stream.valid()) {
    next.after.push_back(last_[wait->stream.index()]);
  }
  // The op's span of events is the caller's, so the queue keeps its own copy of them.
  std::erase_if(next.after, [](EventId waited) { return !waited.valid(); });
  if (communicator_of(op).valid()) unfinished_[communicator_of(op)].push_back(event);
  const auto stream = op.stream.index();
  last_[stream] = event;
  queues_[stream].push_back(std::move(next));
  ++queued_;
  return progress().status();
}

bool HostBackend::may_run_now(const Op& op) const {
  if (in_body_ || !queues_[op.stream.index()].empty()) return false;
  const auto* wait = std::get_if<Wait>(&op.what);
  if (wait != nullptr && wait->stream.valid()) {
    const EventId last = last_[wait->stream.index()];
    if (last.valid() && !is_done(last)) return false;
  }
  return std::all_of(op.after.begin(), op.after.end(),
                     [this](EventId waited) { return is_done(waited); });
}

// Most operations find their stream empty: they run at once and need no place in a queue, and no
// copy of themselves.
Status HostBackend::run_now(const Op& op, EventId event, std::int64_t place) {
  {
    const HangGuard::Inside inside(guard_, &op);
    if (trace_) trace_->begin(place);
    TESSERA_TRY(run(op));
  }
  last_[op.stream.index()] = event;
  ended(event, place);
  return progress().status();
}

void HostBackend::ended(EventId event, std::int64_t place) {
  done_.happen(event);
  if (trace_) trace_->end(place);
}

Status HostBackend::await_event(EventId event) {
  if (trace_) trace_->host_wait(event);
  return wait_until([this, event] { return is_done(event); }, "an operation");
}

Status HostBackend::poll() {
  TESSERA_TRY(progress().status());
  Status heard = watch_.turn();
  return heard.ok() ? Status{} : fail(heard);
}

// One operation of a stream at a time, so that a collective that became possible starts before the
// next module runs. Returns whether anything happened.
Result<bool> HostBackend::progress() {
  TESSERA_TRY(failure_);
  bool happened = false;
  for (bool again = queued_ > 0; again;) {
    again = false;
    for (std::size_t stream : turns_) {
      auto moved = advance(queues_[stream]);
      if (!moved.ok()) return fail(moved.status());
      again = again || *moved;
    }
    happened = happened || again;
  }
  if (!trace_ || in_body_) return happened;
  if (Status sent = trace_->advance(); !sent.ok()) return fail(sent);
  return happened;
}

bool HostBackend::may_start(const Queued& next) const {
  // A body that polls may let others communicate, but not compute on top of it.
  if (in_body_ && std::holds_alternative<Compute>(next.op.what)) return false;
  for (EventId waited : next.after) {
    if (!is_done(waited)) return false;
  }
  // Collectives of one communicator start in the order of submission, on whichever stream they are:
  // that is the only order which all ranks share.
  const CommunicatorId id = communicator_of(next.op);
  TESSERA_ASSERT(!id.valid() || !unfinished_.at(id).empty(),
                 "a collective that waits is unfinished");
  return !id.valid() || unfinished_.at(id).front() == next.event;
}

Result<bool> HostBackend::advance(std::deque<Queued>& queue) {
  if (queue.empty()) return false;
  Queued& next = queue.front();
  const bool starts = !next.started;
  if (starts && !may_start(next)) return false;
  if (!starts && !next.running) return false;  // a body that polls is still inside of it
  next.started = true;
  bool done = false;
  {
    const HangGuard::Inside inside(guard_, &next.op);
    TESSERA_ASSIGN(done, starts ? start(next) : next.running->advance());
  }
  if (!done) return starts;
  const CommunicatorId met = communicator_of(next.op);
  if (met.valid()) {
    TESSERA_ASSERT(unfinished_.at(met).front() == next.event,
                   "collectives of a communicator end in their order");
    unfinished_.at(met).pop_front();
  }
  ended(next.event, next.trace_place);
  queue.pop_front();
  --queued_;
  return true;
}

Result<bool> HostBackend::start(Queued& next) {
  if (trace_) trace_->begin(next.trace_place);
  if (takes_no_turns(next.op)) {
    TESSERA_TRY(run(next.op));
    return true;
  }
  if (const auto* work = std::get_if<Copy>(&next.op.what)) {
    next.running = start_files(*work);
  } else {
    TESSERA_ASSIGN(next.running, start_collective(next.op));
  }
  TESSERA_ASSERT(next.running != nullptr, "what takes its turn goes on beside the host");
  return next.running->advance();
}

// The only loop in which the host waits. The deadline counts from the last progress, so a long step
// is no error; time without progress is spent looking at the other ranks.
Status HostBackend::wait_until(const std::function<bool()>& done, const std::string& what) {
  Time since = time();
  while (!done()) {
    TESSERA_ASSIGN(const bool happened, progress());
    if (happened) {
      since = time();
      continue;
    }
    if (Status heard = watch_.turn(); !heard.ok()) return fail(heard);
    if (time() - since > options_.deadline) return fail(overdue(what));
    idle();
  }
  return {};
}

// Waits for a moment: for the drive if only its transfers are under way, else for other ranks,
// since a drive's completion would not show that a message has arrived.
void HostBackend::idle() {
  const bool meets = std::any_of(queues_.begin(), queues_.end(), [](const auto& queue) {
    return !queue.empty() && queue.front().running && communicator_of(queue.front().op).valid();
  });
  if (meets || !swapped_.wait()) transport_->idle();
}

// The operation to blame for a wait: the oldest one that has started or could start. Those behind
// it only wait for it.
const HostBackend::Queued* HostBackend::oldest_waiting() const {
  const Queued* oldest = nullptr;
  for (const auto& queue : queues_) {
    if (queue.empty()) continue;
    const Queued& head = queue.front();
    if (!head.started && !may_start(head)) continue;
    if (oldest == nullptr || head.event < oldest->event) oldest = &head;
  }
  return oldest;
}

Status HostBackend::overdue(const std::string& what) {
  const Queued* stuck = oldest_waiting();
  const std::string collective =
      stuck == nullptr || !communicator_of(stuck->op).valid()
          ? what
          : fmt::format("collective {}, {}", stuck->number, describe(logged_call(stuck->op)));
  return Status(Code::timed_out,
                fmt::format("rank {} waited {:.1f} s for {}", rank_,
                            static_cast<double>(options_.deadline) * 1e-9, collective));
}

Status HostBackend::drain() {
  return wait_until([this] { return queued_ == 0; }, "the operations before");
}

Status HostBackend::finish() {
  // The queues first: the checks at the end are about all that was submitted. Then the trace, whose
  // last step needs answers of all ranks, and the meeting, after which a rank may be gone.
  TESSERA_TRY(drain());
  if (Status ended = CheckedRuntime::finish(); !ended.ok()) return fail(ended);
  if (trace_) TESSERA_TRY(end_trace());
  TESSERA_TRY(meet("end of the run", "").status());
  finished_ = true;
  return {};
}

void HostBackend::enter_step(std::int32_t step) {
  if (trace_) trace_->enter_step(step, [this](std::int32_t of) { return take_peaks(of); });
}

Status HostBackend::end_trace() {
  trace_->close_last_step([this](std::int32_t of) { return take_peaks(of); });
  TESSERA_TRY(wait_until([this] { return trace_->idle(); }, "the end of the trace"));
  trace_->finish();
  return {};
}

Result<PerRank<float>> HostBackend::read(const View& scalar) {
  TESSERA_TRY(check_scalar(scalar));
  TESSERA_TRY(drain());
  TESSERA_ASSIGN(const auto all, meet("read", "", load_number(bytes(scalar, 0), scalar.dtype, 0)));
  std::vector<float> values;
  for (const Meeting& of_rank : all) values.push_back(of_rank.value);
  return PerRank<float>(std::move(values));
}

Result<std::unique_ptr<ProcessRuntime>> make_host_runtime(std::unique_ptr<Transport> transport,
                                                          const HostOptions& options) {
  auto backend = std::make_unique<HostBackend>(std::move(transport), options);
  TESSERA_TRY(backend->setup());
  return std::unique_ptr<ProcessRuntime>(std::move(backend));
}

Result<std::unique_ptr<ProcessRuntime>> make_mpi_runtime(const HostOptions& options,
                                                         const std::string& modules) {
  TESSERA_ASSIGN(auto transport, open_transport("tessera_mpi", modules));
  return make_host_runtime(std::move(transport), options);
}

Result<std::unique_ptr<ProcessRuntime>> make_local_runtime(const HostOptions& options) {
  return make_host_runtime(ThreadWorld(1).join(0), options);
}

}  // namespace tessera
