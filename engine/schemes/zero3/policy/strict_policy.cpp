// SPDX-License-Identifier: Apache-2.0
#include "engine/schemes/zero3/policy/strict_policy.h"

#include <fmt/format.h>

#include <algorithm>

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
// What stays because it is small may take so much of the budget.
constexpr std::int64_t persistent_share = 4;

}  // namespace

StrictPolicy::StrictPolicy(ParameterMover& mover, const Zero3Options& options)
    : mover_(mover),
      options_(options),
      orders_(mover.moved_model()),
      open_visits_(mover.moved_model().modules.size(), 0),
      prefetched_(mover.moved_model().parameters.size(), false) {}

Status StrictPolicy::refuse(ModuleId module, Bytes needed) const {
  const Model& model = mover_.moved_model();
  const std::string& path = model.module(module).path;
  return Status(Code::invalid_argument,
                fmt::format("module '{}' needs {} bytes of gathered parameters at once, more than "
                            "the live budget of {}: the smallest that works for {} is {} bytes",
                            path.empty() ? "root" : path, needed.value, budget_.value, model.name,
                            std::max(needed, largest_need(mover_).bytes).value));
}

Status StrictPolicy::check() {
  const LargestNeed largest = largest_need(mover_);
  const auto of_elements = options_.max_live_parameters > Numel{std::int64_t{1} << 50}
                               ? Bytes{std::int64_t{1} << 52}
                               : bytes_of(options_.max_live_parameters, options_.param_dtype);
  budget_ = options_.live_budget.value_or(std::max(of_elements, 2 * largest.bytes));
  if (largest.bytes > budget_) return refuse(largest.module, largest.bytes);
  const Bytes spare = budget_ - 2 * largest.bytes;
  together_ =
      std::clamp(Bytes{spare.value / together_share},
                 std::min(together_least, Bytes{budget_.value / together_share}), together_most);
  Bytes small{};
  for (OnDemandParameter& p : mover_.moved()) {
    if (p.persistent) small += mover_.gathered_bytes(p.id);
    p.persistent = p.persistent && persistent_share * small <= budget_;
  }
  return {};
}

Status StrictPolicy::begin_forward(const ForwardPass& pass) {
  if (open_) TESSERA_TRY(end_pass());  // a forward pass without backward
  open_ = true;
  backward_ = false;
  orders_.begin(pass.use != ForwardPass::Use::evaluate, mover_.needs());
  ahead_ = 0;
  return {};
}

Status StrictPolicy::begin_backward() {
  backward_ = true;
  return {};
}

Status StrictPolicy::pre_forward(ModuleId module, bool recomputing) {
  return visit({module, recomputing ? Visit::Kind::recompute : Visit::Kind::forward});
}

// Somebody said at run time what could have been said before.
Status StrictPolicy::touch(ModuleId module, OnDemandParameter& p) {
  if (p.active.contains(module)) return {};
  TESSERA_TRY(mover_.add_need(module, p.id));
  p.active.insert(module);
  if (p.state == State::not_available) TESSERA_TRY(gather_now(module, {p.id}));
  TESSERA_TRY(arrive(module));
  return mover_.hand_over(module, std::exchange(arrived_, {}));
}

Status StrictPolicy::post_forward(ModuleId module, bool /*recomputing*/) { return leave(module); }

// The second output of a module that is open already brings nothing new.
Status StrictPolicy::pre_backward(ModuleId module) {
  if (open_visits_[index(module)] > 0) return {};
  return visit({module, Visit::Kind::backward});
}

Status StrictPolicy::post_backward(ModuleId module) { return leave(module); }

Status StrictPolicy::visit(const Visit& visit) {
  const std::int32_t number = orders_.visited();
  if (!orders_.follow(visit)) {
    ahead_ = orders_.place();
    TESSERA_TRY(mover_.note(visit.module, {Mark::Kind::trace_mismatch, number}));
  }
  TESSERA_TRY(mover_.note(visit.module, {Mark::Kind::fetched, number}));
  TESSERA_TRY(gather_needed(visit.module));
  TESSERA_TRY(arrive(visit.module));
  TESSERA_TRY(mover_.hand_over(visit.module, std::exchange(arrived_, {})));
  TESSERA_TRY(look_ahead());
  return read_ahead();
}

