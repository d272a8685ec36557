// SPDX-License-Identifier: Apache-2.0
#include "engine/schemes/zero3/offload/optimizer_swapper.h"

#include <fmt/format.h>

#include <algorithm>

#include "tessera/assert.h"

namespace tessera {
namespace {

constexpr std::int64_t buffers_per_group = 4;  // master, two moments, gradient

}  // namespace

Status OptimizerSwapper::check() {
  const Offload& offload = options_.offload_optimizer;
  pipeline_read_ = offload.pipeline_read;
  pipeline_write_ = offload.pipeline_write;
  const std::int64_t groups = 1 + (pipeline_read_ ? 1 : 0) + (pipeline_write_ ? 1 : 0);
  const std::int64_t needed = groups * buffers_per_group;
  if (offload.device != Offload::Device::nvme || offload.buffer_count >= needed) return {};
  const std::string found = fmt::format(
      "ran out of swap buffers, try increasing 'buffer_count': {} groups at a time "
      "need {}, found {}",
      groups, needed, offload.buffer_count);
  if (!facts_.rules.pipelines_as_far_as_buffers_reach) return Status(Code::invalid_argument, found);
  if (offload.buffer_count < buffers_per_group) {
    return Status(Code::invalid_argument,
                  fmt::format("offload_optimizer: buffer_count must be at least {}, found {}",
                              buffers_per_group, offload.buffer_count));
  }
  pipeline_write_ &= offload.buffer_count >= 2 * buffers_per_group && !pipeline_read_;
  pipeline_read_ &= offload.buffer_count >= 2 * buffers_per_group;
  warnings_.push_back(found + "; it is pipelined as far as they reach");
  return {};
}

Status OptimizerSwapper::setup(std::span<OnDemandParameter* const> parameters) {
  if (parameters.empty()) return {};
  TESSERA_ASSIGN(read_, operations_.create_stream("nvme_read", StreamRole::host));
  TESSERA_ASSIGN(write_, operations_.create_stream("nvme_write", StreamRole::host));
  for (OnDemandParameter* p : parameters) {
    State state{.p = p};
    TESSERA_ASSIGN(state.value, on_drive(p->shard, "partition"));
    state.here = true;
    states_.push_back(state);
  }
  return {};
}

std::vector<StreamId> OptimizerSwapper::streams() const {
  if (!exists()) return {};
  return {read_, write_};
}

Result<BufferId> OptimizerSwapper::on_drive(const ParamShard& shard, const char* name) {
  return operations_.allocate_in(
      options_.offload_optimizer.nvme_path, Memory::nvme, fmt::format("{}.{}", shard.name, name),
      bytes_of(shard.map.shard(), shard.dtype), MemoryClass::nvme_staging, why());
}

Result<BufferId> OptimizerSwapper::on_host(const ParamShard& shard, const char* name) {
  return operations_.allocate(fmt::format("{}.{}", shard.name, name),
                              bytes_of(shard.map.shard(), shard.dtype), MemoryClass::nvme_staging,
                              read_, why(), Memory::pinned_host);
}

OptimizerSwapper::States OptimizerSwapper::states_of(std::span<OnDemandParameter* const> group) {
  States states;
  for (State& state : states_) {
    if (std::find(group.begin(), group.end(), state.p) != group.end()) states.push_back(&state);
  }
  return states;
}

namespace {

void add_shard(Copy& copy, const ParamShard& shard, BufferId from, BufferId to) {
  copy.pieces.push_back({.from = View::whole(from, shard.dtype, shard.map.shard()),
                         .to = View::whole(to, shard.dtype, shard.map.shard())});
}

}  // namespace

// One copy for all of a group. Nothing for what is here already: somebody had it brought before the
// step, or it was read ahead.
Result<EventId> OptimizerSwapper::read(const States& states) {
  Copy copy{.pieces = {}, .route = CopyRoute::from_nvme};
  States fresh;
  for (State* state : states) {
    if (std::exchange(state->here, true)) continue;
    fresh.push_back(state);
    ParamShard& shard = state->p->shard;
    TESSERA_ASSERT(!shard.value.valid() && !shard.exp_avg.valid(),
                   "what is away has no buffers here");
    TESSERA_ASSIGN(shard.value, on_host(shard, "partition"));
    add_shard(copy, shard, state->value, shard.value);
    if (!state->has_moments) continue;
    TESSERA_ASSIGN(shard.exp_avg, on_host(shard, "exp_avg"));
    TESSERA_ASSIGN(shard.exp_avg_sq, on_host(shard, "exp_avg_sq"));
    add_shard(copy, shard, state->exp_avg, shard.exp_avg);
    add_shard(copy, shard, state->exp_avg_sq, shard.exp_avg_sq);
  }
  if (copy.pieces.empty()) return EventId{};
  auto event = operations_.submit(read_, why(), std::move(copy));
  if (!event.ok()) TESSERA_TRY(give_back(fresh, EventId{}));
  return event;
}

// Moments get their place on the drive when they are written first; whoever still reads what is
// given back is waited for by the write.
Result<EventId> OptimizerSwapper::write(const States& states) {
  Copy copy{.pieces = {}, .route = CopyRoute::to_nvme};
  for (State* state : states) {
    const ParamShard& shard = state->p->shard;
    TESSERA_ASSERT(state->here && shard.value.valid(), "only what is in host memory is written");
    add_shard(copy, shard, shard.value, state->value);
    if (!shard.exp_avg.valid()) continue;
    if (!std::exchange(state->has_moments, true)) {
      TESSERA_ASSIGN(state->exp_avg, on_drive(shard, "exp_avg"));
      TESSERA_ASSIGN(state->exp_avg_sq, on_drive(shard, "exp_avg_sq"));
    }
    add_shard(copy, shard, shard.exp_avg, state->exp_avg);
    add_shard(copy, shard, shard.exp_avg_sq, state->exp_avg_sq);
  }
  if (copy.pieces.empty()) return EventId{};
  const std::vector<EventId> readers = std::exchange(readers_, {});
  return operations_.submit(write_, why(), std::move(copy), readers);
}

Status OptimizerSwapper::give_back(const States& states, EventId after) {
  for (State* state : states) {
    if (!std::exchange(state->here, false)) continue;
    ParamShard& shard = state->p->shard;
    for (BufferId* id : {&shard.value, &shard.exp_avg, &shard.exp_avg_sq}) {
      if (id->valid()) TESSERA_TRY(operations_.release(*id, after));
    }
  }
  return {};
}

// In the first step there are none yet.
Status OptimizerSwapper::make_moments(const States& states) {
  Compute zeros;
  zeros.index_in = facts_.shard_group();
  zeros.cost.on_host = true;
  for (State* state : states) {
    ParamShard& shard = state->p->shard;
    if (shard.exp_avg.valid()) continue;
    for (auto [id, name] :
         {std::pair{&shard.exp_avg, "exp_avg"}, {&shard.exp_avg_sq, "exp_avg_sq"}}) {
      TESSERA_ASSIGN(*id, on_host(shard, name));
      zeros.zeroed.push_back(zeros.writes.size());
      zeros.writes.push_back(View::whole(*id, shard.dtype, shard.map.shard()));
      zeros.cost.elementwise_bytes +=
          static_cast<double>(bytes_of(shard.map.shard(), shard.dtype).value);
    }
  }
  if (zeros.writes.empty()) return {};
  // The memory was given to the stream that reads.
  TESSERA_TRY(operations_.wait_stream(facts_.host, read_, order()));
  return operations_.submit(facts_.host, why(), std::move(zeros)).status();
}

Status OptimizerSwapper::begin_step() {
  if (!exists()) return {};
  // What others had brought may have been changed by them: it is written before it is read again.
  TESSERA_TRY(put_back());
  was_read_ = written_ = {};
  return operations_.wait_stream(read_, write_, order());
}

// Reading waits for the step of the group before, unless it is pipelined: then the next group's
// read is issued here already, and runs while this one is stepped.
Status OptimizerSwapper::before_group(std::span<OnDemandParameter* const> group,
                                      std::span<OnDemandParameter* const> next) {
  const States states = states_of(group);
  if (!pipeline_read_ && !states.empty()) {
    TESSERA_TRY(operations_.wait_stream(read_, facts_.host, order()));
  }
  TESSERA_ASSIGN(const EventId event, read(states));
  const EventId ready = event.valid() ? event : was_read_;
  TESSERA_ASSERT(states.empty() || ready.valid(), "a group is read before it is stepped");
  if (ready.valid()) TESSERA_TRY(operations_.wait_event(facts_.host, ready, order()));
  TESSERA_TRY(make_moments(states));
  was_read_ = {};
  if (!pipeline_read_) return {};
  TESSERA_ASSIGN(was_read_, read(states_of(next)));
  return {};
}

// At most one write is under way while another group is stepped.
Status OptimizerSwapper::after_group(std::span<OnDemandParameter* const> group, bool last) {
  const States states = states_of(group);
  if (states.empty()) return {};
  if (written_.valid()) TESSERA_TRY(operations_.wait_event(facts_.host, written_, order()));
  TESSERA_TRY(operations_.wait_stream(write_, facts_.host, order()));
  TESSERA_ASSIGN(written_, write(states));
  TESSERA_ASSERT(written_.valid(), "what was stepped goes back to the drive");
  TESSERA_TRY(give_back(states, written_));
  if (pipeline_write_ && !last) return {};
  return operations_.wait_event(facts_.host, std::exchange(written_, EventId{}), order());
}

// For whoever reads or writes what ranks hold, outside of a step: on the compute stream.
Status OptimizerSwapper::load_shards(bool moments) {
  if (!exists()) return {};
  States all;
  for (State& state : states_) all.push_back(&state);
  // The drive may still be writing what is to be read.
  TESSERA_TRY(operations_.wait_stream(read_, write_, order()));
  TESSERA_TRY(read(all).status());
  if (moments) {
    TESSERA_TRY(make_moments(all));
    TESSERA_TRY(operations_.wait_stream(facts_.compute, facts_.host, order()));
  }
  return operations_.wait_stream(facts_.compute, read_, order());
}

// The next pass or step does so, not whoever asked: several may ask in turn.
Status OptimizerSwapper::put_back() {
  States all;
  for (State& state : states_) {
    if (state.here) all.push_back(&state);
  }
  if (all.empty()) return {};
  // Both: whoever had it brought read or wrote it on the compute stream, the step on the CPU's.
  TESSERA_TRY(operations_.wait_stream(write_, facts_.compute, order()));
  TESSERA_TRY(operations_.wait_stream(write_, facts_.host, order()));
  TESSERA_ASSIGN(const EventId done, write(all));
  return give_back(all, done);
}

}  // namespace tessera
