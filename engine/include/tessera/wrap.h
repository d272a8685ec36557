// SPDX-License-Identifier: Apache-2.0
// Wrapping: which modules become sharding units, decided by a policy or named by hand.
//
// The idea: a plan is a value. A policy looks at the module tree and gives a list of units; nothing
// is allocated or replaced, so a plan can be printed, compared and refused before a run begins.
//
//   WrapOptions options{.ignored_modules = {"vision_tower"}};
//   TESSERA_ASSIGN(WrapPlan plan,
//                  plan_wrapping(model, ClassWrap{{"LlamaDecoderLayer"}}, options));
//   for (const WrapUnit& unit : plan.units) use(model.module(unit.module).path, unit.parameters);
//
// By hand, as a module's constructor would do it:
//
//   WrapContext context(model);
//   TESSERA_ASSIGN(const auto scope, context.enable_wrap({.mixed_precision = true}));
//   TESSERA_TRY(context.wrap("encoder"));
//   TESSERA_TRY(context.wrap("norm", {.mixed_precision = false}));
//   TESSERA_ASSIGN(WrapPlan plan, context.plan({}));
//
// Behaviour: torch/distributed/fsdp/wrap.py and _wrap_utils.py, with three differences. A module
// under two names is replaced under both (torch leaves the second name raw). What a unit overrides
// never reaches another unit (torch shares one dict). Context state belongs to an object (torch
// keeps it in the process).
//
// Terms: a unit manages the parameters below its module that no unit nested in it manages. The
// root always is a unit. Modules and parameters are objects: under however many names they are
// registered, they are met, counted and wrapped once.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "tessera/model.h"

namespace tessera {

/// Settings of one unit; those that are unset are the scheme's. FSDP1 knows the first two,
/// fully_shard all.
struct UnitOverrides {
  std::optional<bool> mixed_precision = {};  // false: full precision although the root's is mixed
  std::optional<bool> reshard_after_forward = {};
  std::optional<bool> offload_params = {};  // the unit's shards live in host memory
  /// Of gathered parameters, of reductions; they say more than mixed_precision does.
  std::optional<DType> param_dtype = {}, reduce_dtype = {};
  /// The unit's mesh: so many consecutive ranks shard it, replicas between them. 0: all ranks
  /// shard it; 1: every rank has it whole (torch `replicate` beside `fully_shard`).
  std::optional<Index> shard_group = {};
  /// Instead of reshard_after_forward: shards of a smaller group from forward to backward; 0: no.
  std::optional<Index> reshard_group = {};