// They are active from now on, so that making room for one does not free another.
Status StrictPolicy::gather_needed(ModuleId module) {
  ++open_visits_[index(module)];
  std::vector<ParameterId> missing;
  for (ParameterId id : needs(module)) {
    at(id).active.insert(module);
    if (at(id).state == State::not_available) missing.push_back(id);
  }
  for (std::size_t k = 0; k < missing.size();) {
    std::vector<ParameterId> ids = {missing[k]};
    Bytes bytes = mover_.gathered_bytes(missing[k]);
    for (std::size_t next = k + 1; next < missing.size(); ++next) {
      bytes += mover_.gathered_bytes(missing[next]);
      if (bytes > together_ || !can_make_room(2 * bytes, -1)) break;
      ids.push_back(missing[next]);
    }
    k += ids.size();
    TESSERA_TRY(gather_now(module, std::move(ids)));
  }
  return {};
}

Status StrictPolicy::gather_now(ModuleId module, std::vector<ParameterId> ids) {
  const Bytes bytes = mover_.gather_bytes(ids);
  TESSERA_ASSIGN(bool room, make_room(bytes, -1));
  if (!room) {  // what flies in one buffer takes less once it is there
    TESSERA_TRY(arrive(module));
    TESSERA_ASSIGN(room, make_room(bytes, -1));
  }
  if (!room) return refuse(module, mover_.live_bytes() + mover_.promised() + bytes);
  return gather(std::move(ids), Reason::needed);
}

// The compute stream will wait for what the module needs and for nothing that was gathered later.
Status StrictPolicy::arrive(ModuleId module) {
  for (ParameterId id : needs(module)) {
    const std::shared_ptr<Gather> gather = at(id).flying;
    TESSERA_ASSIGN(const bool flew, mover_.arrive(at(id)));
    if (flew) arrived_.push_back(gather->done);
    // Split before, and nobody has waited for it.
    const bool ahead = prefetched_[static_cast<std::size_t>(id.value)];
    if (!flew && ahead && at(id).last_use.valid()) {
      arrived_.push_back(at(id).last_use);
    }
    prefetched_[static_cast<std::size_t>(id.value)] = false;
  }
  std::sort(arrived_.begin(), arrived_.end());
  arrived_.erase(std::unique(arrived_.begin(), arrived_.end()), arrived_.end());
  return {};
}

Status StrictPolicy::leave(ModuleId module) {
  int& open = open_visits_[index(module)];
  if (open == 0) {
    const char* call = backward_ ? "post_backward" : "post_forward";
    return Status(Code::invalid_argument,
                  fmt::format("{} of module '{}', which did not run in this pass", call,
                              mover_.moved_model().module(module).path));
  }
  --open;
  const EventId worked = mover_.worked();
  TESSERA_TRY(mover_.note(module, {Mark::Kind::released, orders_.visited()}));
  for (ParameterId id : needs(module)) {
    OnDemandParameter& p = at(id);
    if (const auto one = p.active.find(module); one != p.active.end()) p.active.erase(one);
    p.last_use = worked;
    if (!p.active.empty() || p.state == State::not_available || p.persistent) continue;
    const std::int32_t next = orders_.next_use(id);
    if (next == UseTable::never) {
      TESSERA_TRY(mover_.free(p));
    } else {
      TESSERA_TRY(mover_.note(p, {Mark::Kind::kept_for, orders_.visit_at(next)}));
    }
  }
  return {};
}

// What finds no room on the device yet may at least be read from its drive.
Status StrictPolicy::read_ahead() {
  const auto wanted = static_cast<std::size_t>(mover_.free_swap_buffers());
  if (wanted < 2 || options_.prefetch_bucket == Numel{0}) return {};
  const Visits& expected = orders_.expected();
  std::vector<ParameterId> next;
  for (auto k = static_cast<std::size_t>(ahead_); k < expected.size() && next.size() < wanted;
       ++k) {
    for (ParameterId id : needs(expected[k].module)) {
      const OnDemandParameter& p = at(id);
      if (p.state == State::not_available && mover_.reads_drive(p)) next.push_back(id);
    }
  }
  return mover_.read_ahead(next);
}

