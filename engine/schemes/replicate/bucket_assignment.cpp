// SPDX-License-Identifier: Apache-2.0
// torch/csrc/distributed/c10d/reducer.cpp, compute_bucket_assignment_by_size.
#include <algorithm>
#include <map>

#include "tessera/assert.h"
#include "tessera/replicate.h"

namespace tessera {
namespace {

struct OpenBucket {
  std::vector<std::size_t> indices;
  Bytes size{};
  std::size_t limit = 0;  // place in the list of limits
};

void sort_by_first_index(BucketAssignment& out) {
  std::vector<std::size_t> order(out.buckets.size());
  for (std::size_t k = 0; k < order.size(); ++k) order[k] = k;
  auto first = [&](std::size_t k) {
    return *std::min_element(out.buckets[k].begin(), out.buckets[k].end());
  };
  std::sort(order.begin(), order.end(),
            [&](std::size_t a, std::size_t b) { return first(a) < first(b); });
  BucketAssignment sorted;
  for (std::size_t k : order) {
    sorted.buckets.push_back(std::move(out.buckets[k]));
    sorted.limits.push_back(out.limits[k]);
  }
  out = std::move(sorted);
}

}  // namespace

BucketAssignment assign_buckets(const std::vector<BucketTensor>& tensors,
                                const std::vector<Bytes>& limits,
                                const std::vector<std::size_t>& indices) {
  TESSERA_ASSERT(!limits.empty(), "buckets have a limit");
  TESSERA_ASSERT(indices.empty() || indices.size() == tensors.size(), "one index per tensor");
  BucketAssignment out;
  std::map<DType, OpenBucket> open;
  std::vector<DType> seen;
  for (std::size_t k = 0; k < tensors.size(); ++k) {
    const std::size_t index = indices.empty() ? k : indices[k];
    if (tensors[k].sparse) {
      out.buckets.push_back({index});
      out.limits.push_back(Bytes{0});
      continue;
    }
    const auto [place, first] = open.try_emplace(tensors[k].dtype);
    if (first) seen.push_back(place->first);
    OpenBucket& bucket = place->second;
    bucket.indices.push_back(index);
    bucket.size += tensors[k].bytes;
    const Bytes limit = limits[bucket.limit];
    if (bucket.size < limit) continue;
    out.buckets.push_back(std::move(bucket.indices));
    out.limits.push_back(limit);
    bucket = {.limit = std::min(bucket.limit + 1, limits.size() - 1)};
  }
  // What is left goes the way that torch's hash table of libstdc++ has it: the last seen first.
  for (std::size_t k = seen.size(); k-- > 0;) {
    OpenBucket& bucket = open[seen[k]];
    if (bucket.indices.empty()) continue;
    out.buckets.push_back(std::move(bucket.indices));
    out.limits.push_back(limits[bucket.limit]);
  }
  if (indices.empty()) sort_by_first_index(out);
  return out;
}

}  // namespace tessera
