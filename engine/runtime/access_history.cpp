// SPDX-License-Identifier: Apache-2.0
#include "engine/runtime/access_history.h"

#include <algorithm>
#include <utility>

namespace tessera {
namespace {

AccessRecord record_of(const Access& access, Position position, const Accessor& accessor) {
  const bool some = access.length > 0 && access.end > access.begin;  // nothing needs no reader
  return {access, position, accessor, some && access.write && is_collective(accessor.kind), {}};
}

// The new record makes those of the same ranks redundant that it contains: what comes after it
// comes after them.
void replace(AccessRecords& records, const AccessRecord& added) {
  records.drop_near(added.access, [&](AccessRecord& r) {
    if (added.access.write) return contains(added.access, r.access);
    if (r.access.write) {
      if (r.unread && overlap(r.access, added.access)) r.unread = false;
      return false;
    }
    return r.position.stream == added.position.stream && contains(added.access, r.access);
  });
}

}  // namespace

std::string Accessor::to_string() const {
  std::string text(name_of(kind));
  if (cause.reason == Reason::copy_in) text = "copy-in";
  if (cause.reason == Reason::copy_out) text = "copy-out";
  if (!cause.unit.empty()) text += " of unit " + std::string(cause.unit);
  if (kind == OpKind::compute && !cause.module.empty()) {
    text += " in module " + std::string(cause.module);
  }
  return text;
}

void AccessHistory::clear() {
  shared_.clear();
  cells_.clear();
  ranges_.clear();
}

// The cells with ranks in `ranks`, each once, in the order of their creation where all are meant
// and of their ranks otherwise.
std::vector<AccessHistory::Cell*> AccessHistory::touched(const RankSet& ranks) const {
  std::vector<Cell*> out;
  if (cells_.empty()) return out;
  for (const RankRange& range : ranks.ranges()) {
    auto at = ranges_.upper_bound(range.begin);
    if (at != ranges_.begin() && std::prev(at)->second.end > range.begin) --at;
    for (; at != ranges_.end() && at->first < range.end; ++at) out.push_back(at->second.cell);
  }
  // Where each is one range they are so already: a thousand owners' parts of a flat buffer.
  if (out.size() > 1 && ranges_.size() > cells_.size()) {
    std::sort(out.begin(), out.end(),
              [](const Cell* a, const Cell* b) { return a->ranks.first() < b->ranks.first(); });
    out.erase(std::unique(out.begin(), out.end()), out.end());
  }
  return out;
}

// From now on `ranks` are in `cell`, whatever they were in.
void AccessHistory::assign(const RankSet& ranks, Cell* cell) {
  for (const RankRange& range : ranks.ranges()) {
    auto at = ranges_.lower_bound(range.begin);
    if (at != ranges_.begin()) {
      auto& [begin, before] = *std::prev(at);
      if (before.end > range.end) ranges_.insert({range.end, before});
      before.end = std::min(before.end, range.begin);
    }
    at = ranges_.lower_bound(range.begin);
    while (at != ranges_.end() && at->first < range.end) {
      if (at->second.end > range.end) ranges_.insert({range.end, at->second});
      at = ranges_.erase(at);
    }
    if (cell != nullptr) ranges_[range.begin] = {range.end, cell};
  }
}

// Cells that together are `ranks`: those there are, cut where they reach further, and a new one
// for ranks that were in none.
std::vector<AccessHistory::Cell*> AccessHistory::cells_of(const RankSet& ranks) {
  std::vector<Cell*> out;
  RankSet rest = ranks;
  for (Cell* cell : touched(ranks)) {
    rest = rest.minus(cell->ranks);
    if (!ranks.covers(cell->ranks)) {
      cells_.push_back(std::make_unique<Cell>(Cell{cell->ranks.intersect(ranks), cell->records}));
      cell->ranks = cell->ranks.minus(ranks);
      cell = cells_.back().get();
      assign(cell->ranks, cell);
    }
    out.push_back(cell);
  }
  if (rest.empty()) return out;
  cells_.push_back(std::make_unique<Cell>());
  cells_.back()->ranks = rest;
  assign(rest, cells_.back().get());
  out.push_back(cells_.back().get());
  return out;
}

void AccessHistory::forget(const RankSet& ranks) {
  if (cells_.empty()) return;
  for (Cell* cell : cells_of(ranks)) {
    cell->records.clear();
    cell->ranks = {};
  }
  assign(ranks, nullptr);
  std::erase_if(cells_, [](const auto& cell) { return cell->ranks.empty(); });
}

// Every byte of `read`, which is one range at `index`, was written by somebody.
bool AccessHistory::initialised(const Access& read, Index index, const AccessRecords& shared,
                                const AccessRecords* own) {
  std::int64_t at = read.begin_at(index);
  const std::int64_t end = read.end_at(index);
  for (bool advanced = true; at < end && advanced;) {
    advanced = false;
    for (const AccessRecords* records : {&shared, own}) {
      if (records == nullptr) continue;
      // What reaches `at` is looked for, not all that lies in the view.
      const Access here{read.buffer, at, 1, 0, at + 1, false};
      records->any_near(here, [&](const AccessRecord& r) {
        if (!r.access.write) return false;
        const std::int64_t end_of = reach(r.access, index, at);
        advanced |= end_of > at;
        at = end_of;
        return false;
      });
    }
  }
  return at >= end;
}

// The views are affine in the index, or in the block: first, middle and last show any wrong
// offset.
std::string AccessHistory::check_read(const Access& read, Index group_size,
                                      const Acting& who) const {
  if (read.pitch > 0) {
    const auto blocks = static_cast<Index>(read.blocks());
    for (Index k : {Index{0}, static_cast<Index>(blocks / 2), blocks - 1}) {
      const std::int64_t begin = read.begin_at(k);
      const std::int64_t length = read.end_at(k) - begin;
      const Access block{read.buffer, begin, length, 0, begin + length, false};
      std::string wrong = check_read(block, group_size, who);
      if (!wrong.empty()) return wrong;
    }
    return {};
  }
  Index before = -1;
  for (Index i : {Index{0}, static_cast<Index>(group_size / 2), group_size - 1}) {
    if (std::exchange(before, i) == i || initialised(read, i, shared_, nullptr)) continue;
    RankSet rest = who.ranks;
    bool all = !cells_.empty();
    for (const Cell* cell : touched(who.ranks)) {
      rest = rest.minus(cell->ranks);
      all = all && initialised(read, i, shared_, &cell->records);
    }
    if (!all || !rest.empty()) return "reads bytes of it that nothing has written";
  }
  return {};
}

std::string AccessHistory::check(const Access& access, StreamId stream, Index group_size,
                                 const StreamOrder& order, const Acting& who) const {
  const AccessRecord* wrong = nullptr;
  const auto races = [&](const AccessRecord& r) {
    if (!access.write && !r.access.write) return false;
    if (r.position.stream == stream.value || order.before_stream(r.position, stream)) return false;
    if (!overlap(access, r.access)) return false;
    wrong = &r;
    return true;
  };
  bool found = shared_.any_near(access, races);
  if (!found && !cells_.empty()) {
    const auto cells = touched(who.ranks);
    found = std::any_of(cells.begin(), cells.end(),
                        [&](const Cell* c) { return c->records.any_near(access, races); });
  }
  if (found) {
    return (access.write
                ? (wrong->access.write ? "overwrites it while the " : "overwrites it before the ")
                : "reads it before the ") +
           wrong->accessor.to_string() +
           (access.write && !wrong->access.write ? " that reads it has finished"
                                                 : " that writes it has finished") +
           ": a wait is missing";
  }
  return access.write ? std::string() : check_read(access, group_size, who);
}

void AccessHistory::record(const Access& access, Position position, const Accessor& accessor,
                           const Acting& who) {
  if (who.all()) {
    record_of_all(access, position, accessor);
  } else {
    record_of_some(access, position, accessor, who);
  }
}

void AccessHistory::record_of_all(const Access& access, Position position,
                                  const Accessor& accessor) {
  const AccessRecord added = record_of(access, position, accessor);
  replace(shared_, added);
  if (!cells_.empty()) {
    bool any = false;
    for (auto& cell : cells_) {
      replace(cell->records, added);
      any |= !cell->records.empty();
    }
    if (!any) {
      cells_.clear();
      ranges_.clear();
    }
  }
  shared_.add(added);
}

void AccessHistory::record_of_some(const Access& access, Position position,
                                   const Accessor& accessor, const Acting& who) {
  const AccessRecord added = record_of(access, position, accessor);
  for (Cell* cell : cells_of(who.ranks)) {
    replace(cell->records, added);
    cell->records.add(added);
  }
  // What all have: here these ranks have read or overwritten it, the others have not.
  shared_.drop_near(access, [&](AccessRecord& r) {
    if (!r.unread) return false;
    const bool over = access.write ? contains(access, r.access) : overlap(r.access, access);
    if (!over) return false;
    r.unread_on = (r.unread_on.empty() ? who.holders : r.unread_on).minus(who.ranks);
    r.unread = !r.unread_on.empty();
    return false;
  });
}

const Accessor* AccessHistory::not_before(EventId event, const StreamOrder& order,
                                          const RankSet& ranks) const {
  const Accessor* late = nullptr;
  const auto is_late = [&](const AccessRecord& r) {
    if (event.valid() && order.before_event(r.position, event)) return false;
    late = &r.accessor;
    return true;
  };
  if (shared_.any(is_late)) return late;
  for (const Cell* cell : touched(ranks)) {
    if (cell->records.any(is_late)) return late;
  }
  return nullptr;
}

const Accessor* AccessHistory::unread_collective(const RankSet& ranks) const {
  const Accessor* unread = nullptr;
  const auto is_unread = [&](const AccessRecord& r) {
    if (!r.unread) return false;
    if (!r.unread_on.empty() && r.unread_on.intersect(ranks).empty()) return false;
    unread = &r.accessor;
    return true;
  };
  if (shared_.any(is_unread)) return unread;
  for (const Cell* cell : touched(ranks)) {
    if (cell->records.any(is_unread)) return unread;
  }
  return nullptr;
}

}  // namespace tessera
