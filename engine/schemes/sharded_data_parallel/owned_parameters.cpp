// SPDX-License-Identifier: Apache-2.0
// Who owns which parameter, where values lie, which gradients are reduced together.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "engine/base/no_buffers.h"
#include "engine/schemes/sharded_data_parallel/owner_engine.h"
#include "tessera/assert.h"

namespace tessera {
namespace {

using ShardKey = std::tuple<std::int32_t, Index, DType>;  // optimizer, owner

std::string shard_name(const ShardKey& key, bool one_dtype) {
  const auto& [optimizer, owner, dtype] = key;
  std::string name = owner < 0 ? "no owner" : fmt::format("owner {}", owner);
  if (optimizer > 0) name = fmt::format("optimizer {} {}", optimizer, name);
  if (!one_dtype) name += fmt::format(" {}", name_of(dtype));
  return name;
}

}  // namespace

std::vector<OwnedTensor> OwnerEngine::tensors() const {
  std::vector<OwnedTensor> out;
  for (const OwnedParameter& p : parameters_) {
    out.push_back({p.numel, p.trained, p.dtype, p.owner, p.optimizer});
  }
  return out;
}

Status OwnerEngine::add_parameters() {
  bool any = false;
  for (std::size_t k = 0; k < model_.parameters.size(); ++k) {
    const Parameter& source = model_.parameters[k];
    OwnedParameter p;
    p.id = ParameterId{static_cast<std::int32_t>(k)};
    p.numel = source.numel();
    p.dtype = options_.dtype.value_or(source.dtype);
    p.shard = {.whole = true, .name = source.name, .unit = "root"};
    p.shard.dtype = p.dtype;
    any |= source.requires_grad;
    parameters_.push_back(std::move(p));
  }
  if (!any) {
    return Status(Code::invalid_argument,
                  fmt::format("{} has no parameter that requires a gradient: there is nothing to "
                              "reduce",
                              model_.name));
  }
  assign_owners_to_all();
  return {};
}

void OwnerEngine::set_trained(OwnedParameter& p) {
  const bool requires_grad = model_.parameter(p.id).requires_grad;
  p.trained = requires_grad && has_owner(p);
  p.shard.map = ShardMap({{p.id, Numel{0}, p.numel, requires_grad}}, p.numel);
}

// In the order of groups and in them of parameters: owners of all that has none.
void OwnerEngine::assign_owners_to_all() {
  for (const ParamGroup& group : param_groups()) {
    for (const ParameterId id : group.parameters) {
      OwnedParameter& p = at(id);
      p.optimizer = group.optimizer;
      if (has_owner(p)) continue;
      const bool trained = model_.parameter(id).requires_grad;
      p.owner = owner_map_.assign({p.numel, trained, p.dtype, 0, p.optimizer});
      p.shard.where = owner_set(p.owner);
      p.shard.owner = p.owner;
    }
  }
  for (OwnedParameter& p : parameters_) set_trained(p);
  ++owners_version_;
}

// Before the first step nobody has state yet, so owners are given away again from the start.
Status OwnerEngine::on_param_groups() {
  if (any_gradient()) TESSERA_TRY(zero_grad(/*set_to_none=*/true));  // they are zero
  if (!optimizer_.groups().any_step()) {
    owner_map_ = OwnerMap(ranks_);
    for (OwnedParameter& p : parameters_) {
      p.owner = p.optimizer = -1;
      p.shard.where = {};
    }
  }
  assign_owners_to_all();
  TESSERA_TRY(lay_out_values());
  plan_buckets();
  return {};
}

Status OwnerEngine::add_buffers() {
  for (const Buffer& b : model_.buffers) {
    module_buffers_.emplace_back();
    TESSERA_ASSIGN(module_buffers_.back(), allocate(b.name, b.bytes(), MemoryClass::buffers,
                                                    compute_, cause("root", Reason::none)));
  }
  Compute init;
  init.writes = buffer_views();
  if (init.writes.empty()) return {};
  return submit(compute_, cause("root", Reason::none), std::move(init)).status();
}

std::vector<std::string> OwnerEngine::warnings() const {
  if (options_.broadcast_buffers || !buffer_views().empty()) return {};
  return {no_buffers_to_broadcast(model_)};
}

// One flat buffer per owner and dtype; values that exist move there.
Status OwnerEngine::lay_out_values() {
  std::vector<std::size_t> order(parameters_.size());
  for (std::size_t k = 0; k < order.size(); ++k) order[k] = k;
  std::sort(order.begin(), order.end(), [this](std::size_t a, std::size_t b) {
    const OwnedParameter &x = parameters_[a], &y = parameters_[b];
    return std::tuple(!x.trained, x.numel, a) < std::tuple(!y.trained, y.numel, b);
  });
  // Trained ones first, so that what a step broadcasts is one run of the shard.
  bool one_dtype = true;
  for (const OwnedParameter& p : parameters_) one_dtype &= p.dtype == parameters_[0].dtype;
  std::map<ShardKey, OwnerShard> shards;
  std::vector<Numel> places(parameters_.size());
  for (const std::size_t k : order) {
    const OwnedParameter& p = parameters_[k];
    OwnerShard& shard = shards[p.shard_key()];
    places[k] = shard.numel;
    shard.numel += p.numel;
    if (p.trained) shard.trained += p.numel;
    ++shard.parameters;
  }
  std::vector<OwnerShard> old = std::move(shards_);
  shards_.clear();
  for (auto& [key, shard] : shards) {
    std::tie(shard.optimizer, shard.owner, shard.dtype) = key;
    shard.name = runtime_.keep_name(shard_name(key, one_dtype));  // causes outlive shards
    TESSERA_ASSIGN(
        shard.value,
        allocate(fmt::format("{}.parameters", shard.name), bytes_of(shard.numel, shard.dtype),
                 MemoryClass::unsharded_parameters, compute_, cause(shard.name, Reason::none)));
    shards_.push_back(shard);
  }
  Copy move;
  for (std::size_t k = 0; k < parameters_.size(); ++k) {
    ParamShard& own = parameters_[k].shard;
    const View before = own.values();
    own.value = shards[parameters_[k].shard_key()].value;
    own.first = places[k];
    if (before.buffer.valid()) move.pieces.push_back({.from = before, .to = own.values()});
  }
  if (old.empty()) return {};
  TESSERA_ASSIGN(const EventId moved,
                 submit(compute_, cause("root", Reason::order), std::move(move)));
  for (OwnerShard& shard : old) TESSERA_TRY(release(shard.value, moved));
  return {};
}

// A gradient is complete after the backward of its first use; what is not used comes last.
std::vector<std::size_t> OwnerEngine::expected_places() const {
  std::vector<bool> listed(parameters_.size(), false);
  std::vector<std::size_t> used;
  for (const ModuleId module : model_.forward) {
    for (const ParameterId id : assignment_.used_by[module.index()]) {
      const auto k = id.index();
      if (!listed[k]) used.push_back(k);
      listed[k] = true;
    }
  }
  std::vector<std::size_t> places(parameters_.size());
  std::size_t place = 0;
  for (auto k = used.rbegin(); k != used.rend(); ++k) places[*k] = place++;
  for (std::size_t k = parameters_.size(); k-- > 0;) {
    if (!listed[k]) places[k] = place++;
  }
  return places;
}

void OwnerEngine::plan_buckets() {
  // Alone there is nothing to reduce together: every gradient stays where it was written.
  const Numel size = ranks_ == 1 ? Numel{0} : options_.reduce_buffer_size;
  ReducePlan plan = plan_reductions(tensors(), size);
  for (const std::size_t k : plan.direct) plan.buckets.push_back({k});
  const std::vector<std::size_t> places = expected_places();
  auto completed = [&](const std::vector<std::size_t>& bucket) {
    std::size_t last = 0;
    for (const std::size_t k : bucket) last = std::max(last, places[k]);
    return last;
  };
  // All ranks reduce in this order; one that backward completes late would hold up the others.
  std::sort(plan.buckets.begin(), plan.buckets.end(),
            [&](const auto& a, const auto& b) { return completed(a) < completed(b); });
  TESSERA_ASSERT(!any_gradient(), "buckets are planned while they hold nothing");
  buckets_.clear();
  for (auto& indices : plan.buckets) {
    const OwnedParameter& first = parameters_[indices.front()];
    GradientBucket bucket;
    std::tie(bucket.optimizer, bucket.owner, bucket.dtype) = first.shard_key();
    if (indices.size() == 1) bucket.module = model_.parameter(first.id).name;
    for (const OwnerShard& s : shards_) {
      if (std::tuple(s.optimizer, s.owner, s.dtype) == first.shard_key()) bucket.name = s.name;
    }
    TESSERA_ASSERT(!bucket.name.empty(), "the owner of a bucket has a shard");
    for (const std::size_t k : indices) {
      TESSERA_ASSERT(parameters_[k].trained, "only what is trained is reduced");
      parameters_[k].bucket = buckets_.size();
      parameters_[k].offset = bucket.numel;
      bucket.numel += parameters_[k].numel;
    }
    bucket.parameters = std::move(indices);
    buckets_.push_back(std::move(bucket));
  }
}

bool OwnerEngine::mask_changed() const {
  return std::any_of(parameters_.begin(), parameters_.end(), [this](const OwnedParameter& p) {
    return has_owner(p) && p.trained != model_.parameter(p.id).requires_grad;
  });
}

Status OwnerEngine::refresh_trainable() {
  TESSERA_TRY(expect(Stage::idle, "refresh_trainable"));
  if (!mask_changed()) return {};
  if (any_gradient()) {
    return Status(Code::invalid_argument,
                  "requires_grad changed while there are gradients: change it between a step and "
                  "the next forward, or call zero_grad before");
  }
  return refresh();
}

// Owners stay: the optimizer's state is theirs.
Status OwnerEngine::refresh() {
  for (OwnedParameter& p : parameters_) set_trained(p);
  TESSERA_TRY(lay_out_values());
  plan_buckets();
  return {};
}

}  // namespace tessera
