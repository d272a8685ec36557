// SPDX-License-Identifier: Apache-2.0
#include "engine/schemes/zero3/zero3_engine.h"

#include <fmt/format.h>

#include <algorithm>

namespace tessera {

Operations::Pass Zero3Engine::Issued::pass() const {
  if (engine_.stage_ == Stage::forward) return Pass::forward;
  return engine_.stage_ == Stage::backward ? Pass::backward : Pass::none;
}

Result<BufferId> Zero3Engine::Issued::allocate(Allocation request) {
  request.where = engine_.everyone_;
  return engine_.runtime_.allocate(request);
}

Result<EventId> Zero3Engine::note(std::string_view unit, std::string_view what, Mark mark,
                                  Reason reason, StreamId stream) {
  Cause why = cause(unit, reason);
  why.module = what;
  return submit(stream.valid() ? stream : compute_, why, mark);
}

Result<View> Zero3Engine::parameter_view(ParameterId id) {
  const OnDemandParameter& p = at(id);
  // strict: what is there for another module's sake, or was kept, may be gone the next time.
  const bool asked_for = facts_.rules.reads_whatever_is_there || !p.active.empty();
  if (p.state == State::available && asked_for) {
    return View::whole(p.full, param_dtype(), p.numel);
  }
  return Status(Code::invalid_argument,
                fmt::format("parameter {} is used while it is partitioned: call {} for module {} "
                            "first",
                            name(p), stage_ == Stage::backward ? "pre_backward" : "pre_forward",
                            model_.module(model_.parameter(id).module).path));
}

std::vector<Held*> Zero3Engine::held() {
  std::vector<Held*> all;
  for (OnDemandParameter& p : parameters_) {
    p.held.gradient = p.held.unsharded = {};
    if (p.has_gradient) {
      p.held.gradient = gradient_partition(p);
    }
    if (p.state == State::available) {
      p.held.unsharded = View::whole(p.full, param_dtype(), p.partition * ranks_);
    }
    all.push_back(&p.held);
  }
  return all;
}

std::vector<StreamId> Zero3Engine::side_streams() const {
  std::vector<StreamId> streams = {all_gather_, reduce_, nccl_};
  if (host_.valid()) streams.push_back(host_);
  if (swapper_.exists()) streams.push_back(swapper_.stream());
  for (StreamId stream : states_swapper_.streams()) streams.push_back(stream);
  return streams;
}

ShardGroups Zero3Engine::shard_groups() const {
  return {ranks_, ranks_ > 1 ? world_ : CommunicatorId{}, replicas_};
}

// Whoever asks may write the partitions: what flies was gathered from the old ones.
Status Zero3Engine::finish_gathers() {
  casts_are_old_ = true;
  forget_secondary();
  for (OnDemandParameter& p : parameters_) {
    if (p.flying) {
      TESSERA_TRY(drop(p));
      TESSERA_TRY(free(p));
    }
    p.last_use = {};  // whoever asked may read it, too
  }
  dropped_ = false;
  return wait_stream(compute_, all_gather_, cause("root", Reason::order));
}

Status Zero3Engine::partition_all_parameters() {
  TESSERA_TRY(expect(Stage::idle, "partition_all_parameters"));
  return policy_->values_changed();
}

Status Zero3Engine::values_change() {
  TESSERA_TRY(policy_->values_changed());
  casts_are_old_ = true;
  forget_secondary();
  return {};
}

// After a drive failed nobody knows what the pass would have done, but every partition is what it
// was: they can be looked at, and nothing else.
Status Zero3Engine::remember(Status status) {
  if (status.ok() || status.code() != Code::io_error || stage_ == Stage::summoned) return status;
  failure_ = Status(status.code(), fmt::format("training ended with: {}", status.message()));
  stage_ = Stage::idle;
  return status;
}

Status Zero3Engine::step(const AdamOptions& options) {
  TESSERA_TRY(failure_);
  return remember(EngineBase::step(options));
}

Status Zero3Engine::begin_forward() {
  TESSERA_TRY(failure_);
  TESSERA_TRY(expect(Stage::idle, "begin_forward"));
  return remember(start_forward());
}

Status Zero3Engine::start_forward() {
  TESSERA_TRY(refresh_trainable());
  begin_pass();
  if (!trains()) {
    const bool training = pass_.use == ForwardPass::Use::no_backward;
    TESSERA_TRY(note("root", "", {Mark::Kind::evaluating, training ? 1 : 0}).status());
  }
  TESSERA_TRY(enter(Stage::forward, Phase::forward));
  if (std::exchange(casts_are_old_, false)) {
    TESSERA_TRY(hold_all(false));
    TESSERA_TRY(enter_update());
    TESSERA_TRY(cast_partitions(held()));
    TESSERA_TRY(leave_host(cause("root", Reason::order)));
  }
  TESSERA_TRY(states_swapper_.put_back());
  // The gathers must see what the optimizer wrote.
  TESSERA_TRY(wait_stream(all_gather_, compute_, cause("root", Reason::order)));
  running_.clear();
  leaf_visits_.assign(model_.modules.size(), 0);
  return policy_->begin_forward(pass_);
}

// Recomputing is a forward pass inside of backward, and its hooks run as in any other. Only the
// recomputed module itself has what pre_backward fetched.
Status Zero3Engine::pre_forward(ModuleId module) {
  if (recomputes(module) || inside_leaf(module)) return {};
  if (!recomputing()) {
    TESSERA_TRY(expect(Stage::forward, "pre_forward"));
    running_.push_back(module);
    ++leaf_visits_[index(module)];
  }
  return remember(policy_->pre_forward(module, recomputing()));
}

Status Zero3Engine::post_forward(ModuleId module) {
  if (recomputes(module) || inside_leaf(module)) return {};
  if (!recomputing()) {
    TESSERA_TRY(expect(Stage::forward, "post_forward"));
    TESSERA_TRY(leave(module));
  }
  TESSERA_TRY(policy_->post_forward(module, recomputing()));
  if (!ends_pass(module)) return {};
  const bool evaluated = pass_.use == ForwardPass::Use::evaluate;
  TESSERA_TRY(evaluated ? policy_->end_pass() : policy_->drop_forward());
  stage_ = Stage::idle;
  return {};
}

// DeepSpeed sees reads of what the module does not need; a plan wants to know before.
Status Zero3Engine::compute(const ModuleWork& work) {
  bool trains = false;
  for (ParameterId id : parameters_of(work)) {
    trains |= at(id).trained;
    const bool touched = stage_ == Stage::forward && facts_.rules.finds_needs_as_they_happen &&
                         !needed_by(leaf_of_[index(work.module)], id);
    if (touched) TESSERA_TRY(remember(touch(id)));
  }
  TESSERA_TRY(EngineBase::compute(work));
  if (stage_ == Stage::forward) policy_->ran(work.module, trains);
  return {};
}

Status Zero3Engine::begin_backward() {
  TESSERA_TRY(expect(Stage::forward, "begin_backward"));
  if (!trains()) {
    return Status(Code::invalid_argument,
                  "backward pass is invalid for a model in evaluation: announce a forward pass for "
                  "training");
  }
  TESSERA_TRY(expect_unsettled());
  for (OnDemandParameter& p : parameters_) p.reduced = false;
  TESSERA_TRY(enter(Stage::backward, Phase::backward));
  return policy_->begin_backward();
}

Status Zero3Engine::pre_backward(ModuleId module) {
  TESSERA_TRY(expect(Stage::backward, "pre_backward"));
  return inside_leaf(module) ? Status{} : remember(policy_->pre_backward(module));
}

Status Zero3Engine::post_backward(ModuleId module) {
  TESSERA_TRY(expect(Stage::backward, "post_backward"));
  if (inside_leaf(module)) return {};
  if (leaf_[index(module)]) TESSERA_TRY(leave_leaf(module));
  return policy_->post_backward(module);
}

Status Zero3Engine::end_backward() {
  TESSERA_TRY(expect(Stage::backward, "end_backward"));
  TESSERA_TRY(policy_->end_pass());
  TESSERA_TRY(finish_reductions());
  stage_ = Stage::idle;
  ++micro_batch_;
  return {};
}

std::vector<std::string> Zero3Engine::warnings() const {
  std::vector<std::string> all = states_swapper_.warnings();
  if (asked_for_no_sync_) {
    all.emplace_back("gradients are kept as partitions only: every micro-batch reduces them");
  }
  return all;
}

}  // namespace tessera
