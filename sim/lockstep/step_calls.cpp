// SPDX-License-Identifier: Apache-2.0
#include "sim/lockstep/step_calls.h"

#include <algorithm>

namespace tessera::sim {
namespace {

// How far ids of one step are from those of the step before.
struct Stride {
  std::int32_t events = 0;
  std::int32_t buffers = 0;
  bool stuck = false;

  bool between(EventId before, EventId id) const {
    return before.valid() == id.valid() && (!id.valid() || id.value - before.value == events);
  }
  bool between(BufferId before, BufferId id) const { return id.value - before.value == buffers; }
};

// Costs and memory follow from these; what reads and writes which bytes was checked before.
Op slim(const Op& op) {
  Op out{.stream = op.stream, .where = op.where, .after = {}, .cause = op.cause, .what = Wait{}};
  if (const auto* const compute = std::get_if<Compute>(&op.what)) {
    Compute kept;
    kept.cost = compute->cost;
    kept.cost.matmuls.clear();
    out.what = std::move(kept);
  } else if (const auto* const copy = std::get_if<Copy>(&op.what)) {
    Copy kept{.route = copy->route};
    if (!copy->pieces.empty()) {
      const View all = View::whole({}, DType::uint8, Numel{bytes_of(op).value});
      kept.pieces.push_back({.from = all, .to = copy->pieces.front().to});
    }
    out.what = std::move(kept);
  } else {
    out.what = op.what;
  }
  return out;
}

bool alike(const Cause& before, const Cause& cause) {
  return cause.unit == before.unit && cause.module == before.module &&
         cause.phase == before.phase && cause.reason == before.reason &&
         cause.step == before.step + 1 && cause.micro_batch == before.micro_batch;
}

struct DetailsAlike {
  const Op& before;
  const Op& op;

  bool operator()(const Compute& what) const {
    const ComputeCost& a = std::get<Compute>(before.what).cost;
    const ComputeCost& b = what.cost;
    return a.kernels == b.kernels && a.on_host == b.on_host && a.dtype == b.dtype &&
           a.matmul_flops == b.matmul_flops && a.attention_flops == b.attention_flops;
  }
  bool operator()(const Copy& what) const {
    const Copy& earlier = std::get<Copy>(before.what);
    const bool same = what.route == earlier.route && what.pieces.size() == earlier.pieces.size();
    return same &&
           (what.pieces.empty() || what.pieces.front().to.dtype == earlier.pieces.front().to.dtype);
  }
  bool operator()(const Wait& what) const {
    return what.stream == std::get<Wait>(before.what).stream;
  }
  // Some numbers count steps; they are for notations, which read the calls of programs.
  bool operator()(const Mark& what) const { return what.kind == std::get<Mark>(before.what).kind; }
  template <class Collective>
  bool operator()(const Collective&) const {
    return communicator_of(op) == communicator_of(before);
  }
};

struct CallsAlike {
  const StepCall& before;
  const Stride& stride;

