// SPDX-License-Identifier: Apache-2.0
// Spans of a rank in the order of recording, as columns.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "storage/chunk.h"

namespace tessera::storage {

class SpanRun {
 public:
  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  std::span<const std::int32_t> ops() const { return {ops_.get(), size_}; }
  std::span<const Time> begin() const { return {begin_.get(), size_}; }
  std::span<const Time> ready() const { return {ready_.get(), size_}; }
  std::span<const Time> end() const { return {end_.get(), size_}; }

  /// Where the next spans go.
  struct Place {
    std::int32_t* op;
    Time *begin, *ready, *end;
  };
  /// Room for `count` more, which the caller fills.
  Place extend(std::size_t count) {
    if (size_ + count > room_) reserve(std::max(2 * room_, size_ + count));
    const std::size_t at = size_;
    size_ += count;
    return {ops_.get() + at, begin_.get() + at, ready_.get() + at, end_.get() + at};
  }
  void push_back(const SpanEntry& span) {
    const Place to = extend(1);
    *to.op = span.op;
    *to.begin = span.begin;
    *to.ready = span.ready;
    *to.end = span.end;
  }
  void reserve(std::size_t room) {
    if (room <= room_) return;
    grow(ops_, room);
    for (auto* times : {&begin_, &ready_, &end_}) grow(*times, room);
    room_ = room;
  }
  void clear() { size_ = 0; }

 private:
  template <class T>
  void grow(std::unique_ptr<T[]>& column, std::size_t room) {
    auto larger = std::make_unique_for_overwrite<T[]>(room);
    std::copy_n(column.get(), size_, larger.get());
    column = std::move(larger);
  }

  std::size_t size_ = 0, room_ = 0;
  std::unique_ptr<std::int32_t[]> ops_;
  std::unique_ptr<Time[]> begin_, ready_, end_;
};

/// The spans from `first` on.
inline SpanRun tail_of(const SpanRun& run, std::size_t first) {
  SpanRun tail;
  const std::size_t count = run.size() - first;
  const SpanRun::Place to = tail.extend(count);
  std::copy_n(run.ops().begin() + static_cast<std::ptrdiff_t>(first), count, to.op);
  std::copy_n(run.begin().begin() + static_cast<std::ptrdiff_t>(first), count, to.begin);
  std::copy_n(run.ready().begin() + static_cast<std::ptrdiff_t>(first), count, to.ready);
  std::copy_n(run.end().begin() + static_cast<std::ptrdiff_t>(first), count, to.end);
  return tail;
}

}  // namespace tessera::storage
