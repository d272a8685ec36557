// SPDX-License-Identifier: Apache-2.0
#include "engine/shard/fully_shard_engine.h"

#include <fmt/format.h>

namespace tessera {
namespace {

std::size_t at(ModuleId id) { return static_cast<std::size_t>(id.value); }
std::size_t at(ParameterId id) { return static_cast<std::size_t>(id.value); }

}  // namespace

FullyShardEngine::FullyShardEngine(Runtime& runtime, const Model& model, FullyShardOptions options)
    : runtime_(runtime),
      model_(model),
      options_(std::move(options)),
      everyone_(runtime.carried()),
      group_size_(everyone_.count()) {}

Status FullyShardEngine::setup() {
  TESSERA_ASSIGN(assignment_, assign_units(model_, options_.units));
  TESSERA_ASSIGN(compute_, runtime_.create_stream("default", StreamRole::compute));
  TESSERA_ASSIGN(copy_in_, runtime_.create_stream("ag_copy_in", StreamRole::copy));
  TESSERA_ASSIGN(all_gather_, runtime_.create_stream("all_gather", StreamRole::communication));
  TESSERA_ASSIGN(reduce_scatter_,
                 runtime_.create_stream("reduce_scatter", StreamRole::communication));
  TESSERA_ASSIGN(const auto groups, RankGroups::strided(group_size_, group_size_));
  TESSERA_ASSIGN(world_, runtime_.create_communicator(groups, "world"));

  slot_of_parameter_.resize(model_.parameters.size());
  for (const auto& assigned : assignment_.units) {
    Unit unit;
    const bool root = units_.empty();
    unit.module = assigned.module;
    unit.name = root ? std::string_view("root") : model_.module(assigned.module).path;
    unit.reshard_after_forward =
        options_.reshard_after_forward == ReshardAfterForward::always ||
        (options_.reshard_after_forward == ReshardAfterForward::automatic && !root);
    TESSERA_ASSIGN(unit.layout, dim0_layout(model_, assigned.parameters, group_size_));
    const std::size_t prefix = root ? 0 : unit.name.size() + 1;
    for (const auto& layout : unit.layout.parameters) {
      const Parameter& source = model_.parameter(layout.id);
      slot_of_parameter_[at(layout.id)] = unit.parameters.size();
      unit.parameters.push_back({.layout = layout,
                                 .name = source.name.substr(prefix),
                                 .requires_grad = source.requires_grad});
    }
    units_.push_back(std::move(unit));
  }
  for (Unit& unit : units_) TESSERA_TRY(allocate_shards(unit));
  activations_.resize(model_.modules.size());
  return {};
}

Cause FullyShardEngine::cause(std::string_view unit, Reason reason) const {
  return {
      .unit = unit, .phase = phase_, .reason = reason, .step = step_, .micro_batch = micro_batch_};
}

Result<EventId> FullyShardEngine::submit(StreamId stream, const Cause& cause,
                                         decltype(Op::what) what, std::span<const EventId> after) {
  auto event = runtime_.submit({.stream = stream,
                                .where = everyone_,
                                .after = after,
                                .cause = cause,
                                .what = std::move(what)});
  if (event.ok() && stream == compute_) last_compute_ = *event;
  return event;
}

Result<EventId> FullyShardEngine::mark(const Cause& cause, Mark::Kind kind, StreamId stream) {
  return submit(stream, cause, Mark{kind});
}

Status FullyShardEngine::wait_stream(StreamId waiting, StreamId other, const Cause& cause) {
  return submit(waiting, cause, Wait{other}).status();
}

Status FullyShardEngine::wait_event(StreamId waiting, EventId event, const Cause& cause) {
  return submit(waiting, cause, Wait{}, {&event, 1}).status();
}

Result<BufferId> FullyShardEngine::allocate(const std::string& name, Bytes bytes,
                                            MemoryClass memory_class, StreamId stream,
                                            const Cause& cause) {
  return runtime_.allocate({.bytes = bytes,
                            .memory_class = memory_class,
                            .stream = stream,
                            .where = everyone_,
                            .cause = cause,
                            .name = name});
}

Status FullyShardEngine::release(BufferId& buffer, EventId after) {
  const BufferId id = std::exchange(buffer, BufferId{});
  return runtime_.release(id, after, everyone_);
}

Unit* FullyShardEngine::unit_at(ModuleId module) {
  TESSERA_ASSERT(module.valid() && at(module) < model_.modules.size(), "a module of the model");
  Unit& unit = units_[assignment_.unit_of_module[at(module)]];
  return unit.module == module ? &unit : nullptr;
}

UnitParameter& FullyShardEngine::parameter(ParameterId id) {
  return units_[assignment_.unit_of_parameter[at(id)]].parameters[slot_of_parameter_[at(id)]];
}

Status FullyShardEngine::expect(Stage stage, const char* call) const {
  if (stage_ == stage) return {};
  static constexpr const char* names[] = {"outside forward and backward", "in forward",
                                          "in backward"};
  return Status(Code::invalid_argument,
                fmt::format("{} was called {}, but belongs {}", call,
                            names[static_cast<int>(stage_)], names[static_cast<int>(stage)]));
}

Status FullyShardEngine::begin_forward() {
  TESSERA_TRY(expect(Stage::idle, "begin_forward"));
  stage_ = Stage::forward;
  phase_ = Phase::forward;
  TESSERA_TRY(mark(cause("", Reason::none), Mark::Kind::phase, compute_).status());
  // The gathers must see what the optimizer wrote.
  const Cause why = cause("root", Reason::order);
  TESSERA_TRY(wait_stream(copy_in_, compute_, why));
  return wait_stream(all_gather_, compute_, why);
}

Status FullyShardEngine::pre_forward(ModuleId module) {
  TESSERA_TRY(expect(Stage::forward, "pre_forward"));
  Unit* unit = unit_at(module);
  if (unit == nullptr) return {};
  TESSERA_TRY(unshard(*unit, Reason::needed));
  return wait_for_unshard(*unit);
}

Status FullyShardEngine::post_forward(ModuleId module) {
  TESSERA_TRY(expect(Stage::forward, "post_forward"));
  Unit* unit = unit_at(module);
  if (unit == nullptr) return {};
  if (unit->reshard_after_forward) TESSERA_TRY(reshard(*unit));
  unit->post_forward_indices.push_back(forward_order_.size());
  forward_order_.push_back(static_cast<std::size_t>(unit - units_.data()));
  const bool root = unit == &units_.front();
  if (root && last_gathered_) {
    TESSERA_TRY(free_gathered(*last_gathered_, cause(unit->name, Reason::free_memory)));
    last_gathered_.reset();
  }
  return {};
}

Status FullyShardEngine::begin_backward() {
  TESSERA_TRY(expect(Stage::forward, "begin_backward"));
  stage_ = Stage::backward;
  phase_ = Phase::backward;
  return mark(cause("", Reason::none), Mark::Kind::phase, compute_).status();
}

Status FullyShardEngine::pre_backward(ModuleId module) {
  TESSERA_TRY(expect(Stage::backward, "pre_backward"));
  Unit* unit = unit_at(module);
  if (unit == nullptr) return {};
  unit->in_backward = true;
  TESSERA_TRY(unshard(*unit, Reason::needed));
  TESSERA_TRY(wait_for_unshard(*unit));
  if (unit->post_forward_indices.empty()) return {};
  const std::size_t index = unit->post_forward_indices.back();
  unit->post_forward_indices.pop_back();
  return prefetch_before(index);
}

Status FullyShardEngine::post_backward(ModuleId module) {
  TESSERA_TRY(expect(Stage::backward, "post_backward"));
  Unit* unit = unit_at(module);
  if (unit == nullptr) return {};
  // A unit that ran several times in forward reduces after its last backward pass.
  if (!unit->post_forward_indices.empty()) return {};
  return reduce_gradients(*unit);
}

Status FullyShardEngine::end_backward() {
  TESSERA_TRY(expect(Stage::backward, "end_backward"));
  TESSERA_TRY(mark(cause("root", Reason::none), Mark::Kind::backward_finishing, compute_).status());
  for (Unit& unit : units_) {
    unit.post_forward_indices.clear();
    if (!unit.finished_backward) TESSERA_TRY(reduce_gradients(unit));
    unit.in_backward = unit.finished_backward = false;
  }
  TESSERA_TRY(finish_reduce());
  forward_order_.clear();
  stage_ = Stage::idle;
  ++micro_batch_;
  return {};
}

Status FullyShardEngine::check_unsharded(const ModuleWork& work) const {
  for (ParameterId id : assignment_.used_by[at(work.module)]) {
    const Unit& unit = units_[assignment_.unit_of_parameter[at(id)]];
    if (unit.unsharded) continue;
    return Status(
        Code::invalid_argument,
        fmt::format("module {} computes while its parameter {} is sharded: call {} for "
                    "unit {} first",
                    model_.module(work.module).path, model_.parameter(id).name,
                    stage_ == Stage::backward ? "pre_backward" : "pre_forward", unit.name));
  }
  return {};
}

Status FullyShardEngine::compute(const ModuleWork& work) {
  TESSERA_TRY(check_unsharded(work));
  const bool backward = work.pass == ModuleWork::Pass::backward;
  const Module& module = model_.module(work.module);
  Cause why = cause(units_[assignment_.unit_of_module[at(work.module)]].name,
                    work.pass == ModuleWork::Pass::recompute ? Reason::recompute : Reason::none);
  why.module = module.path;
  Compute what{.cost = work.cost, .reads = {}, .writes = {}, .body = work.body};
  what.cost.dtype = options_.param_dtype;
  for (ParameterId id : assignment_.used_by[at(work.module)]) {
    UnitParameter& p = parameter(id);
    what.reads.push_back(View::whole(p.unsharded, options_.param_dtype, p.layout.numel));
    if (!backward || !p.requires_grad) continue;
    Unit& unit = units_[assignment_.unit_of_parameter[at(id)]];
    TESSERA_TRY(allocate_gradient(unit, p));
    what.writes.push_back(View::whole(p.gradient, options_.param_dtype, p.layout.numel));
  }
  auto& stack = activations_[at(work.module)];
  auto whole = [](BufferId id, Bytes bytes) {
    return View::whole(id, DType::uint8, Numel{bytes.value});
  };
  BufferId temporary;
  if (work.temporary > Bytes{0}) {
    TESSERA_ASSIGN(temporary, allocate(module.path + ".temporary", work.temporary,
                                       MemoryClass::temporary, compute_, why));
    what.writes.push_back(whole(temporary, work.temporary));
  }
  if (!backward && work.saves > Bytes{0}) {
    TESSERA_ASSIGN(const BufferId saved, allocate(module.path + ".activations", work.saves,
                                                  MemoryClass::activations, compute_, why));
    what.writes.push_back(whole(saved, work.saves));
    stack.push_back(saved);
  }
  const bool uses_saved = backward && work.saves > Bytes{0} && !stack.empty();
  if (uses_saved) what.reads.push_back(whole(stack.back(), work.saves));
  TESSERA_ASSIGN(const EventId done, submit(compute_, why, std::move(what)));
  if (temporary.valid()) TESSERA_TRY(release(temporary, done));
  if (!uses_saved) return {};
  TESSERA_TRY(release(stack.back(), done));
  stack.pop_back();
  return {};
}

Status FullyShardEngine::keep_activations(ModuleId module, Bytes bytes) {
  Cause why = cause(units_[assignment_.unit_of_module[at(module)]].name, Reason::none);
  TESSERA_ASSIGN(const BufferId kept, allocate(model_.module(module).path + ".checkpoint", bytes,
                                               MemoryClass::activations, compute_, why));
  activations_[at(module)].push_back(kept);
  return {};
}

Status FullyShardEngine::free_activations(ModuleId module) {
  auto& stack = activations_[at(module)];
  if (stack.empty()) {
    return Status(Code::invalid_argument,
                  fmt::format("module {} keeps no activations", model_.module(module).path));
  }
  TESSERA_TRY(release(stack.back(), last_compute_));
  stack.pop_back();
  return {};
}

std::vector<UnitInfo> FullyShardEngine::units() const {
  std::vector<UnitInfo> infos;
  for (const Unit& unit : units_) {
    infos.push_back({std::string(unit.name), static_cast<std::int32_t>(unit.parameters.size()),
                     unit.layout.numel, unit.layout.padding});
  }
  return infos;
}

Result<std::unique_ptr<Engine>> fully_shard(Runtime& runtime, const Model& model,
                                            const FullyShardOptions& options) {
  auto engine = std::make_unique<FullyShardEngine>(runtime, model, options);
  TESSERA_TRY(engine->setup());
  return std::unique_ptr<Engine>(std::move(engine));
}

}  // namespace tessera