// Stops at the first that finds no room: what is needed later must not take the place of what is
// needed earlier.
Status StrictPolicy::look_ahead() {
  if (options_.prefetch_bucket == Numel{0}) return {};
  const Visits& expected = orders_.expected();
  ahead_ = std::max(ahead_, orders_.place());
  for (; ahead_ < static_cast<std::int32_t>(expected.size()); ++ahead_) {
    for (ParameterId id : needs(expected[static_cast<std::size_t>(ahead_)].module)) {
      if (at(id).state != State::not_available) continue;
      TESSERA_ASSIGN(const bool gathered, gather_ahead(id, ahead_));
      if (!gathered) return {};
    }
  }
  return {};
}

Result<bool> StrictPolicy::gather_ahead(ParameterId id, std::int32_t place) {
  auto [ids, last] = together(id, place);
  TESSERA_ASSIGN(bool room, make_room(mover_.gather_bytes(ids), last));
  if (!room && ids.size() > 1) {
    ids = {id};
    TESSERA_ASSIGN(room, make_room(mover_.gather_bytes(ids), place));
  }
  if (!room) return false;
  for (ParameterId each : ids) {
    prefetched_[static_cast<std::size_t>(each.value)] = true;
    TESSERA_TRY(mover_.note(at(each),
                            {Mark::Kind::gathered_for, orders_.visit_at(orders_.next_use(each))}));
  }
  const Visit& use = orders_.expected()[static_cast<std::size_t>(place)];
  const bool forward = use.kind == Visit::Kind::forward;
  TESSERA_TRY(
      gather(std::move(ids), forward ? Reason::forward_prefetch : Reason::backward_prefetch));
  return true;
}

// What is missing next, `first` before; of what stays because it is small, all at once.
StrictPolicy::Together StrictPolicy::together(ParameterId first, std::int32_t place) const {
  Together out{{first}, place};
  Bytes bytes = mover_.gathered_bytes(first);
  auto add = [&](const OnDemandParameter& p) {
    const Bytes more = bytes + mover_.gathered_bytes(p.id);
    if (more > together_) return false;
    out.parameters.push_back(p.id);
    bytes = more;
    return true;
  };
  auto missing = [&](ParameterId id) {
    return at(id).state == State::not_available &&
           std::find(out.parameters.begin(), out.parameters.end(), id) == out.parameters.end();
  };
  for (const OnDemandParameter& p : std::as_const(mover_).moved()) {
    if (!at(first).persistent) break;
    const bool used = p.persistent && orders_.next_use(p.id) != UseTable::never;
    if (used && missing(p.id) && !add(p)) return out;
  }
  const Visits& expected = orders_.expected();
  for (; place < static_cast<std::int32_t>(expected.size()); ++place) {
    for (ParameterId id : needs(expected[static_cast<std::size_t>(place)].module)) {
      if (!missing(id)) continue;
      if (!add(at(id))) return out;
      out.last = place;
    }
  }
  return out;
}

Status StrictPolicy::gather(std::vector<ParameterId> ids, Reason reason) {
  for (ParameterId id : ids) at(id).last_use = {};
  const ParameterId first = ids.front();
  const bool shared = ids.size() > 1;
  TESSERA_TRY(mover_.gather(std::move(ids), reason));
  if (!shared) return {};
  unsplit_.push_back(at(first).flying);
  if (unsplit_.size() <= unsplit_most) return {};
  const std::shared_ptr<Gather> oldest = std::move(unsplit_.front());
  unsplit_.pop_front();
  if (oldest->complete) return {};
  OnDemandParameter& p = at(oldest->parameters.front());
  TESSERA_TRY(mover_.arrive(p).status());
  p.last_use = oldest->done;
  return {};
}

