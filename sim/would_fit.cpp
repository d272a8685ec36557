// SPDX-License-Identifier: Apache-2.0
// What would have made a run fit: single changes, each of them tried.
#include <fmt/format.h>

#include <algorithm>

#include "tessera/sim/simulate.h"

namespace tessera::sim {
namespace {

constexpr std::size_t enough = 3;
constexpr std::int32_t steps_to_peak = 2;  // the first step makes the optimizer's state

// From where on the whole of a step's memory is known, without what only traces and times need.
SimulateOptions quick(const SimulateOptions& options) {
  SimulateOptions out = options;
  out.steps = std::min(options.steps, steps_to_peak);
  out.sink = nullptr;
  out.recorded_ranks.clear();
  out.progress = nullptr;
  out.ends_when_full = true;
  return out;
}

class Trials {
 public:
  Trials(const Model& model, const SimulateOptions& options) : model_(model), options_(options) {}

  template <class Change>
  bool fits(Change&& change) const {
    if (options_.stopped && options_.stopped()) return false;
    SimulateOptions changed = quick(options_);
    change(changed);
    const auto summary = simulate(model_, changed);
    return summary.ok() && summary->fits;
  }
  /// Whether the run fits with `change`, which is remembered by its flags.
  template <class Change>
  bool tried(const std::string& flags, Change&& change) {
    if (found_.size() == enough || !fits(change)) return false;
    found_.push_back(flags);
    return true;
  }
  std::vector<std::string> found() const { return found_; }

 private:
  const Model& model_;
  const SimulateOptions& options_;
  std::vector<std::string> found_;
};

bool has_logits(const Model& model) {
  return std::any_of(model.modules.begin(), model.modules.end(),
                     [](const Module& m) { return m.cost.logits > 0; });
}

// Where parameters are sharded more ranks hold less each, whatever it is that takes the memory.
bool shards_parameters(const Scheme& scheme) {
  const auto* const fsdp1 = std::get_if<Fsdp1Options>(&scheme);
  if (fsdp1 != nullptr) return fsdp1->strategy != ShardingStrategy::no_shard;
  return std::holds_alternative<FullyShardOptions>(scheme) ||
         std::holds_alternative<Zero3Options>(scheme);
}

void checkpoint_all(SimulateOptions& o) {
  o.training.checkpointing = ActivationCheckpointing::full;
  o.training.checkpoint_every = 1;
  o.training.checkpoint_blocks.clear();
  o.training.recompute = {};
}

// All at once: if that is not enough, none of them is alone.
void least_of_a_batch(SimulateOptions& o) {
  o.training.batch = 1;
  checkpoint_all(o);
  o.stack.loss = StackProfile::Loss::chunked;
  if (o.stack.allocator == StackProfile::Allocator::pytorch) {
    o.stack.allocator = StackProfile::Allocator::expandable;
  }
}

void try_memory(Trials& trials, const Model& model, const SimulateOptions& options) {
  using Allocator = StackProfile::Allocator;
  using Loss = StackProfile::Loss;
  if (options.stack.allocator == Allocator::pytorch) {
    trials.tried("--allocator expandable (PyTorch's expandable_segments)",
                 [](SimulateOptions& o) { o.stack.allocator = Allocator::expandable; });
  }
  for (const Loss loss : {Loss::fused, Loss::chunked}) {
    if (loss <= options.stack.loss || !has_logits(model)) continue;
    const auto change = [&](SimulateOptions& o) { o.stack.loss = loss; };
    if (trials.tried(fmt::format("--loss {}", name_of(loss)), change)) break;
  }
}

void try_batches(Trials& trials, const SimulateOptions& options, bool checkpointed) {
  for (std::int64_t batch = options.training.batch / 2; batch > 0; batch /= 2) {
    const auto change = [&](SimulateOptions& o) {
      o.training.batch = batch;
      if (checkpointed) checkpoint_all(o);
    };
    const auto flags =
        fmt::format("{}--batch {}", checkpointed ? "--checkpointing full " : "", batch);
    if (trials.tried(flags, change)) return;
  }
}

// More nodes never hold more each, so that if the most do not help, none do.
void try_nodes(Trials& trials, const SimulateOptions& options) {
  constexpr std::int32_t most = 16;
  const auto on = [&](std::int32_t times) {
    return trials.tried(fmt::format("--nodes {}", options.cluster.nodes * times),
                        [times](SimulateOptions& o) { o.cluster.nodes *= times; });
  };
  if (on(2) || !trials.fits([](SimulateOptions& o) { o.cluster.nodes *= most; })) return;
  if (!on(4) && !on(8)) on(most);
}

}  // namespace

std::vector<std::string> what_would_fit(const Model& model, const SimulateOptions& options) {
  Trials trials(model, options);
  const TrainingOptions& training = options.training;
  const bool full = training.checkpointing == ActivationCheckpointing::full &&
                    training.checkpoint_every == 1 && training.checkpoint_blocks.empty();
  if (trials.fits(least_of_a_batch)) {
    try_memory(trials, model, options);
    if (!full) {
      trials.tried("--checkpointing full", [](SimulateOptions& o) { checkpoint_all(o); });
    }
    try_batches(trials, options, false);
    if (trials.found().empty() && !full) try_batches(trials, options, true);
    if (trials.found().empty()) {
      trials.tried("--batch 1 --checkpointing full --loss chunked", least_of_a_batch);
    }
  }
  if (shards_parameters(options.scheme)) {
    try_nodes(trials, options);
  } else {
    trials.tried("--scheme fully_shard", [](SimulateOptions& o) {
      const DType dtype = compute_dtype(o.scheme);
      o.scheme = FullyShardOptions{.param_dtype = dtype, .reduce_dtype = DType::float32};
    });
  }
  return trials.found();
}

}  // namespace tessera::sim
