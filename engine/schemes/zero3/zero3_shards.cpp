// SPDX-License-Identifier: Apache-2.0
#include "engine/schemes/zero3/zero3_shards.h"

#include <fmt/format.h>

#include <algorithm>

#include "engine/schemes/zero3/parameters/marks.h"
#include "engine/schemes/zero3/zero3_setup.h"

namespace tessera {

Zero3Shards::Zero3Shards(Runtime& runtime, const Model& model, const Zero3Options& options,
                         const RankGroups& groups)
    : EngineBase(runtime, model, groups.ranks()),
      operations_(*this, *this, *this),
      parts_(operations_, model, options, groups) {}

Status Zero3Shards::setup() {
  Zero3Setup setup(runtime_, parts_);
  TESSERA_TRY(setup.check_options());
  TESSERA_TRY(setup.create_streams_and_groups());
  compute_ = parts_.facts.compute;
  host_ = parts_.facts.host;
  TESSERA_ASSIGN(assignment_, setup.assign_modules());
  setup.add_parameters(
      [this](ParameterId id) { return unit_name(assignment_.unit_of_parameter[id.index()]); });
  TESSERA_TRY(setup.allocate(optimizer_.groups()));
  return make_values(*this);
}

Status Zero3Shards::note(Mark mark, Reason reason) {
  return operations_.note(compute_, cause("root", reason), "", mark).status();
}

std::vector<ParamShard*> Zero3Shards::shards() {
  std::vector<ParamShard*> all;
  for (OnDemandParameter& p : parts_.parameters) {
    p.shard.gradient = p.shard.unsharded = {};
    if (parts_.gradients.has(p.id)) p.shard.gradient = parts_.gradients.view(p);
    if (p.copy.available()) p.shard.unsharded = parts_.memory.view(p);
    all.push_back(&p.shard);
  }
  return all;
}

std::vector<StreamId> Zero3Shards::side_streams() const {
  const Zero3Facts& facts = parts_.facts;
  std::vector<StreamId> streams = {facts.all_gather, facts.reduce, facts.nccl};
  if (facts.host.valid()) streams.push_back(facts.host);
  if (parts_.swapper.exists()) streams.push_back(parts_.swapper.stream());
  for (StreamId stream : parts_.states.streams()) streams.push_back(stream);
  return streams;
}

void Zero3Shards::forget_old_values() {
  parts_.update.expect_writes();
  parts_.secondary.forget();
}

// Whoever asks may write the partitions: what flies was gathered from the old ones.
Status Zero3Shards::finish_gathers() {
  forget_old_values();
  return parts_.mover.finish_all();
}

Status Zero3Shards::before_write() {
  TESSERA_TRY(parts_.policy->values_changed());
  forget_old_values();
  return {};
}

// After a drive failed nobody knows what the pass would have done, but every partition is what it
// was: they can be looked at, and nothing else.
Status Zero3Shards::remember(Status status) {
  if (status.ok() || status.code() != Code::io_error || stage_ == Stage::summoned) return status;
  failure_ = Status(status.code(), fmt::format("training ended with: {}", status.message()));
  stage_ = Stage::idle;
  return status;
}

// Masters come to memory only if they have to be cast; what was brought for others goes back now.
Status Zero3Shards::refresh_partitions() {
  if (parts_.update.stale()) {
    TESSERA_TRY(load_shards(false));
    TESSERA_TRY(parts_.update.refresh(shards()));
  }
  TESSERA_TRY(parts_.states.put_back());
  // The gathers must see what the optimizer wrote.
  return wait_stream(parts_.facts.all_gather, compute_, cause("root", Reason::order));
}

// Gradients that wait for a step belong to the old set, so it may only change without any.
Status Zero3Shards::refresh_trainable() {
  auto changed = [this](const OnDemandParameter& p) {
    return p.trained != model_.parameter(p.id).requires_grad;
  };
  const auto first = std::find_if(parts_.parameters.begin(), parts_.parameters.end(), changed);
  if (first == parts_.parameters.end()) return {};
  const auto refuse = [&](const char* why) {
    return Status(Code::invalid_argument,
                  fmt::format("requires_grad of {} changed{}", first->shard.name, why));
  };
  if (!parts_.facts.rules.follows_what_is_trained) {
    return refuse(
        ", which the compatible policy cannot follow, as DeepSpeed cannot: use the strict one");
  }
  if (parts_.gradients.any()) {
    return refuse(" while there are gradients: change it between a step and the next forward");
  }
  for (OnDemandParameter& p : parts_.parameters) {
    p.trained = model_.parameter(p.id).requires_grad;
    p.shard.map = ShardMap({{p.id, Numel{0}, p.numel, p.trained}}, p.partition);
  }
  parts_.groups.form(optimizer_.groups());
  // What reduces next has to follow the last reader of the old buffers.
  TESSERA_TRY(wait_stream(parts_.facts.reduce, compute_, cause("root", Reason::order)));
  TESSERA_TRY(parts_.gradients.release(last_compute()));
  TESSERA_TRY(parts_.bucket.release(last_compute()));
  TESSERA_TRY(parts_.gradients.allocate());
  TESSERA_TRY(parts_.bucket.allocate());
  parts_.policy->graph_changed();
  return {};
}

Status Zero3Shards::step(const AdamOptions& options) {
  TESSERA_TRY(failure_);
  return remember(EngineBase::step(options));
}

// Parameters are freed, partitions stepped group by group, and what is persistent is gathered
// again.
Status Zero3Shards::before_step() {
  TESSERA_TRY(parts_.policy->before_step());
  TESSERA_TRY(parts_.states.begin_step());
  return parts_.update.enter();
}

std::vector<std::vector<ParamShard*>> Zero3Shards::step_groups() {
  shards();  // says where the gradients are
  std::vector<std::vector<ParamShard*>> groups;
  for (std::size_t g = 0; g < parts_.groups.count(); ++g) {
    groups.push_back(parts_.groups.shards(g));
  }
  return groups;
}

Status Zero3Shards::before_group(std::size_t group) {
  return parts_.states.before_group(parts_.groups.members(group), parts_.groups.members(group + 1));
}

Status Zero3Shards::after_group(std::size_t group) {
  if (group >= parts_.groups.count()) return {};
  TESSERA_TRY(parts_.update.cast(parts_.groups.shards(group)));
  const bool last = group + 1 == parts_.groups.count();
  TESSERA_TRY(parts_.states.after_group(parts_.groups.members(group), last));
  const auto number = static_cast<std::int32_t>(group);
  return note({marks::sub_group_ready, number}, Reason::step);
}

// Gathers of the next pass follow the compute stream; what the CPU wrote goes over the gathers'
// stream to the device, so that one is followed here.
Status Zero3Shards::after_step() {
  parts_.secondary.forget();
  TESSERA_TRY(note({marks::step_done}, Reason::step));
  if (host_.valid()) {
    TESSERA_TRY(wait_stream(compute_, parts_.facts.all_gather, cause("root", Reason::order)));
  }
  return parts_.policy->after_step();
}

Status Zero3Shards::free_gradients(EventId /*stepped*/) {
  parts_.gradients.forget();
  return {};
}

Status Zero3Shards::on_param_groups() {
  parts_.groups.form(optimizer_.groups());
  return {};
}

}  // namespace tessera
