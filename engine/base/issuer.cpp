// SPDX-License-Identifier: Apache-2.0
#include "engine/base/issuer.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "engine/numbers/arithmetic.h"
#include "tessera/assert.h"

namespace tessera {
namespace {

bool lives_on_host(const ParamShard* shard) { return shard->memory != Memory::device; }

// Frozen shards have neither gradients nor states, wherever they live.
std::vector<ParamShard*> trained_of(const std::vector<ParamShard*>& shards) {
  std::vector<ParamShard*> trained;
  for (ParamShard* shard : shards) {
    if (shard->map.requires_grad()) trained.push_back(shard);
  }
  return trained.empty() ? shards : trained;
}

}  // namespace

Issuer::Issuer(Runtime& runtime, const Model& model, const RankSet& ranks)
    : runtime_(runtime),
      model_(model),
      everyone_(ranks),
      active_(everyone_),
      drives_(runtime.drive(model)),
      runtime_lives_(runtime.lifetime()) {}

Issuer::~Issuer() {
  const EventId quiet = runtime_lives_.expired() ? EventId{} : runtime_.quiet();
  if (!quiet.valid()) return;
  std::vector<BufferId> left;
  buffers_.any_of([&](BufferId id, const Own&) {
    left.push_back(id);
    return false;
  });
  for (BufferId buffer : left) {
    (void)release(buffer, quiet).ok();  // a collective's result that was never used stays
  }
}

Result<StreamId> Issuer::create_stream(std::string_view name, StreamRole role) {
  TESSERA_ASSIGN(const StreamId stream, runtime_.create_stream(name, role));
  held_.push_back(runtime_.hold(stream));
  return stream;
}

Status Issuer::expect_not_driven(const Runtime& runtime, const Model& model) {
  if (!runtime.is_driven(model)) return {};
  return Status(Code::invalid_argument,
                fmt::format("{} is replicated or sharded on this runtime already: one engine owns "
                            "its parameters",
                            model.name));
}

Cause Issuer::cause(std::string_view unit, Reason reason) const {
  return {
      .unit = unit, .phase = phase_, .reason = reason, .step = step_, .micro_batch = micro_batch_};
}

Cause Issuer::cause(std::string_view unit, std::string_view module, Reason reason) const {
  Cause why = cause(unit, reason);
  why.module = module;
  return why;
}

Status Issuer::begin_phase(Phase phase) {
  TESSERA_ASSERT(compute_.valid(), "an engine has its streams before its first phase");
  phase_ = phase;
  return mark(cause("", Reason::none), marks::phase, compute_).status();
}

void Issuer::end_step() {
  ++step_;
  micro_batch_ = 0;
}

Result<EventId> Issuer::submit(StreamId stream, const Cause& cause, decltype(Op::what) what,
                               std::span<const EventId> after) {
  // A collective of some would hang the others; what only reads and writes a rank's own memory is
  // left out where a rank has no inputs.
  const bool own = std::holds_alternative<Copy>(what) || std::holds_alternative<Compute>(what);
  return submit_on(own ? active_ : everyone_, stream, cause, std::move(what), after);
}

Result<EventId> Issuer::submit_on(const RankSet& ranks, StreamId stream, const Cause& cause,
                                  decltype(Op::what) what, std::span<const EventId> after) {
  auto event = runtime_.submit(
      {.stream = stream, .where = ranks, .after = after, .cause = cause, .what = std::move(what)});
  // What is released after it may be on every active rank, so an op of fewer does not count.
  if (event.ok() && stream == compute_ && ranks.covers(active_)) last_compute_ = *event;
  return event;
}

Result<EventId> Issuer::mark(const Cause& cause, Mark::Kind kind, StreamId stream) {
  return submit(stream, cause, Mark{kind});
}

Status Issuer::wait_stream(StreamId waiting, StreamId other, const Cause& cause) {
  TESSERA_ASSERT(other.valid(), "what is waited for is a stream of the engine");
  return submit(waiting, cause, Wait{other}).status();
}

Status Issuer::wait_event(StreamId waiting, EventId event, const Cause& cause) {
  // A wait for no event is legal and orders nothing: what was meant by it would be lost in silence.
  TESSERA_ASSERT(event.valid(), "what is waited for was submitted");
  return submit(waiting, cause, Wait{}, {&event, 1}).status();
}

Result<BufferId> Issuer::allocate(const std::string& name, Bytes bytes, MemoryClass memory_class,
                                  StreamId stream, const Cause& cause, Memory memory) {
  const bool of_passes =
      memory_class == MemoryClass::activations || memory_class == MemoryClass::unsharded_gradients;
  const RankSet& where = of_passes ? active_ : everyone_;
  return allocated(runtime_.allocate({.bytes = bytes,
                                      .memory = memory,
                                      .memory_class = memory_class,
                                      .stream = stream,
                                      .where = where,
                                      .cause = cause,
                                      .name = name}),
                   where);
}

Result<BufferId> Issuer::allocated(Result<BufferId> buffer, const RankSet& where) {
  if (!buffer.ok()) return buffer;
  Own& own = buffers_.add(*buffer);
  if (where != everyone_) own.some = where;
  return buffer;
}

Result<BufferId> Issuer::allocate_on(const RankSet& ranks, const std::string& name, Bytes bytes,
                                     MemoryClass memory_class, const Cause& cause, Memory memory) {
  return allocated(runtime_.allocate({.bytes = bytes,
                                      .memory = memory,
                                      .memory_class = memory_class,
                                      .stream = compute_,
                                      .where = ranks,
                                      .cause = cause,
                                      .name = name}),
                   ranks);
}

Result<BufferId> Issuer::allocate_answer(const std::string& name, const Cause& cause) {
  const RankSet& world = runtime_.world();
  TESSERA_ASSIGN(const BufferId answer,
                 allocate_on(world, name, size_of(DType::float32), MemoryClass::temporary, cause));
  const RankSet others = world.minus(everyone_);
  if (others.empty()) return answer;
  Compute zero;
  zero.writes = {View::whole(answer, DType::float32, Numel{1})};
  zero.zeroed = {0};
  TESSERA_TRY(submit_on(others, compute_, cause, std::move(zero)).status());
  return answer;
}

Status Issuer::release_on(const RankSet& ranks, BufferId& buffer, EventId after) {
  TESSERA_ASSERT(buffer.valid(), "what is released exists");
  const BufferId id = std::exchange(buffer, BufferId{});
  forget(id, ranks);
  return runtime_.release(id, after, ranks);
}

Status Issuer::release(BufferId& buffer, EventId after) {
  TESSERA_ASSERT(buffer.valid(), "what is released exists");
  // The ranks are those of the allocation, not of now: with uneven inputs some have joined since.
  const BufferId id = std::exchange(buffer, BufferId{});
  const Own* const own = buffers_.find(id);
  const RankSet where = own == nullptr || own->some.empty() ? everyone_ : own->some;
  buffers_.erase(id);
  forget_writes(id);
  return runtime_.release(id, after, where);
}

// `ranks` no longer have it, others may.
void Issuer::forget(BufferId id, const RankSet& ranks) {
  forget_writes(id);
  Own* const own = buffers_.find(id);
  if (own == nullptr) return;
  own->some = (own->some.empty() ? everyone_ : own->some).minus(ranks);
  if (own->some.empty()) buffers_.erase(id);
}

bool Issuer::first_write(const View& gradient) {
  TESSERA_ASSERT(gradient.buffer.valid(), "a gradient has memory before a body writes it");
  return written_.insert({gradient.buffer, gradient.first}).second;
}

// Ids are not used again, so this only keeps the set as small as what exists.
void Issuer::forget_writes(BufferId buffer) {
  if (written_.empty()) return;
  const auto begin = written_.lower_bound({buffer, Numel{}});
  auto end = begin;
  while (end != written_.end() && end->first == buffer) ++end;
  written_.erase(begin, end);
}

Status Issuer::enter_host(const Cause& cause) {
  return host_.valid() ? wait_stream(host_, compute_, cause) : Status{};
}

Status Issuer::leave_host(const Cause& cause) {
  return host_.valid() ? wait_stream(compute_, host_, cause) : Status{};
}

Result<EventId> Issuer::submit_by_shard(const RankSet& ranks, const Cause& cause,
                                        const std::vector<ParamShard*>& shards,
                                        const ShardWork& work) {
  TESSERA_TRY(enter_host(cause));
  TESSERA_ASSIGN(const EventId done, issue_by_shard(ranks, cause, shards, work));
  TESSERA_TRY(leave_host(cause));
  if (!host_.valid() || !done.valid()) return done;
  return submit_on(ranks, compute_, cause, declare_read({}));
}

Result<EventId> Issuer::issue_by_shard(const RankSet& ranks, const Cause& cause,
                                       const std::vector<ParamShard*>& shards,
                                       const ShardWork& work) {
  struct Alike {
    RankSet ranks;
    std::vector<ParamShard*> shards;
  };
  std::vector<Alike> all;
  RankSet others = ranks;
  for (ParamShard* shard : shards) {
    const RankSet& where = shard->where.empty() ? ranks : shard->where;
    auto found = std::find_if(all.begin(), all.end(), [&](auto& a) { return a.ranks == where; });
    if (found == all.end()) {
      TESSERA_ASSERT(ranks.covers(where), "who steps a shard takes part in the step");
      found = all.insert(found, {where, {}});
      others = others.minus(where);
    }
    found->shards.push_back(shard);
  }
  // Ranks that have no shard of these do nothing, but are asked: a norm of none is 0, and counts.
  if (!others.empty()) all.push_back({others, {}});
  EventId done;
  for (const Alike& alike : all) {
    Compute own = work(alike.shards);
    if (own.reads.empty() && own.writes.empty()) continue;
    const auto trained = trained_of(alike.shards);
    own.cost.on_host = std::any_of(trained.begin(), trained.end(), lives_on_host);
    const bool alone = std::all_of(trained.begin(), trained.end(), lives_on_host);
    const StreamId stream = own.cost.on_host && alone && host_.valid() ? host_ : compute_;
    TESSERA_ASSIGN(done, submit_on(alike.ranks, stream, cause, std::move(own)));
  }
  if (all.size() == 1 || !done.valid()) return done;
  // An event of one rank says nothing about the others.
  return submit_on(ranks, compute_, cause, declare_read({}));
}

}  // namespace tessera
