// SPDX-License-Identifier: Apache-2.0
#include "tests/backends/cuda/stand_in/race_check.h"

#include <algorithm>

namespace tessera::test {

void RaceCheck::split(std::uintptr_t at) {
  auto it = segments_.upper_bound(at);
  if (it == segments_.begin()) return;
  --it;
  if (it->first == at || it->second.end <= at) return;
  Segment tail = it->second;
  it->second.end = at;
  segments_.emplace(at, std::move(tail));
}

// Afterwards segments tile [begin, end).
void RaceCheck::cover(std::uintptr_t begin, std::uintptr_t end) {
  split(begin);
  split(end);
  std::uintptr_t at = begin;
  while (at < end) {
    const auto it = segments_.lower_bound(at);
    const std::uintptr_t next = it == segments_.end() ? end : std::min(it->first, end);
    if (next > at) segments_[at].end = next;
    at = segments_.at(at).end;
  }
}

std::string RaceCheck::conflict(const Segment& segment, bool write, const Clock& clock) {
  if (segment.written && clock[segment.writer.stream] < segment.writer.count) {
    return segment.writer.name;
  }
  if (!write) return {};
  for (const Use& reader : segment.readers) {
    if (clock[reader.stream] < reader.count) return reader.name;
  }
  return {};
}

std::string RaceCheck::check(const MemoryAccess& access, std::size_t stream, const Clock& clock,
                             const std::string& name) {
  const auto begin = reinterpret_cast<std::uintptr_t>(access.at);
  const std::uintptr_t end = begin + access.bytes;
  if (begin == end) return {};
  cover(begin, end);
  std::string found;
  const Use use{stream, clock[stream], name};
  for (auto it = segments_.find(begin); it != segments_.end() && it->first < end; ++it) {
    Segment& segment = it->second;
    const std::string other = conflict(segment, access.write, clock);
    if (found.empty() && !other.empty()) {
      found = name + (access.write ? " writes" : " reads") + " what " + other +
              " uses, and no wait orders them";
    }
    if (access.write) {
      segment.written = true;
      segment.writer = use;
      segment.readers.clear();
    } else {
      std::erase_if(segment.readers, [&](const Use& r) { return r.stream == stream; });
      segment.readers.push_back(use);
    }
  }
  return found;
}

std::string RaceCheck::forget(const void* at, std::size_t bytes, const Clock& clock) {
  const auto begin = reinterpret_cast<std::uintptr_t>(at);
  const std::uintptr_t end = begin + bytes;
  split(begin);
  split(end);
  std::string found;
  const auto first = segments_.lower_bound(begin);
  auto it = first;
  for (; it != segments_.end() && it->first < end; ++it) {
    const std::string user = conflict(it->second, /*write=*/true, clock);
    if (found.empty() && !user.empty()) found = "freed while " + user + " may still use it";
  }
  segments_.erase(first, it);
  return found;
}

}  // namespace tessera::test
