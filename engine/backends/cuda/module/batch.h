// SPDX-License-Identifier: Apache-2.0
// Many arrays in one launch: their addresses are parameters of the kernel, and each block of
// threads looks up which array it works on.
#pragma once

#include <functional>
#include <span>

#include "engine/backends/cuda/module/packs.h"

namespace tessera::device {

template <class Item>
struct Batch {
  static constexpr int most = static_cast<int>(3600 / (sizeof(Item) + sizeof(unsigned)));

  Item items[most];
  unsigned begins[most];  // the first block of each
  int count = 0;

  /// The item of this block.
  __device__ int own() const {
    int k = 0;
    for (int step = 128; step > 0; step /= 2) {
      if (k + step < count && begins[k + step] <= blockIdx.x) k += step;
    }
    return k;
  }
};

/// Collects items and launches them, with their blocks of threads, when no more fit and at last.
template <class Item>
class Batcher {
 public:
  using Launch = std::function<int(const Batch<Item>&, unsigned blocks)>;

  explicit Batcher(Launch launch, unsigned blocks_max = 1U << 30)
      : launch_(std::move(launch)), blocks_max_(blocks_max) {}

  void add(const Item& item, unsigned blocks) {
    if (batch_.count == Batch<Item>::most || blocks > blocks_max_ - blocks_) flush();
    batch_.items[batch_.count] = item;
    batch_.begins[batch_.count] = blocks_;
    ++batch_.count;
    blocks_ += blocks;
  }
  /// The first error of all launches.
  int flush() {
    if (batch_.count > 0 && code_ == 0) code_ = launch_(batch_, blocks_);
    batch_.count = 0;
    blocks_ = 0;
    return code_;
  }

 private:
  const Launch launch_;
  const unsigned blocks_max_;
  Batch<Item> batch_;
  unsigned blocks_ = 0;
  int code_ = 0;
};

/// Numbers that a block of threads takes of an array, and blocks for all of it.
inline constexpr std::int64_t batch_part = 16 * threads;
inline unsigned batch_blocks(std::int64_t numel) {
  return static_cast<unsigned>((numel + batch_part - 1) / batch_part);
}

/// Calls f(items) for items of equal types that follow each other, until it returns an error.
template <class Item, class Same, class F>
int for_runs(std::span<const Item> items, const Same& same, const F& f) {
  int code = 0;
  while (!items.empty() && code == 0) {
    std::size_t n = 1;
    while (n < items.size() && same(items[0], items[n])) ++n;
    code = f(items.first(n));
    items = items.subspan(n);
  }
  return code;
}

}  // namespace tessera::device