  bool operator()(const OpCall& call) const {
    const OpCall& a = std::get<OpCall>(before);
    const auto follows = [this](EventId x, EventId y) { return stride.between(x, y); };
    const bool over = stride.stuck ? call.over == a.over : stride.between(a.over, call.over);
    return over && stride.between(a.event, call.event) &&
           call.op.what.index() == a.op.what.index() && call.op.stream == a.op.stream &&
           call.op.where == a.op.where && alike(a.op.cause, call.op.cause) &&
           bytes_of(call.op) == bytes_of(a.op) && call.costs.kernel == a.costs.kernel &&
           call.costs.groups == a.costs.groups &&
           std::equal(a.after.begin(), a.after.end(), call.after.begin(), call.after.end(),
                      follows) &&
           std::visit(DetailsAlike{a.op, call.op}, call.op.what);
  }
  bool operator()(const RequestCall& call) const {
    const RequestCall& a = std::get<RequestCall>(before);
    const Allocation& x = a.request;
    const Allocation& y = call.request;
    return stride.between(a.id, call.id) && call.name == a.name && x.bytes == y.bytes &&
           x.memory == y.memory && x.memory_class == y.memory_class && x.stream == y.stream &&
           x.where == y.where && alike(x.cause, y.cause);
  }
  bool operator()(const PlaceCall& call) const {
    const PlaceCall& a = std::get<PlaceCall>(before);
    return call.ranks == a.ranks && call.offset == a.offset &&
           call.device.allocated == a.device.allocated &&
           call.device.reserved == a.device.reserved && call.device.by_class == a.device.by_class;
  }
  bool operator()(const ReleaseCall& call) const {
    const ReleaseCall& a = std::get<ReleaseCall>(before);
    return stride.between(a.id, call.id) && stride.between(a.after, call.after) &&
           call.buffer.name == a.buffer.name && call.buffer.bytes == a.buffer.bytes &&
           call.buffer.memory == a.buffer.memory &&
           call.buffer.memory_class == a.buffer.memory_class && call.ranks == a.ranks &&
           call.waits == a.waits;
  }
  bool operator()(const AwaitCall& call) const {
    return stride.between(std::get<AwaitCall>(before).event, call.event);
  }
  bool operator()(const ReadCall&) const { return true; }
};

struct Advance {
  const Stride& stride;

  void later(EventId& id) const {
    if (id.valid()) id.value += stride.events;
  }
  void operator()(OpCall& call) const {
    later(call.event);
    if (!stride.stuck) later(call.over);
    for (EventId& id : call.after) later(id);
    ++call.op.cause.step;
  }
  void operator()(RequestCall& call) const {
    call.id.value += stride.buffers;
    ++call.request.cause.step;
  }
  void operator()(PlaceCall&) const {}
  void operator()(ReleaseCall& call) const {
    call.id.value += stride.buffers;
    later(call.after);
  }
  void operator()(AwaitCall& call) const { later(call.event); }
  void operator()(ReadCall&) const {}
};

}  // namespace

OpCall::OpCall(const Op& from, std::vector<EventId> waits_for, EventId id, EventId over_before,
               OpCosts takes)
    : op(slim(from)),
      after(std::move(waits_for)),
      event(id),
      over(over_before),
      costs(std::move(takes)) {}

void StepCalls::add(StepCall call) {
  if (calls_.size() == most) whole_ = false;
  if (!whole_) return;
  events_ += std::holds_alternative<OpCall>(call) ? 1 : 0;
  buffers_ += std::holds_alternative<RequestCall>(call) ? 1 : 0;
  calls_.push_back(std::move(call));
}

void StepCalls::clear() {
  calls_.clear();
  events_ = buffers_ = 0;
  whole_ = true;
}

std::int32_t StepCalls::step() const {
  for (const StepCall& call : calls_) {
    if (const auto* const op = std::get_if<OpCall>(&call)) return op->op.cause.step;
  }
  return 0;
}

bool StepCalls::follow(const StepCalls& before) {
  const auto over = [](const StepCalls& step) {
    EventId last;
    for (const StepCall& call : step.calls_) {
      if (const auto* const op = std::get_if<OpCall>(&call)) last = op->over;
    }
    return last;
  };
  stuck_ = over(*this) == over(before);
  const Stride stride{events_, buffers_, stuck_};
  return whole_ && before.whole_ && !calls_.empty() && events_ == before.events_ &&
         buffers_ == before.buffers_ &&
         std::equal(before.calls_.begin(), before.calls_.end(), calls_.begin(), calls_.end(),
                    [&](const StepCall& a, const StepCall& b) {
                      return a.index() == b.index() && std::visit(CallsAlike{a, stride}, b);
                    });
}

void StepCalls::advance() {
  const Stride stride{events_, buffers_, stuck_};
  for (StepCall& call : calls_) std::visit(Advance{stride}, call);
}

}  // namespace tessera::sim