  bool empty() const { return *this == UnitOverrides{}; }
  bool operator==(const UnitOverrides&) const = default;
};

/// `base`, except where `stronger` says something.
UnitOverrides overridden(UnitOverrides base, const UnitOverrides& stronger);

// Policies are values. Two engines run them, as in torch, and they differ in what they visit.
//
// Recursive (torch `_recursive_wrap`): from the root down, a policy is asked whether to descend
// into a module, given the elements below it; on the way back, whether to wrap it, given the
// elements that no unit below it took. A module that is not descended into is not wrapped either.
// The root is only asked whether to descend.
//
// Listing (torch `_Policy`): a policy is asked once about every module, the root first.

/// Every module. Recursive.
struct AlwaysWrap {};

// Classes match those that derive from them, too, where the model says so (Model::class_bases).

/// Modules of these classes. Listing.
struct ClassWrap {
  std::set<std::string> classes = {};
};

/// Modules of these classes (torch `transformer_auto_wrap_policy`). Recursive.
struct TransformerWrap {
  std::set<std::string> classes = {};
};

/// Modules that `wraps` says yes to. Recursive; descends everywhere.
struct LambdaWrap {
  std::function<bool(const Module&)> wraps;
};

/// What a function says, which sees all that a policy sees (torch: any callable as
/// `auto_wrap_policy`): a module, whether the question is to descend into it (`recurse`) or to wrap
/// it, and the elements below it that are not wrapped yet. Recursive.
struct FunctionWrap {
  std::function<bool(const Module&, bool recurse, Numel nonwrapped)> decides;
};

/// Modules with at least `min_num_params` elements that are not wrapped yet. Recursive; does not
/// descend into smaller modules and into `force_leaf`, does not wrap `exclude`.
struct SizeWrap {
  Numel min_num_params{100'000'000};
  std::set<std::string> force_leaf = {"MultiheadAttention"};
  std::set<std::string> exclude = {"ModuleList", "ModuleDict"};
};

/// No, yes, or yes with overrides of the root's; empty overrides mean no, as in torch.
using WrapChoice = std::variant<bool, UnitOverrides>;

/// Asks `choose` about every module that is not ignored, once, in pre-order. Listing.
struct CustomWrap {
  std::function<WrapChoice(const Module&)> choose;
};

struct WrapPolicy;

/// Descends and wraps if any of `policies` would. Recursive; CustomWrap cannot be a part.
struct AnyOfWrap {
  std::vector<WrapPolicy> policies;
};

struct WrapPolicy : std::variant<AlwaysWrap, ClassWrap, TransformerWrap, LambdaWrap, FunctionWrap,
                                 SizeWrap, CustomWrap, AnyOfWrap> {
  using variant::variant;
};

/// A unit of a plan.
struct WrapUnit {
  ModuleId module;
  UnitOverrides overrides;              // the root's, then the policy's or those given by hand
  std::vector<std::string> aliases;     // further names of the module, replaced with the first one
  std::vector<ParameterId> parameters;  // what it manages, pre-order, every tensor once
};

struct WrapPlan {
  std::vector<WrapUnit> units;  // pre-order, the root first: the same on all ranks
  std::vector<ParameterId> ignored;
  std::vector<std::string> warnings;  // one sentence each
};

struct WrapOptions {
  /// Settings of the root. Every unit starts from a copy of them.
  UnitOverrides root = {};
  /// Paths. They and all modules below are not wrapped, their parameters not managed.
  std::vector<std::string> ignored_modules = {};
  /// Either module paths, which mean the same, or parameter names, which are not managed.
  std::vector<std::string> ignored_states = {};
  /// With root.mixed_precision on, modules of these classes become units with it off.
  std::set<std::string> full_precision_classes = {"BatchNorm1d", "BatchNorm2d", "BatchNorm3d",
                                                  "SyncBatchNorm"};
  /// Flat parameters are trained or frozen as a whole (torch use_orig_params=False). Off: a unit
  /// that mixes both is only warned about.
  bool uniform_requires_grad = false;
  /// A plan that is applied to the model already. Must outlive the call.
  const WrapPlan* earlier = nullptr;
};

/// The units that `policy` makes of `model`.
///
/// Fails with invalid_argument, naming the culprit:
/// - an earlier plan has units: a model is wrapped automatically once;
/// - a class that no module has, a policy without its function, AnyOfWrap of none or of CustomWrap;
/// - ignored_modules and ignored_states together, ignored_states of both kinds, a name that is
///   neither module nor parameter;
/// - a tensor, or a module that is no unit, with users in different units;
/// - a unit with trained and frozen parameters, if uniform_requires_grad.
///
/// Warns about: an ignored root; a unit with trained and frozen parameters; classes that became
/// units of full precision; a policy that wraps nothing below the root.
Result<WrapPlan> plan_wrapping(const Model& model, const WrapPolicy& policy,
                               const WrapOptions& options);

/// The paths of the blocks that `policy` chooses, for TrainingOptions::checkpoint_blocks: what
/// torch `apply_activation_checkpointing` wraps, whose check_fn is a LambdaWrap. No block: an empty
/// list would mean all, so that is refused. Fails: invalid_argument (the policy, as plan_wrapping;
/// CustomWrap; it chooses nothing), not_supported (a module that is no block: blocks are
/// checkpointed as a whole), naming it.
Result<std::vector<std::string>> checkpointed_blocks(const Model& model, const WrapPolicy& policy);

/// A plan as a file says it, so that every program that is given the file shards alike:
///
///   {"tessera_plan": 1,
///    "units": [{"modules": "layers.*", "param_dtype": "bfloat16"},
///              {"class": "Embedding", "shard_group": 1},
///              {"modules": "", "reshard_after_forward": true}],
///    "ignored_parameters": []}
///
/// An entry names modules by a path, in which * stands for any text without a dot and ** for any,
/// or by their class; "" is the root, which is a unit anyway. All other keys are those of
/// UnitOverrides; of several entries for a module the later ones say more. Comments are allowed.
/// Fails: invalid_argument, naming `source`, the entry and the key; what WrapContext refuses.
Result<WrapPlan> read_wrap_plan(std::string_view text, const std::string& source,
                                const Model& model);

/// The same as text, an entry for each unit.
std::string to_json(const WrapPlan& plan, const Model& model);

/// Wrapping by hand: enable_wrap() and wrap() of torch. Not thread-safe; contexts are independent
/// of each other.
class WrapContext {
 public:
  /// Ends the context's scope when it is destroyed.
  struct EndScope {
    void operator()(WrapContext* context) const { context->enabled_ = false; }
  };
  using Scope = std::unique_ptr<WrapContext, EndScope>;

  /// `model` must outlive the context.
  explicit WrapContext(const Model& model);
  ~WrapContext();
  WrapContext(const WrapContext&) = delete;
  WrapContext& operator=(const WrapContext&) = delete;

  /// Until the scope ends, wrap() makes units, which start from `defaults`. The context must
  /// outlive the scope. Fails: not_supported, in another scope of this context.
  Result<Scope> enable_wrap(const UnitOverrides& defaults = {});

  /// Makes the module at `path` a unit. Of settings given several times, the module's own
  /// (override_module) beat `overrides`, which beat the scope's. Outside a scope nothing happens.
  /// Fails: invalid_argument (no such module, a unit already, below a unit made before it).
  Status wrap(std::string_view path, const UnitOverrides& overrides = {});

  /// Settings that the module at `path` insists on (torch `_wrap_overrides`), for later wrap()
  /// calls, in or outside a scope. Fails: invalid_argument (no such module).
  Status override_module(std::string_view path, const UnitOverrides& overrides);

  /// The units so far, and the root. Fails and warns as plan_wrapping, of which it takes the same
  /// options; and with invalid_argument for an ignored module that contains a unit.
  Result<WrapPlan> plan(const WrapOptions& options) const;

 private:
  struct Tree;

  const Model& model_;
  std::unique_ptr<Tree> tree_;
  bool enabled_ = false;
  UnitOverrides defaults_;
  std::map<ModuleId, UnitOverrides> units_;
  std::map<ModuleId, UnitOverrides> insisted_;
};

}  // namespace tessera
