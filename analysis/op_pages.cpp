// SPDX-License-Identifier: Apache-2.0
#include "analysis/op_pages.h"

#include <algorithm>

#include "analysis/check_values.h"

namespace tessera::analysis {
namespace {

constexpr std::int32_t ids_per_page = 4096;
constexpr std::size_t pages_kept = 64;
constexpr std::int32_t typical_steps = 2;  // at either end

}  // namespace

void OpPages::read(const storage::TraceReader& reader, std::int32_t from, std::int32_t to,
                   Rows& rows) {
  auto ops = reader.ops(from, to);
  const Status status = ops.ok() ? check_ops(*ops) : ops.status();
  if (!status.ok()) {
    if (problem_.ok()) problem_ = status;
    return;
  }
  rows.ops = std::move(ops).value();
  rows.places = IdPlaces(rows.ops, [](const storage::OpRow& op) { return op.id; });
}

const storage::OpRow* OpPages::find_in(const Rows& rows, std::int32_t id) const {
  const std::int32_t place = rows.places.find(id);
  return place < 0 ? nullptr : &rows.ops[static_cast<std::size_t>(place)];
}

OpPages::Page& OpPages::page(const storage::TraceReader& reader, std::int32_t number) {
  if (number == last_number_) return *last_;
  const auto [it, is_new] = pages_.try_emplace(number);
  if (is_new) {
    const std::int64_t from = std::int64_t{first_} + std::int64_t{number} * ids_per_page;
    const auto to = static_cast<std::int32_t>(std::min<std::int64_t>(from + ids_per_page, end_));
    read(reader, static_cast<std::int32_t>(from), to, it->second);
  }
  it->second.used = ++clock_;
  last_ = &it->second;
  last_number_ = number;
  return *last_;
}

const storage::OpRow* OpPages::find(const storage::TraceReader& reader, std::int32_t id) {
  if (id < first_ || id >= end_) return nullptr;
  const std::lock_guard lock(mutex_);
  if (has_all_) return find_in(all_, id);
  const auto number = static_cast<std::int32_t>((std::int64_t{id} - first_) / ids_per_page);
  return find_in(page(reader, number), id);
}

// Steps ascend with ids.
void OpPages::read_typical(const storage::TraceReader& reader) {
  const std::int32_t pages = (end_ - 1 - first_) / ids_per_page + 1;
  std::int32_t number = 0;
  for (bool more = true; more && number < pages; ++number) {
    for (const storage::OpRow& op : page(reader, number).ops) {
      more = more && op.step < typical_steps;
      if (more) typical_.push_back(op);
    }
  }
  std::vector<storage::OpRow> behind;  // from the last one on
  std::int32_t last_step = -1;
  bool more = true;
  for (std::int32_t back = pages - 1; more && back >= number; --back) {
    const std::vector<storage::OpRow>& ops = page(reader, back).ops;
    for (auto op = ops.rbegin(); more && op != ops.rend(); ++op) {
      last_step = std::max(last_step, op->step);
      more = op->step < 0 || op->step > last_step - typical_steps;
      if (more) behind.push_back(*op);
    }
  }
  typical_.insert(typical_.end(), behind.rbegin(), behind.rend());
}

const std::vector<storage::OpRow>& OpPages::typical(const storage::TraceReader& reader) {
  const std::lock_guard lock(mutex_);
  if (has_all_) return all_.ops;
  if (typical_.empty()) read_typical(reader);
  return typical_;
}

const std::vector<storage::OpRow>& OpPages::all(const storage::TraceReader& reader) {
  const std::lock_guard lock(mutex_);
  if (!has_all_) read(reader, first_, end_, all_);
  has_all_ = true;
  return all_.ops;
}

void OpPages::forget() {
  const std::lock_guard lock(mutex_);
  while (pages_.size() > pages_kept) {
    const auto oldest = std::min_element(
        pages_.begin(), pages_.end(),
        [](const auto& a, const auto& b) { return a.second.used < b.second.used; });
    if (&oldest->second == last_) last_number_ = -1;
    pages_.erase(oldest);
  }
}

Status OpPages::problem() const {
  const std::lock_guard lock(mutex_);
  return problem_;
}

}  // namespace tessera::analysis
