// SPDX-License-Identifier: Apache-2.0
// Making the engine: flat buffers, masters, streams.
#include <fmt/format.h>

#include "engine/model/used_by.h"
#include "engine/schemes/zero12/zero12_engine.h"
#include "tessera/assert.h"

namespace tessera {

Zero12Engine::Zero12Engine(Runtime& runtime, const Model& model, const Zero12Options& options)
    : EngineBase(runtime, model),
      options_(options),
      ranks_(static_cast<Index>(everyone_.count())) {}

Status Zero12Engine::check_options() const {
  if (options_.stage != 1 && options_.stage != 2) {
    return Status(Code::invalid_argument,
                  fmt::format("stage {}: this scheme is ZeRO stage 1 or 2; use replicate for 0 and "
                              "zero3 for 3",
                              options_.stage));
  }
  if (options_.reduce_bucket < Numel{0}) {
    return Status(Code::invalid_argument, fmt::format("reduce_bucket must be at least 0, found {}",
                                                      options_.reduce_bucket.value));
  }
  if (options_.offload_optimizer.device == Offload::Device::nvme) {
    return Status(Code::invalid_argument,
                  fmt::format("offload_optimizer nvme: stage {} keeps states on the device or in "
                              "host memory; zero3 has NVMe",
                              options_.stage));
  }
  // Every piece of a part has to begin where collectives may begin.
  if (options_.allgather_bucket < Numel{2} || options_.allgather_bucket.value % 2 != 0) {
    return Status(Code::invalid_argument,
                  fmt::format("allgather_bucket must be a multiple of 2, found {}",
                              options_.allgather_bucket.value));
  }
  return {};
}

Status Zero12Engine::create_streams_and_groups() {
  TESSERA_ASSIGN(compute_, create_stream("default", StreamRole::compute));
  reduce_ = compute_;
  if (overlaps()) {
    TESSERA_ASSIGN(reduce_, create_stream("reduction", StreamRole::copy));
  }
  if (offloads()) {
    TESSERA_ASSIGN(host_, create_stream("cpu", StreamRole::host));
  }
  TESSERA_ASSIGN(nccl_, create_stream("nccl", StreamRole::communication));
  TESSERA_ASSIGN(const auto groups, RankGroups::strided(everyone_.count(), ranks_));
  TESSERA_ASSIGN(world_, runtime_.create_communicator(groups, "world"));
  return {};
}

Status Zero12Engine::add_flat(FlatBuffer& flat, const std::vector<ParameterId>& ids,
                              const std::string& name, bool masters) {
  flat.layout = flat_parts(model_, ids, ranks_);
  for (const FlatLayout::Entry& entry : flat.layout.entries) {
    at(entry.parameter).place = entry.begin;
  }
  flat.shard.name = name;
  flat.shard.unit = "root";
  flat.shard.map = shard_map(model_, flat.layout);
  const Cause why = cause("root", Reason::none);
  const Numel padded = flat.layout.padded();
  TESSERA_ASSERT(!flat.value.valid() && !ids.empty(), "a flat buffer is made once, of something");
  TESSERA_ASSIGN(flat.value, allocate(name, bytes_of(padded, param_dtype()),
                                      MemoryClass::unsharded_parameters, compute_, why));
  Compute init;
  init.writes = {View::whole(flat.value, param_dtype(), padded)};
  init.cost.elementwise_bytes = static_cast<double>(bytes_of(padded, param_dtype()).value);
  TESSERA_TRY(submit(compute_, why, std::move(init)).status());
  if (!masters) {
    flat.shard.value = flat.value;
    flat.shard.dtype = param_dtype();
    flat.shard.parts = ranks_;
    return {};
  }
  // DeepSpeed clones its part even if the parameters are float32.
  flat.shard.memory = home();
  TESSERA_ASSIGN(flat.shard.value,
                 allocate(name + ".master", bytes_of(flat.layout.shard, DType::float32),
                          offloads() ? MemoryClass::pinned_host : MemoryClass::optimizer_state,
                          compute_, why, home()));
  return {};
}

Status Zero12Engine::add_parameters() {
  std::vector<ParameterId> trained;
  std::vector<ParameterId> frozen;
  for (std::size_t k = 0; k < model_.parameters.size(); ++k) {
    const Parameter& source = model_.parameters[k];
    const ParameterId id{static_cast<std::int32_t>(k)};
    parameters_.push_back({.id = id, .numel = source.numel(), .trained = source.requires_grad});
    (source.requires_grad ? trained : frozen).push_back(id);
  }
  if (trained.empty()) {
    return Status(Code::invalid_argument,
                  fmt::format("{} has no parameter that requires a gradient: there is nothing for "
                              "the optimizer to step",
                              model_.name));
  }
  if (options_.round_robin_gradients && parts_gradients()) trained = round_robin(trained, ranks_);
  TESSERA_TRY(add_flat(flat_, trained, "parameters", /*masters=*/true));
  return frozen.empty() ? Status{} : add_flat(frozen_, frozen, "frozen", /*masters=*/false);
}

Status Zero12Engine::setup() {
  TESSERA_TRY(check_options());
  assign_whole_model();
  TESSERA_TRY(create_streams_and_groups());
  TESSERA_TRY(add_parameters());
  return make_values(*this);
}

}  // namespace tessera
