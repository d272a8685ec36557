// SPDX-License-Identifier: Apache-2.0
#include "engine/schemes/zero3/without_effect.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <limits>

namespace tessera {
namespace {

using Device = Offload::Device;

bool any(const Zero3Parts& parts, const std::function<bool(const OnDemandParameter&)>& is) {
  return std::any_of(parts.parameters.begin(), parts.parameters.end(), is);
}

std::string idle_parameters(const Zero3Parts& parts) {
  const Zero3Options& o = parts.facts.options;
  if (o.offload_param.device == Device::nvme &&
      !any(parts, [](const auto& p) { return p.home == Memory::nvme; })) {
    return fmt::format(
        "offload_param nvme: no partition has as many as the {} bytes of nvme_smallest, so none is "
        "on NVMe",
        o.aio.smallest.value);
  }
  if (o.offload_param.device == Device::cpu &&
      !any(parts, [](const auto& p) { return p.home != Memory::device; })) {
    return "offload_param cpu: all parameters are persistent (persistence_threshold), so all stay "
           "on the device";
  }
  return "";
}

std::string idle_prefetch(const Zero3Options& o) {
  const bool given = o.prefetch_bucket != Zero3Options{}.prefetch_bucket;
  if (o.policy != Zero3Policy::strict || !given || o.prefetch_bucket == Numel{0}) return "";
  return fmt::format(
      "prefetch_bucket {}: the strict policy gathers ahead what the live budget has room for, and "
      "only asks whether it is 0",
      o.prefetch_bucket.value);
}

std::string idle_granularity(const Zero3Parts& parts) {
  const Numel asked = parts.facts.options.module_granularity;
  const Numel finest = parts.leaves.finest();
  if (asked == Numel{0} || finest <= asked) return "";
  if (finest == Numel{std::numeric_limits<std::int64_t>::max()}) {
    return fmt::format("module_granularity {}: no module has modules in it that it could gather",
                       asked.value);
  }
  return fmt::format(
      "module_granularity {}: no module has so few elements per module in it, so none is gathered "
      "as a whole; the fewest are {}",
      asked.value, finest.value);
}

// A ratio counts whole groups.
std::string idle_optimizer(const Zero3Parts& parts) {
  const Offload& o = parts.facts.options.offload_optimizer;
  if (o.device == Device::none) return "";
  const auto on_device = [](const auto& p) { return p.shard.memory == Memory::device; };
  if (!any(parts, [&](const auto& p) { return !on_device(p); })) {
    return fmt::format(
        "offload_ratio {:g}: all of the optimizer's groups stay on the device, so nothing is "
        "offloaded",
        o.ratio);
  }
  if (o.ratio < 1 && !any(parts, on_device)) {
    return fmt::format(
        "offload_ratio {:g}: with {} of the optimizer's groups (sub_group_size) all are "
        "offloaded, as with 1",
        o.ratio, parts.groups.count());
  }
  if (o.device == Device::nvme && !any(parts, [](const auto& p) { return p.shard.swapped; })) {
    return fmt::format(
        "offload_optimizer nvme: no group has as many as the {} bytes of nvme_smallest, so no "
        "state is on NVMe",
        parts.facts.options.aio.smallest.value);
  }
  return "";
}

}  // namespace

std::vector<std::string> without_effect(const Zero3Parts& parts) {
  std::vector<std::string> all{idle_parameters(parts), idle_optimizer(parts)};
  const ZeroPlusPlus& plus = parts.facts.options.plus_plus;
  if (plus.quantized_gradients && plus.ranks_per_node == parts.facts.ranks) {
    all.push_back(
        fmt::format("quantized_gradients: all {} ranks are one node (ranks_per_node), so gradients "
                    "are reduced as they are",
                    parts.facts.ranks));
  }
  all.push_back(idle_prefetch(parts.facts.options));
  all.push_back(idle_granularity(parts));
  for (const std::string& name : parts.leaves.idle()) {
    all.push_back(fmt::format(
        "leaf_modules {}: what it names has no modules in it, or lies in another leaf module, so "
        "it is gathered as without",
        name));
  }
  std::erase(all, "");
  return all;
}

}  // namespace tessera