bool StrictPolicy::may_go(const OnDemandParameter& p, std::int32_t after) const {
  if (p.state == State::not_available || !p.active.empty()) return false;
  if (after < 0) return true;
  return !p.persistent && orders_.next_use(p.id) > after;
}

bool StrictPolicy::can_make_room(Bytes bytes, std::int32_t after) const {
  for (const OnDemandParameter& p : mover_.moved()) {
    if (may_go(p, after)) bytes -= mover_.gathered_bytes(p.id);
  }
  return fits(bytes);
}

// Frees what is used last, of what is used after the visit `after`; -1: whatever no module needs.
Result<bool> StrictPolicy::make_room(Bytes bytes, std::int32_t after) {
  if (fits(bytes)) return true;
  if (!can_make_room(bytes, after)) return false;
  while (!fits(bytes)) {
    OnDemandParameter* last = nullptr;
    auto later = [this](const OnDemandParameter& a, const OnDemandParameter& b) {
      if (a.persistent != b.persistent) return b.persistent;
      return orders_.next_use(a.id) > orders_.next_use(b.id);
    };
    for (OnDemandParameter& p : mover_.moved()) {
      if (may_go(p, after) && (last == nullptr || later(p, *last))) last = &p;
    }
    TESSERA_ASSERT(last != nullptr, "room was counted before it was made");
    TESSERA_TRY(evict(*last));
  }
  return true;
}

Status StrictPolicy::evict(OnDemandParameter& p) {
  TESSERA_TRY(mover_.drop(p));
  ahead_ = std::min(ahead_, std::max(orders_.place(), orders_.next_use(p.id)));
  return mover_.free(p);
}

Status StrictPolicy::end_pass() {
  open_ = false;
  orders_.end();
  for (OnDemandParameter& p : mover_.moved()) {
    p.active.clear();
    const bool needed = p.persistent || orders_.next_use(p.id) != UseTable::never;
    if (p.state != State::not_available && !needed) TESSERA_TRY(evict(p));
  }
  open_visits_.assign(open_visits_.size(), 0);
  return mover_.note({Mark::Kind::trace_reset});
}

Status StrictPolicy::free_all() {
  for (OnDemandParameter& p : mover_.moved()) {
    p.active.clear();
    if (p.state != State::not_available) TESSERA_TRY(evict(p));
  }
  return mover_.settle();
}

Status StrictPolicy::values_changed() { return free_all(); }

Status StrictPolicy::before_step() {
  orders_.step();
  TESSERA_TRY(free_all());
  return mover_.note({Mark::Kind::all_released});
}

std::vector<LiveParameter> StrictPolicy::live() const {
  std::vector<LiveParameter> out;
  const Model& model = mover_.moved_model();
  for (const OnDemandParameter& p : std::as_const(mover_).moved()) {
    if (p.state == State::not_available) continue;
    LiveParameter live{.name = model.parameter(p.id).name, .bytes = mover_.gathered_bytes(p.id)};
    const std::int32_t next = orders_.next_use(p.id);
    ModuleId module;
    if (!p.active.empty()) {
      module = *p.active.begin();
      live.visit = orders_.visited() - 1;
    } else if (next != UseTable::never) {
      const bool ahead = prefetched_[static_cast<std::size_t>(p.id.value)];
      live.reason = ahead ? LiveParameter::Reason::prefetched : LiveParameter::Reason::kept;
      module = orders_.expected()[static_cast<std::size_t>(next)].module;
      live.visit = orders_.visit_at(next);
    } else {
      live.reason =
          p.persistent ? LiveParameter::Reason::persistent : LiveParameter::Reason::left_over;
    }
    if (module.valid()) live.module = module == ModuleId{0} ? "root" : model.module(module).path;
    out.push_back(std::move(live));
  }
  return out;
}

std::unique_ptr<FetchPolicy> make_strict_policy(ParameterMover& mover,
                                                const Zero3Options& options) {
  return std::make_unique<StrictPolicy>(mover, options);
}

}  // namespace tessera
