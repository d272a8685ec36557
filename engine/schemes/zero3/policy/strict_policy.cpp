// SPDX-License-Identifier: Apache-2.0
#include "engine/schemes/zero3/policy/strict_policy.h"

#include <fmt/format.h>

#include <algorithm>

#include "engine/schemes/zero3/parameters/marks.h"
#include "engine/schemes/zero3/policy/live_needs.h"

namespace tessera {
namespace {

// Parameters of so much together share a gather, to save its latency. It takes twice its bytes
// until it is split, so it is a part of what the budget has beyond two of the largest module.
constexpr Bytes together_least{std::int64_t{1} << 20};
constexpr Bytes together_most{std::int64_t{512} << 20};
constexpr std::int64_t together_share = 6;
// Those before are split, so that memory for two is enough and the communicator is never idle.
constexpr std::size_t unsplit_most = 2;
// A limit of elements beyond the first is none, and would overflow as bytes.
constexpr Numel elements_most{std::int64_t{1} << 50};
constexpr Bytes bytes_most{std::int64_t{1} << 52};
// What stays because it is small may take so much of the budget.
constexpr std::int64_t persistent_share = 4;

}  // namespace

StrictPolicy::StrictPolicy(const PolicyGround& ground)
    : FetchPolicy(ground),
      orders_(model()),
      room_(parameters(), orders_),
      open_visits_(model().modules.size(), 0),
      prefetched_(model().parameters.size(), false),
      chosen_(model().parameters.size(), false) {}

Status StrictPolicy::refuse(ModuleId module, Bytes needed) const {
  const Bytes largest = largest_need(model(), all_needs(), mover().memory()).bytes;
  return Status(Code::invalid_argument,
                fmt::format("module '{}' needs {} bytes of gathered parameters at once, more than "
                            "the live budget of {}: the smallest that works for {} is {} bytes",
                            path(module), needed.value, room_.budget().value, model().name,
                            std::max(needed, largest).value));
}

// Without a budget in bytes it is what DeepSpeed's limit of elements comes to, or twice the largest
// module, if that is more: one that runs, and one that comes.
Status StrictPolicy::check() {
  const LargestNeed largest = largest_need(model(), all_needs(), mover().memory());
  const auto of_elements =
      options().max_live_parameters > elements_most
          ? bytes_most
          : tessera::bytes_of(options().max_live_parameters, options().param_dtype);
  room_.set_budget(options().live_budget.value_or(std::max(of_elements, 2 * largest.bytes)));
  const Bytes budget = room_.budget();
  if (largest.bytes > budget) return refuse(largest.module, largest.bytes);
  const Bytes spare = budget - 2 * largest.bytes;
  together_ =
      std::clamp(Bytes{spare.value / together_share},
                 std::min(together_least, Bytes{budget.value / together_share}), together_most);
  // Staying costs room in every visit, so what is small may only take a share of the budget.
  persistent_.clear();
  Bytes small{};
  for (OnDemandParameter& p : parameters()) {
    if (p.persistent) small += bytes_of(p.id);
    p.persistent = p.persistent && persistent_share * small <= budget;
    if (p.persistent) persistent_.push_back(p.id);
  }
  return {};
}

// What earlier passes left gathered stays: the expected order, which may reach into the next
// micro-batch, says what it is still good for.
Status StrictPolicy::begin_forward(const ForwardPass& pass) {
  if (open_) TESSERA_TRY(end_pass(true));
  open_ = true;
  orders_.begin(pass.use != ForwardPass::Use::evaluate, all_needs().all());
  ahead_ = 0;
  return {};
}

Status StrictPolicy::pre_forward(ModuleId module, bool recomputing) {
  return visit({module, recomputing ? Visit::Kind::recompute : Visit::Kind::forward});
}

// Somebody said at run time what could have been said before. From now on it is a need, so the next
// pass gathers it ahead; this one has to wait.
Status StrictPolicy::touch(ModuleId module, OnDemandParameter& p) {
  if (p.active.contains(module)) return {};
  TESSERA_TRY(add_need(module, p.id));
  p.active.insert(module);
  if (p.copy.missing()) TESSERA_TRY(gather_now(module, {p.id}));
  TESSERA_TRY(arrive(module));
  return mover().wait_for_gathers(module, std::exchange(arrived_, {}));
}

Status StrictPolicy::post_forward(ModuleId module) { return leave(module); }

// The second output of a module that is open already brings nothing new.
Status StrictPolicy::pre_backward(ModuleId module) {
  if (open_visits_[index(module)] > 0) return {};
  return visit({module, Visit::Kind::backward});
}

Status StrictPolicy::post_backward(ModuleId module) { return leave(module); }

// First what the module cannot do without, then what it waits for, and only then what comes later:
// gathers run one after another, so one ahead of time would delay what is needed now. The hand-over
// comes before looking ahead, because the compute stream would otherwise wait for those gathers
// too.
Status StrictPolicy::visit(const Visit& visit) {
  const std::int32_t number = orders_.visited();
  if (!orders_.follow(visit)) {
    ahead_ = orders_.place();  // what was looked at belonged to another order
    TESSERA_TRY(mover().note(visit.module, {marks::trace_mismatch, number}));
  }
  TESSERA_TRY(mover().note(visit.module, {marks::fetched, number}));
  TESSERA_TRY(gather_needed(visit.module));
  TESSERA_TRY(arrive(visit.module));
  TESSERA_TRY(mover().wait_for_gathers(visit.module, std::exchange(arrived_, {})));
  TESSERA_TRY(look_ahead());
  return read_ahead();
}

// They are active from now on, so that making room for one does not free another. Several share a
// gather only where its second copy of them finds room as well: a budget that is large enough for
// the module one by one must be enough.
Status StrictPolicy::gather_needed(ModuleId module) {
  ++open_visits_[index(module)];
  std::vector<ParameterId> missing;
  for (ParameterId id : needs(module)) {
    at(id).active.insert(module);
    if (at(id).copy.missing()) missing.push_back(id);
  }
  for (std::size_t k = 0; k < missing.size();) {
    std::vector<ParameterId> ids = {missing[k]};
    Bytes bytes = bytes_of(missing[k]);
    for (std::size_t next = k + 1; next < missing.size(); ++next) {
      bytes += bytes_of(missing[next]);
      if (bytes > together_ ||
          !room_.can_be_made(2 * bytes, LiveRoom::whatever_it_costs, mover().memory()))
        break;
      ids.push_back(missing[next]);
    }
    k += ids.size();
    TESSERA_TRY(gather_now(module, std::move(ids)));
  }
  return {};
}

// check() has made sure that any module fits alone, so a refusal is about what others hold: modules
// around it, or gathers that cannot be taken back.
Status StrictPolicy::gather_now(ModuleId module, std::vector<ParameterId> ids) {
  const Bytes bytes = mover().memory().most_of(ids);
  TESSERA_ASSIGN(bool room, make_room(bytes, LiveRoom::whatever_it_costs));
  if (!room) {  // what flies in one buffer takes less once it is there
    TESSERA_TRY(arrive(module));
    TESSERA_ASSIGN(room, make_room(bytes, LiveRoom::whatever_it_costs));
  }
  if (!room) return refuse(module, mover().memory().live() + mover().memory().promised() + bytes);
  return gather(std::move(ids), Reason::needed);
}

// The compute stream will wait for what the module needs and for nothing that was gathered later.
Status StrictPolicy::arrive(ModuleId module) {
  for (ParameterId id : needs(module)) {
    const std::shared_ptr<Gather> gather = at(id).copy.flying();
    TESSERA_ASSIGN(const bool flew, mover().arrive(at(id)));
    if (flew) arrived_.push_back(gather->done());
    // Split before, and nobody has waited for it.
    const bool ahead = prefetched_[index(id)];
    if (!flew && ahead && at(id).copy.last_use().valid()) {
      arrived_.push_back(at(id).copy.last_use());
    }
    prefetched_[index(id)] = false;
  }
  std::sort(arrived_.begin(), arrived_.end());
  arrived_.erase(std::unique(arrived_.begin(), arrived_.end()), arrived_.end());
  return {};
}

// A last use is known only here, and all work before it on the compute stream is over then. What is
// used again stays until room is needed: freeing it now could only cost a second gather.
Status StrictPolicy::leave(ModuleId module) {
  int& open = open_visits_[index(module)];
  if (open == 0) {
    const char* call = mover().in_backward() ? "post_backward" : "post_forward";
    return Status(Code::invalid_argument,
                  fmt::format("{} of module '{}', which did not run in this pass", call,
                              model().module(module).path));
  }
  --open;
  const EventId worked = mover().worked();
  TESSERA_TRY(mover().note(module, {marks::released, orders_.visited()}));
  for (ParameterId id : needs(module)) {
    OnDemandParameter& p = at(id);
    if (const auto one = p.active.find(module); one != p.active.end()) p.active.erase(one);
    p.copy.used(worked);
    if (!p.active.empty() || p.copy.missing() || p.persistent) continue;
    const std::int32_t next = orders_.next_use(id);
    if (next == UseTable::never) {
      TESSERA_TRY(mover().free(p));
    } else {
      TESSERA_TRY(mover().note(p, {marks::kept_for, orders_.visit_at(next)}));
    }
  }
  return {};
}

// What finds no room on the device yet may at least be read from its drive. One buffer is left for
// what is needed at once, so there is nothing to do with fewer than two.
Status StrictPolicy::read_ahead() {
  const auto wanted = static_cast<std::size_t>(swapper().free_buffers());
  if (wanted < 2 || options().prefetch_bucket == Numel{0}) return {};
  const Visits& expected = orders_.expected();
  std::vector<OnDemandParameter*> next;
  for (auto k = static_cast<std::size_t>(ahead_); k < expected.size() && next.size() < wanted;
       ++k) {
    for (ParameterId id : needs(expected[k].module)) {
      OnDemandParameter& p = at(id);
      if (p.copy.missing() && swapper().unread(p)) next.push_back(&p);
    }
  }
  return swapper().read_ahead(next);
}

// Stops at the first that finds no room: what is needed later must not take the place of what is
// needed earlier. `ahead_` is where it goes on, so that a pass looks at each visit once.
Status StrictPolicy::look_ahead() {
  if (options().prefetch_bucket == Numel{0}) return {};
  const Visits& expected = orders_.expected();
  ahead_ = std::max(ahead_, orders_.place());
  for (; ahead_ < static_cast<std::int32_t>(expected.size()); ++ahead_) {
    for (ParameterId id : needs(expected[static_cast<std::size_t>(ahead_)].module)) {
      if (!at(id).copy.missing()) continue;
      TESSERA_ASSIGN(const bool gathered, gather_ahead(id, ahead_));
      if (!gathered) return {};
    }
  }
  return {};
}

// A shared gather counts as late as its last parameter: nothing that is used before that may make
// room for it. If that is too much to ask, the first of them alone may still find its room.
Result<bool> StrictPolicy::gather_ahead(ParameterId id, std::int32_t place) {
  // What finds no room alone finds none with others: so who looks ahead in vain looks at one.
  const GatheredMemory& memory = mover().memory();
  if (!room_.can_be_made(memory.most_of({&id, 1}), place, memory)) return false;
  auto [ids, last] = together(id, place);
  TESSERA_ASSIGN(bool room, make_room(mover().memory().most_of(ids), last));
  if (!room && ids.size() > 1) {
    ids = {id};
    TESSERA_ASSIGN(room, make_room(mover().memory().most_of(ids), place));
  }
  if (!room) return false;
  for (ParameterId each : ids) {
    prefetched_[index(each)] = true;
    TESSERA_TRY(
        mover().note(at(each), {marks::gathered_for, orders_.visit_at(orders_.next_use(each))}));
  }
  const Visit& use = orders_.expected()[static_cast<std::size_t>(place)];
  const bool forward = use.kind == Visit::Kind::forward;
  TESSERA_TRY(
      gather(std::move(ids), forward ? Reason::forward_prefetch : Reason::backward_prefetch));
  return true;
}

// What is missing next, `first` before; of what stays because it is small, all at once: it will be
// needed anyway, and is most of all latency. Alone, if the others would be too much: the later they
// are used, the less room can be made for them, so there never is more of it than after `place`.
StrictPolicy::Together StrictPolicy::together(ParameterId first, std::int32_t place) {
  const GatheredMemory& memory = mover().memory();
  const Bytes room = room_.most_after(place, memory.most_of(together_, 2), memory);
  Together out{{first}, place};
  Bytes bytes = bytes_of(first);
  TESSERA_ASSERT(!chosen_[index(first)], "one gather is put together at a time");
  chosen_[index(first)] = true;
  list_together(out, [&](ParameterId id) {
    bytes += bytes_of(id);
    if (bytes > together_) return false;
    out.parameters.push_back(id);
    chosen_[index(id)] = true;
    return memory.most_of(bytes, out.parameters.size()) <= room;
  });
  for (ParameterId id : out.parameters) chosen_[index(id)] = false;
  if (memory.most_of(out.parameters) > room) out = {{first}, place};
  return out;
}

// add(parameter) for what is to come with the first of `out`, until it returns false.
template <class Add>
void StrictPolicy::list_together(Together& out, const Add& add) {
  const OnDemandParameters& all = parameters();
  const auto missing = [&](ParameterId id) {
    return all[id].copy.missing() && !chosen_[index(id)];
  };
  if (all[out.parameters.front()].persistent) {
    for (ParameterId id : persistent_) {
      const bool used = orders_.next_use(id) != UseTable::never;
      if (used && missing(id) && !add(id)) return;
    }
  }
  const Visits& expected = orders_.expected();
  for (auto k = static_cast<std::size_t>(out.last); k < expected.size(); ++k) {
    for (ParameterId id : needs(expected[k].module)) {
      if (!missing(id)) continue;
      if (!add(id)) return;
      out.last = static_cast<std::int32_t>(k);
    }
  }
}

// A gather of several costs its bytes twice until it is split, so not more than two may wait for
// somebody to need them. The older one is split by then: the next one's collective is under way, so
// the communicator does not wait for that copy. Its parameters count as used by the copy, which is
// what a visit has to wait for that finds them there (see arrive).
Status StrictPolicy::gather(std::vector<ParameterId> ids, Reason reason) {
  // The last use of the copy before says nothing about this one.
  for (ParameterId id : ids) at(id).copy.used({});
  const ParameterId first = ids.front();
  const bool shared = ids.size() > 1;
  TESSERA_TRY(mover().gather(std::move(ids), reason));
  if (!shared) return {};
  unsplit_.push_back(at(first).copy.flying());
  if (unsplit_.size() <= unsplit_most) return {};
  const std::shared_ptr<Gather> oldest = std::move(unsplit_.front());
  TESSERA_ASSERT(oldest != nullptr, "a shared gather flies when it is queued");
  unsplit_.pop_front();
  if (oldest->complete()) return {};
  OnDemandParameter& p = at(oldest->parameters().front());
  TESSERA_TRY(mover().arrive(p).status());
  p.copy.used(oldest->done());
  return {};
}

// All or nothing: it is counted before anything is freed.
Result<bool> StrictPolicy::make_room(Bytes bytes, std::int32_t after) {
  const GatheredMemory& memory = mover().memory();
  if (room_.fits(bytes, memory)) return true;
  if (!room_.can_be_made(bytes, after, memory)) return false;
  while (!room_.fits(bytes, memory)) TESSERA_TRY(evict(room_.first_to_go(after)));
  return true;
}

// What goes will be missing again at its next use, perhaps before the place up to which everything
// was looked at.
Status StrictPolicy::evict(OnDemandParameter& p) {
  TESSERA_ASSERT(p.active.empty(), "what a module needs now does not go");
  TESSERA_TRY(mover().drop(p));
  ahead_ = std::min(ahead_, std::max(orders_.place(), orders_.next_use(p.id)));
  return mover().free(p);
}

// A pass that gets no backward has an order like any other, so it ends alike.
Status StrictPolicy::end_pass(bool /*dropped*/) {
  open_ = false;
  orders_.end();
  for (OnDemandParameter& p : parameters()) {
    p.active.clear();
    const bool needed = p.persistent || orders_.next_use(p.id) != UseTable::never;
    if (!p.copy.missing() && !needed) TESSERA_TRY(evict(p));
  }
  open_visits_.assign(open_visits_.size(), 0);
  return mover().note({marks::trace_reset});
}

Status StrictPolicy::free_all() {
  for (OnDemandParameter& p : parameters()) {
    p.active.clear();
    if (!p.copy.missing()) TESSERA_TRY(evict(p));
  }
  return mover().follow_dropped();
}

Status StrictPolicy::values_changed() { return free_all(); }

// Gathered values are old after a step, persistent ones included.
Status StrictPolicy::before_step() {
  orders_.step();
  TESSERA_TRY(free_all());
  return mover().note({marks::all_released});
}

void StrictPolicy::explain(const OnDemandParameter& p, LiveParameter& live) const {
  const std::int32_t next = orders_.next_use(p.id);
  if (!p.active.empty()) {
    live.module = path(*p.active.begin());
    live.visit = orders_.visited() - 1;
  } else if (next != UseTable::never) {
    const bool ahead = prefetched_[index(p.id)];
    live.reason = ahead ? LiveParameter::Reason::prefetched : LiveParameter::Reason::kept;
    live.module = path(orders_.expected()[static_cast<std::size_t>(next)].module);
    live.visit = orders_.visit_at(next);
  } else {
    live.reason =
        p.persistent ? LiveParameter::Reason::persistent : LiveParameter::Reason::left_over;
  }
}

}  // namespace tessera
