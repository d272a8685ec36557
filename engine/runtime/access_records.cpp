// SPDX-License-Identifier: Apache-2.0
#include "engine/runtime/access_records.h"

#include <algorithm>
#include <utility>

namespace tessera {

void AccessRecords::clear() {
  slots_.clear();
  unused_.clear();
  index_.clear();
  families_.clear();
  count_ = 0;
}

int AccessRecords::family_of(const Access& a) {
  const auto find = [this](std::int64_t period, std::int64_t length) {
    const auto bits = std::bit_width(static_cast<std::uint64_t>(std::max<std::int64_t>(0, length)));
    const Family family{period, std::int64_t{1} << bits};
    const auto known = std::find(families_.begin(), families_.end(), family);
    return std::pair{family, known};
  };
  auto [family, known] = find(a.period(), a.length);
  const auto has_period = [](const Family& f) { return f.period != 0; };
  const bool full = std::count_if(families_.begin(), families_.end(), has_period) == most_periodic;
  if (family.period == 0 || (known == families_.end() && full)) {
    std::tie(family, known) = find(0, hull(a));
  }
  const auto place = static_cast<int>(known - families_.begin());
  if (known == families_.end()) families_.push_back(family);
  return place;
}

AccessRecords::Key AccessRecords::key_of(std::size_t slot) const {
  const int family = slots_[slot].family;
  return {family, families_[static_cast<std::size_t>(family)].place(slots_[slot].record.access),
          slot};
}

void AccessRecords::index(std::size_t slot) {
  slots_[slot].family = family_of(slots_[slot].record.access);
  index_.insert(key_of(slot));
}

void AccessRecords::add(AccessRecord record) {
  ++count_;
  if (unused_.empty()) {
    slots_.push_back({std::move(record)});
    if (!indexed() && slots_.size() < indexed_from) return;
    const std::size_t first = indexed() ? slots_.size() - 1 : 0;
    for (std::size_t k = first; k < slots_.size(); ++k) index(k);
    return;
  }
  const std::size_t slot = unused_.back();
  unused_.pop_back();
  slots_[slot] = {std::move(record)};
  index(slot);
}

// Drops what `dropped_` names, ascending unless there is an index.
void AccessRecords::drop() {
  if (dropped_.empty()) return;
  count_ -= dropped_.size();
  if (count_ == 0) return clear();
  if (!indexed()) {
    std::size_t kept = dropped_.front();
    std::size_t next = 0;
    for (std::size_t k = kept; k < slots_.size(); ++k) {
      if (next < dropped_.size() && dropped_[next] == k) {
        ++next;
      } else {
        slots_[kept++] = std::move(slots_[k]);
      }
    }
    slots_.resize(kept);
    return;
  }
  for (const std::size_t slot : dropped_) {
    index_.erase(key_of(slot));
    slots_[slot] = {.record = {}, .taken = false};
    unused_.push_back(slot);
  }
}

}  // namespace tessera
