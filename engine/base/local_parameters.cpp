// SPDX-License-Identifier: Apache-2.0
#include "engine/base/local_parameters.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "engine/base/call_order.h"
#include "engine/numbers/arithmetic.h"
#include "tessera/assert.h"

namespace tessera {

Status LocalParameters::add(ParameterId id, DType dtype) {
  TESSERA_ASSERT(find(id) == nullptr, "a parameter is ignored once");
  const Parameter& source = issuer_.model().parameter(id);
  Local own{.id = id, .shard = {.whole = true, .name = source.name, .unit = "ignored"}};
  own.shard.dtype = dtype;
  own.shard.map = ShardMap({{id, Numel{0}, source.numel(), source.requires_grad}}, source.numel());
  TESSERA_ASSIGN(own.shard.value,
                 issuer_.allocate(source.name, bytes_of(source.numel(), dtype),
                                  MemoryClass::unsharded_parameters, issuer_.compute_stream(),
                                  issuer_.cause(own.shard.unit, Reason::none)));
  all_.push_back(std::move(own));
  return {};
}

const ParamShard* LocalParameters::find(ParameterId id) const {
  for (const Local& own : all_) {
    if (own.id == id) return &own.shard;
  }
  return nullptr;
}

Result<View> LocalParameters::gradient_view(ParameterId id) {
  const auto found =
      std::find_if(all_.begin(), all_.end(), [id](const Local& own) { return own.id == id; });
  TESSERA_ASSERT(found != all_.end(), "only local parameters have a gradient here");
  const ParamShard& shard = found->shard;
  if (!shard.map.requires_grad()) return CallOrder::trained_later(shard.name);
  if (!found->fresh.valid()) {
    TESSERA_ASSIGN(found->fresh,
                   issuer_.allocate(shard.name + ".grad", bytes_of(shard.map.shard(), shard.dtype),
                                    MemoryClass::unsharded_gradients, issuer_.compute_stream(),
                                    issuer_.cause(shard.unit, Reason::none)));
  }
  return View::whole(found->fresh, shard.dtype, shard.map.shard());
}

std::vector<std::string> LocalParameters::warnings() const {
  std::vector<std::string> first;
  std::size_t others = 0;
  for (const Local& own : all_) {
    if (!own.shard.map.requires_grad()) continue;
    if (first.size() < 3) {
      first.push_back(own.shard.name);
    } else {
      ++others;
    }
  }
  if (first.empty() || issuer_.everyone().count() < 2) return {};
  const bool one = first.size() == 1;
  return {fmt::format(
      "{}{} {} in no unit: each rank trains its own, nobody reduces {}, and ranks "
      "drift apart",
      fmt::join(first, ", "), others > 0 ? fmt::format(" and {} more", others) : std::string(),
      one ? "is" : "are", one ? "its gradient" : "their gradients")};
}

std::vector<ParamShard*> LocalParameters::shards() {
  std::vector<ParamShard*> all;
  for (Local& own : all_) {
    own.shard.gradient = {};
    if (own.gradient.valid()) {
      own.shard.gradient = View::whole(own.gradient, own.shard.dtype, own.shard.map.shard());
    }
    all.push_back(&own.shard);
  }
  return all;
}

// As torch's .grad: the first backward pass gives it its memory, later ones add. A gradient of this
// pass has memory of its own until then, because bodies find zeros there and only add.
Status LocalParameters::accumulate() {
  for (Local& own : all_) {
    if (!own.fresh.valid()) continue;
    if (!own.gradient.valid()) {
      own.gradient = std::exchange(own.fresh, BufferId{});
      continue;
    }
    const Numel numel = own.shard.map.shard();
    TESSERA_ASSIGN(
        const EventId added,
        issuer_.submit(issuer_.compute_stream(), issuer_.cause(own.shard.unit, Reason::accumulate),
                       tessera::add(View::whole(own.fresh, own.shard.dtype, numel),
                                    View::whole(own.gradient, own.shard.dtype, numel))));
    TESSERA_TRY(issuer_.release(own.fresh, added));
  }
  return {};
}

Status LocalParameters::free_gradients(EventId stepped) {
  for (Local& own : all_) {
    if (own.gradient.valid()) TESSERA_TRY(issuer_.release(own.gradient, stepped));
  }
  return {};
}

}  // namespace tessera
