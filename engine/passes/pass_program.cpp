// SPDX-License-Identifier: Apache-2.0
#include "engine/passes/pass_program.h"

#include <algorithm>

#include "engine/model/path_pattern.h"
#include "engine/model/tree_builder.h"
#include "engine/model/used_by.h"

namespace tessera {
namespace {

// Leaves the modules of `open` that are not ancestors of `next`, then enters those that are.
template <class Leave, class Enter>
Status move(std::vector<ModuleId>& open, std::span<const ModuleId> next, Leave&& leave,
            Enter&& enter) {
  std::size_t common = 0;
  while (common < open.size() && common < next.size() && open[common] == next[common]) ++common;
  while (open.size() > common) {
    const ModuleId last = open.back();
    open.pop_back();
    TESSERA_TRY(leave(last));
  }
  for (std::size_t k = common; k < next.size(); ++k) {
    TESSERA_TRY(enter(next[k]));
    open.push_back(next[k]);
  }
  return {};
}

}  // namespace

PassProgram::PassProgram(Engine& engine, const Model& model, const std::string& graph)
    : engine_(engine),
      model_(model),
      graph_(graph),
      forward_(*model.find_graph(graph)),
      flow_(model, forward_),
      used_(used_by(model)),
      reads_(reads_of_containers(model)),
      said_(reads_of_containers(model, /*own=*/false)),
      frozen_(model, used_),
      ready_(ready_orders(model, used_)) {
  for (ModuleId id : forward_) chains_.push_back(chain(id));
  kept_open_.assign(forward_.size(), model.modules.size());
  for (const Revisit& revisit : model.revisits(graph)) {
    std::size_t& kept = kept_open_[revisit.entry];
    kept = std::min(kept, chain(revisit.module).size() - 1);
  }
  std::int32_t blocks = 0;
  for (const Module& m : model.modules) {
    outputs_.push_back(m.outputs);
    blocks_.push_back(blocks);
    blocks += m.is_block ? 1 : 0;
  }
  for (const ParameterUse& use : model.returns) {
    outputs_[use.module.index()] += model.parameter(use.parameter).requires_grad ? 1 : 0;
  }
}

std::vector<ModuleId> PassProgram::chain(ModuleId id) const {
  std::vector<ModuleId> out;
  for (ModuleId m = id; m.valid(); m = module(m).parent) out.push_back(m);
  std::reverse(out.begin(), out.end());
  return out;
}

// The open modules between an entry and the one that comes `next` to it, in either direction: the
// ancestors of the entry. The entry itself is left, so that a module that runs twice in a row gets
// post_forward and pre_forward in between; so is a container that begins again.
std::span<const ModuleId> PassProgram::above(std::size_t entry, std::size_t next) const {
  const std::span<const ModuleId> whole = chains_[entry];
  const std::size_t ancestors = whole.size() - (whole.size() > 1 ? 1 : 0);
  const std::size_t later = std::max(entry, next);
  return whole.first(later < kept_open_.size() ? std::min(ancestors, kept_open_[later])
                                               : ancestors);
}

ModuleId PassProgram::block_of(ModuleId id) const {
  while (id.valid() && !module(id).is_block) id = module(id).parent;
  return id;
}

bool PassProgram::checkpointed(ModuleId id) const {
  if (options_->checkpointing == ActivationCheckpointing::none) return false;
  const ModuleId block = block_of(id);
  return block.valid() && chosen_[block.index()] &&
         blocks_[block.index()] % options_->checkpoint_every == 0;
}

Status PassProgram::choose(const std::vector<std::string>& blocks) {
  if (!chosen_.empty() && blocks == chosen_by_) return {};
  TESSERA_ASSIGN(chosen_, blocks_named(model_, blocks));
  chosen_by_ = blocks;
  return {};
}

// What is computed again in backward is used at once.
bool PassProgram::offloads(ModuleId id, Pass pass) const {
  const ModuleId block = block_of(id);
  return block.valid() && blocks_[block.index()] < options_->offload_activations &&
         pass != Pass::recompute;
}

// What checkpointing keeps of a block's or a module's own activations beside the block's input.
Bytes PassProgram::remembered(ModuleId id) const {
  if (options_->checkpointing != ActivationCheckpointing::operators || !checkpointed(id)) return {};
  const Module& m = module(id);
  Bytes sum = per_batch(kept_operators(m.cost));
  if (m.is_block) {
    for (ModuleId child : m.children) sum += remembered(child);
  }
  return sum;
}

Bytes PassProgram::unneeded(ModuleId id, const ModuleCost& cost) const {
  if (frozen_.trained(id) == 1) return {};
  return per_batch(per_token(unneeded_inputs(cost, frozen_.linears(id), options_->kept)));
}

Recomputed PassProgram::not_kept(ModuleId id) const {
  if (!options_->recompute.any()) return {};
  return recomputed(module(id).cost, options_->recompute, options_->kept);
}

// What backward needs of a module and forward did not keep.
Status PassProgram::compute_again(std::size_t entry) {
  const ModuleId id = forward_[entry];
  const Recomputed part = not_kept(id);
  if (part.again.kernels == 0 || options_->memory) return {};  // bodies do it in their backward
  ModuleWork out = priced(entry, Pass::recompute, part.again);
  out.saves = {};  // backward counts them as its own temporary memory
  return engine_.compute(out);
}

// Matrices of 4-bit numbers become 16-bit ones before they are multiplied, one at a time: four from
// each element, with a float32 scale for every 64 (QLoRA, Dettmers et al. 2023, section 3).
void PassProgram::unpack(ModuleId id, ModuleWork& out) const {
  constexpr double read = 2 + 4.0 * 4 / 64, written = 4 * 2;
  const FrozenShare::Packed& packed = frozen_.packed(id);
  out.cost.elementwise_bytes += packed.all * (read + written);
  out.cost.kernels += packed.matrices;
  out.temporary += Bytes{static_cast<std::int64_t>(packed.largest * written)};
}

Bytes PassProgram::per_batch(const Polynomial& bytes) const {
  return Bytes{static_cast<std::int64_t>(bytes.at(options_->sequence_length)) * options_->batch};
}

// What a pass over an entry costs a model that is known by costs, by those of `cost`.
ModuleWork PassProgram::priced(std::size_t entry, Pass pass, const ModuleCost& cost) const {
  const ModuleId id = forward_[entry];
  const auto s = options_->sequence_length;
  const auto batch = static_cast<double>(options_->batch);
  const bool backward = pass == Pass::backward;
  ModuleWork out{.module = id, .pass = pass, .on_device = options_->on_device};
  // The gradients of the input and of those weights that are trained.
  const double passes = backward ? 1 + frozen_.trained(id) : 1;
  out.cost.matmul_flops = cost.matmul_flops.at(s) * batch * passes;
  out.cost.attention_flops = attention_flops(cost, s) * batch * (backward ? 2.5 : 1);
  out.cost.elementwise_bytes = cost.elementwise_bytes.at(s) * batch * (backward ? 2 : 1);
  if (backward) out.cost.elementwise_bytes += cost.backward_bytes;
  out.cost.kernels = cost.kernels * (backward ? 2 : 1);
  const std::vector<bool>& trained = frozen_.linears(id);
  const bool known = !backward || trained.size() == cost.linears.size();
  if (known) add_kernels(out.cost, cost, pass, options_->batch, s, trained);
  out.saves = per_batch(cost.activation_bytes) - remembered(id) - unneeded(id, cost);
  if (backward) {  // the gradients of what was saved
    out.temporary = out.saves - per_batch({0, cost.in_place, 0});
  }
  const Bytes again = per_batch(per_token(not_kept(id).bytes));
  out.saves -= again;
  if (backward) out.temporary += again;
  unpack(id, out);
  if (!frozen_.saves(id)) out.saves = {};
  const bool needed = backward || pass == Pass::recompute || !checkpointed(id);
  if (!keeps() || !needed || !flow_.runs_backward(entry)) out.saves = {};
  out.offloads = offloads(id, pass);
  return out;
}

ModuleWork PassProgram::work(std::size_t entry, Pass pass) const {
  const ModuleId id = forward_[entry];
  ModuleWork out = priced(entry, pass, module(id).cost);
  if (pass == Pass::recompute && options_->checkpointing == ActivationCheckpointing::operators) {
    skip_kept_operators(out.cost);
  }
  if (options_->memory) {
    ModuleMemory memory = options_->memory(id, pass);
    const bool needed = pass == Pass::backward || pass == Pass::recompute || !checkpointed(id);
    const bool saves = keeps() && needed && flow_.runs_backward(entry);
    out.saves = saves ? memory.saves : Bytes{};
    out.temporary = memory.temporary;
    out.workspace = std::move(memory.workspace);
    if (pass == Pass::backward) {
      add_cost(out.cost, priced(entry, Pass::recompute, not_kept(id).again).cost);
    }
  }
  if (computes()) out.body = options_->body(id, pass, micro_batch_);
  if (options_->repeated) out.repeated = options_->repeated(id, pass);
  const bool copies = known_by_costs() && !options_->sums_in_place;
  if (pass == Pass::backward && copies) out.summed = summed_by(id);
  return out;
}

// Only where costs stand for a framework's program: bodies compute a module as one.
bool PassProgram::ends_in_loss(std::size_t entry) const {
  const ModuleId id = forward_[entry];
  return module(id).cost.logits > 0 && known_by_costs() && !checkpointed(id);
}

bool PassProgram::known_by_costs() const {
  return !options_->memory && !options_->body && !options_->repeated;
}

// Tied parameters: autograd keeps the gradient of a use until that of the next one is there, and
// adds both into a new tensor (torch 2.15; also without a dispatch mode).
std::vector<ParameterId> PassProgram::summed_by(ModuleId id) const {
  std::vector<ParameterId> summed;
  for (ParameterId p : used_[id.index()]) {
    const bool left = uses_left_[p.index()] < uses_[p.index()];
    if (left && model_.parameter(p).requires_grad) summed.push_back(p);
  }
  return summed;
}

ModuleWork PassProgram::layer(std::size_t entry, Pass pass) const {
  const LossParts parts = loss_parts(module(forward_[entry]).cost);
  ModuleWork out = priced(entry, pass, parts.layer);
  if (pass != Pass::backward) return out;
  // The logits' gradient, which the loss has left behind.
  const double logits = element * parts.loss.logits;
  out.temporary += per_batch(per_token(std::min(logits, parts.loss.activation_bytes.linear)));
  return out;
}

ModuleWork PassProgram::loss(std::size_t entry, Pass pass) const {
  ModuleWork out = priced(entry, pass, loss_parts(module(forward_[entry]).cost).loss);
  out.no_parameters = true;
  return out;
}

// Bodies compute the modules that are listed, and nothing with what a container has itself.
const std::vector<ParameterId>& PassProgram::reads(ModuleId container) const {
  return (options_->body ? said_ : reads_)[container.index()];
}

// A container (a module that no graph lists) has no entry in which to read parameters, so it reads
// them when it is entered, before its children run, at the cost of one pass over them.
Status PassProgram::read(ModuleId container, Pass pass) {
  const auto& read = reads(container);
  if (read.empty()) return {};
  ModuleWork out{.module = container, .pass = pass, .on_device = options_->on_device, .only = read};
  for (ParameterId id : read) {
    const Parameter& p = model_.parameter(id);
    out.cost.elementwise_bytes += static_cast<double>(bytes_of(p.numel(), p.dtype).value);
  }
  if (computes()) out.body = options_->body(container, pass, micro_batch_);
  return engine_.compute(out);
}

Status PassProgram::enter_forward(ModuleId id) {
  TESSERA_TRY(engine_.pre_forward(id));
  TESSERA_TRY(read(id, forward_pass()));
  for (ParameterId p : reads(id)) ++uses_left_[p.index()];
  const bool kept = module(id).is_block && checkpointed(id) && keeps() && flow_.out_of(id);
  return kept ? engine_.keep_activations(block_input(id, Pass::forward)) : Status{};
}

ModuleWork PassProgram::block_input(ModuleId block, Pass pass) const {
  ModuleWork out{.module = block, .pass = pass, .on_device = options_->on_device};
  out.saves = per_batch(module(block).checkpoint_bytes) + remembered(block);
  out.offloads = offloads(block, pass);
  if (!options_->memory) return out;
  ModuleMemory own = options_->memory(block, pass);
  out.saves = own.saves;
  out.workspace = std::move(own.workspace);
  out.cost.elementwise_bytes = 2 * static_cast<double>(out.saves.value);
  if (options_->body) out.body = options_->body(block, pass, micro_batch_);
  return out;
}

Status PassProgram::compute_forward(std::size_t entry) {
  if (ends_in_loss(entry)) {
    TESSERA_TRY(engine_.compute(layer(entry, forward_pass())));
    TESSERA_TRY(engine_.compute(loss(entry, forward_pass())));
  } else {
    TESSERA_TRY(engine_.compute(work(entry, forward_pass())));
  }
  if (!flow_.runs_backward(entry)) return {};
  for (ParameterId p : used_[forward_[entry].index()]) ++uses_left_[p.index()];
  return {};
}

Status PassProgram::forward(const TrainingOptions& options, ForwardPass::Use use,
                            std::int32_t micro_batch) {
  TESSERA_TRY(choose(options.checkpoint_blocks));
  options_ = &options;
  open_.clear();  // an earlier pass may have failed
  use_ = use;
  micro_batch_ = micro_batch;
  uses_left_.assign(model_.parameters.size(), 0);
  auto enter = [this](ModuleId id) { return enter_forward(id); };
  auto leave = [this](ModuleId id) { return engine_.post_forward(id); };
  TESSERA_TRY(engine_.next_forward({use, graph_}));
  TESSERA_TRY(engine_.begin_forward());
  for (std::size_t k = 0; k < forward_.size(); ++k) {
    TESSERA_TRY(move(open_, chains_[k], leave, enter));
    TESSERA_TRY(compute_forward(k));
    TESSERA_TRY(move(open_, above(k, k + 1), leave, enter));
  }
  return move(open_, {}, leave, enter);
}

// Runs the forward pass of a checkpointed block again, when backward enters it. A block may be
// visited several times, so only the entries of the visit that ends at `last` are repeated: those
// before it that lie in the block without a gap. A block that is an entry itself is a visit of one
// entry.
Status PassProgram::recompute(ModuleId block, std::size_t last) {
  std::size_t first = last;
  auto inside = [&](std::size_t k) {
    return std::find(chains_[k].begin(), chains_[k].end(), block) != chains_[k].end();
  };
  const auto& again = model_.revisits(graph_);
  while (forward_[last] != block && first > 0 && inside(first - 1) &&
         !model_.begins_again(again, first, block)) {
    --first;
  }
  auto enter = [this](ModuleId id) -> Status {
    TESSERA_TRY(engine_.pre_forward(id));
    return read(id, Pass::recompute);
  };
  auto leave = [this](ModuleId id) { return engine_.post_forward(id); };
  const std::vector<ModuleId> outside = chain(module(block).parent);
  std::vector<ModuleId> open = outside;
  TESSERA_TRY(engine_.recompute_begin(block));
  TESSERA_TRY(engine_.restore_activations(block_input(block, Pass::recompute)));
  for (std::size_t k = first; k <= last; ++k) {
    TESSERA_TRY(move(open, chains_[k], leave, enter));
    TESSERA_TRY(engine_.compute(work(k, Pass::recompute)));
    if (k < last) TESSERA_TRY(move(open, above(k, k + 1), leave, enter));
  }
  TESSERA_TRY(move(open, outside, leave, enter));
  return engine_.recompute_end(block);
}

// A parameter's gradient is complete when backward has passed all its uses, of which the first in
// forward order is the last; `uses_left_` counts them.
Status PassProgram::gradients_ready(const std::vector<ParameterId>& used) {
  for (const ParameterId p : used) {
    TESSERA_ASSERT(uses_left_[p.index()] > 0, "backward visits what forward has used, as often");
    if (--uses_left_[p.index()] > 0) continue;
    if (model_.parameter(p).requires_grad) TESSERA_TRY(engine_.grad_ready(p));
  }
  return {};
}

// A hook fires for every output of a module that needs a gradient, as torch registers one on each
// tensor; schemes that act once per module ignore the others.
Status PassProgram::enter_backward(ModuleId id, std::size_t entry) {
  for (std::int32_t k = 0; k < outputs_[id.index()]; ++k) TESSERA_TRY(engine_.pre_backward(id));
  return module(id).is_block && checkpointed(id) ? recompute(id, entry) : Status{};
}

Status PassProgram::leave_backward(ModuleId id) {
  if (!reads(id).empty()) {
    TESSERA_TRY(read(id, Pass::backward));
    TESSERA_TRY(gradients_ready({reads(id).rbegin(), reads(id).rend()}));
  }
  if (module(id).is_block && checkpointed(id)) TESSERA_TRY(engine_.free_activations(id));
  return engine_.post_backward(id);
}

// The mirror of the forward walk. It ends at the first entry that has no backward pass: everything
// before it is frozen, so autograd has no graph there and no hook fires.
Status PassProgram::backward() {
  TESSERA_ASSERT(options_ != nullptr, "forward comes before backward");
  std::size_t k = forward_.size();
  auto enter = [&](ModuleId id) { return enter_backward(id, k); };
  auto leave = [this](ModuleId id) { return leave_backward(id); };
  TESSERA_TRY(engine_.begin_backward());
  uses_ = uses_left_;
  while (k > 0 && flow_.runs_backward(k - 1)) {
    const ModuleId id = forward_[--k];
    // The program computes the loss outside of the model, so no hook has fired by then.
    const bool apart = ends_in_loss(k);
    if (apart) TESSERA_TRY(engine_.compute(loss(k, Pass::backward)));
    TESSERA_TRY(move(open_, chains_[k], leave, enter));
    TESSERA_TRY(compute_again(k));
    TESSERA_TRY(engine_.compute(apart ? layer(k, Pass::backward) : work(k, Pass::backward)));
    TESSERA_TRY(gradients_ready(ready_[id.index()]));
    TESSERA_TRY(move(open_, above(k, k > 0 ? k - 1 : k), leave, enter));
  }
  TESSERA_TRY(move(open_, {}, leave, enter));
  return engine_.end_backward();
}

}  // namespace tessera
