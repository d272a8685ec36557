// SPDX-License-Identifier: Apache-2.0
#include "inspector/model/memory_pyramid.h"

#include <algorithm>

namespace tessera::inspector {
namespace {

constexpr std::size_t sample_fan = 8;
constexpr std::size_t checkpoint_every = 64;

}  // namespace

MemoryPyramid::MemoryPyramid(const std::vector<Time>& time, const std::vector<MemoryClass>& classes,
                             const std::vector<Bytes>& delta, const std::vector<Bytes>& allocated,
                             const std::vector<Bytes>& reserved, bool on_device)
    : time_(&time),
      classes_(&classes),
      delta_(&delta),
      allocated_(&allocated),
      reserved_(&reserved) {
  MemoryStack running{};
  Bytes sum{};
  for (std::size_t i = 0; i < size(); ++i) {
    if (i % checkpoint_every == 0) checkpoints_.push_back(running);
    running[static_cast<std::size_t>(classes[i])] += delta[i];
    if (is_on_device(classes[i]) == on_device) sum += delta[i];
    consistent_ &= sum == allocated[i] && allocated[i] <= reserved[i];
    most_reserved_ = std::max(most_reserved_, reserved[i]);
  }
  std::size_t below = size();
  while (below > 1) {
    std::vector<std::uint32_t> level((below + sample_fan - 1) / sample_fan);
    for (std::size_t n = 0; n < level.size(); ++n) {
      auto child = [&](std::size_t k) -> std::size_t {
        return levels_.empty() ? k : levels_.back()[k];
      };
      std::size_t best = child(n * sample_fan);
      for (std::size_t k = n * sample_fan + 1; k < std::min(below, (n + 1) * sample_fan); ++k) {
        best = higher(best, child(k));
      }
      level[n] = static_cast<std::uint32_t>(best);
    }
    below = level.size();
    levels_.push_back(std::move(level));
  }
}

std::size_t MemoryPyramid::higher(std::size_t a, std::size_t b) const {
  return (*allocated_)[b] > (*allocated_)[a] ? b : a;
}

std::ptrdiff_t MemoryPyramid::at(Time time) const {
  return std::upper_bound(time_->begin(), time_->end(), time) - time_->begin() - 1;
}

std::ptrdiff_t MemoryPyramid::highest(Time from, Time to) const {
  const std::ptrdiff_t last = at(to - 1);
  if (last < 0) return -1;
  // Samples at `from` count, even those that others at the same moment replace; without one, what
  // was in force then.
  auto first = std::lower_bound(time_->begin(), time_->end(), from) - time_->begin();
  const bool at_from =
      first < std::ssize(*time_) && (*time_)[static_cast<std::size_t>(first)] == from;
  if (!at_from) first = std::max<std::ptrdiff_t>(first - 1, 0);
  auto i = static_cast<std::size_t>(first);
  const auto end = static_cast<std::size_t>(last) + 1;
  std::size_t best = i;
  while (i < end) {
    std::size_t level = 0, width = 1;
    while (level < levels_.size() && i % (width * sample_fan) == 0 &&
           i + width * sample_fan <= end) {
      width *= sample_fan;
      ++level;
    }
    best = higher(best, level == 0 ? i : levels_[level - 1][i / width]);
    i += width;
  }
  return static_cast<std::ptrdiff_t>(best);
}

MemoryStack MemoryPyramid::stack(std::ptrdiff_t i) const {
  if (i < 0) return {};
  const auto last = static_cast<std::size_t>(i);
  MemoryStack stack = checkpoints_[last / checkpoint_every];
  for (std::size_t k = last / checkpoint_every * checkpoint_every; k <= last; ++k) {
    stack[static_cast<std::size_t>((*classes_)[k])] += (*delta_)[k];
  }
  stack[static_cast<std::size_t>(MemoryClass::reserved_unused)] = reserved(i) - allocated(i);
  return stack;
}

Bytes MemoryPyramid::allocated(std::ptrdiff_t i) const {
  return i < 0 ? Bytes{} : (*allocated_)[static_cast<std::size_t>(i)];
}

Bytes MemoryPyramid::reserved(std::ptrdiff_t i) const {
  return i < 0 ? Bytes{} : (*reserved_)[static_cast<std::size_t>(i)];
}

}  // namespace tessera::inspector
