// SPDX-License-Identifier: Apache-2.0
#include "engine/runtime/access_records.h"

#include <algorithm>
#include <utility>

namespace tessera {

void AccessRecords::clear() {
  slots_.clear();
  unused_.clear();
  index_.clear();
  powers_ = 0;
  count_ = 0;
}

void AccessRecords::index(std::size_t slot) {
  const Access& a = slots_[slot].record.access;
  const int power = power_of(a);
  index_.insert({power, a.begin, slot});
  powers_ |= std::uint64_t{1} << power;
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
    const Access& a = slots_[slot].record.access;
    index_.erase({power_of(a), a.begin, slot});
    slots_[slot] = {.record = {}, .taken = false};
    unused_.push_back(slot);
  }
}

}  // namespace tessera
