// SPDX-License-Identifier: Apache-2.0
// ZeRO stage 3: every parameter is cut into equal parts, one per rank, and gathered module by
// module right before the module runs.
//
// The idea: the order in which modules run is known, because the last step had it; so it is known
// what to gather ahead and what to keep. A `policy` decides:
//
// - strict, the default: gathered parameters never cost more than `live_budget` bytes. Missing ones
//   are gathered in the order of need, as far ahead as the budget reaches; what makes room is what
//   is used last. Before anything was recorded `Model::forward` says what to expect. Orders of
//   earlier passes stay known: one that runs otherwise than expected goes on with the one that
//   began alike, or takes up the expected one further behind.
// - compatible: what DeepSpeed 0.9.0 does (below). The first step records; a step that runs
//   otherwise throws the record away: the rest of it gathers on demand, the next step records, the
//   one after that gathers ahead again.
// - compatible-0.19 (compatible_0_19): what DeepSpeed 0.19.8 does. One record for training and
//   evaluation, which starts over when a forward pass begins; what still flies then, at a step or
//   where a record is thrown away is freed, and so is what no hook freed at the end of backward.
//
//   Zero3Options options{.prefetch_bucket = Numel{50'000'000}};
//   TESSERA_ASSIGN(auto engine, zero3(runtime, model, options));
//
// Partitions. Rank r holds elements [r * p, (r + 1) * p) of each parameter, p = ceil(n / W);
// the last ranks hold padding. A module needs its own parameters, those tied to it and those
// registered with it; one that `Model::forward` names as a whole needs all below it.
//
// When a parameter is there. Not available -> in flight (pre_forward, pre_backward or ahead of
// them) -> available (the module waits) -> not available. strict: freed when the last module that
// the pass still needs it for is left, at the latest when the pass ends (or kept for the
// next one, if the last step had another micro-batch there); small ones
// (`persistence_threshold`, together at most a quarter of the budget) stay until `step`.
// compatible: freed in post_forward and post_backward, if no other module needs it. Kept
// nevertheless: what the record says is used again within `max_reuse_distance` elements, and from
// the second step on what is persistent. post_backward frees nothing if no input of the module
// needs a gradient, as the hook that would do so never runs; `step` frees the rest.
//
// Why something is there: `live` says it for each parameter, the marks gathered_for and kept_for
// say it in the trace.
//
// A parameter of another module is gathered for whom touches it first, and fetched with that module
// from then on; one that a module returns is fetched with the module around it. A leaf module is
// fetched and freed with all below it, whatever of that runs: gradients of what did not run in it
// are zeros, so ranks whose experts differ reduce the same.
//
// Forward passes without backward go on with the recorded order of training, which they thereby
// break; those in evaluation have an order of their own (Engine::next_forward).
//
// Gradients. In the order in which they are ready they are copied into one bucket; before it would
// overflow, and at the end of backward, it is divided by W and reduce-scattered. Every micro-batch
// does so: only partitions of gradients are kept, so `set_requires_gradient_sync(false)` changes
// nothing.
//
// Offloading (tessera/offload.h). Partitions of parameters in host memory or on NVMe are copied
// straight to their place in the gathered copy. strict reads partitions from NVMe ahead of the
// budget, one read at a time, into as many buffers as there are; only the gather that needs one
// waits for it. Gradients go to host memory as they are reduced, and the CPU steps sub-groups there
// while the device steps those that stay (`ratio`). After an error of a drive (io_error) training
// ends, but every partition is what it was before the step or after it and can be inspected.
//
// The order of `compatible` is that of DeepSpeed 0.9.0
// (deepspeed/runtime/zero/partitioned_param_coordinator.py, parameter_offload.py,
// partition_parameters.py, stage3.py), what one may call its faults included: the limit of live
// parameters is only asked before gathering ahead, and a large prefetch bucket keeps whole models
// gathered. Not as there: a buffer is used again by order and not by timing, so gathers follow the
// frees before them; without mixed precision there is no second copy of shards that live with their
// masters.
#pragma once

#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tessera/engine.h"
#include "tessera/offload.h"
#include "tessera/rank_set.h"
#include "tessera/zero_plus_plus.h"

namespace tessera {

struct Recording;

/// The rule of what is gathered and kept when: see `zero3`.
enum class Zero3Policy : std::uint8_t { strict, compatible, compatible_0_19 };

/// Names in brackets: the keys of DeepSpeed's `zero_optimization`, whose defaults these are.
struct Zero3Options {
  Zero3Policy policy = Zero3Policy::strict;
  /// strict: gathered parameters never cost more device memory. None: max_live_parameters in bytes,
  /// or twice what the largest module needs, if that is more.
  std::optional<Bytes> live_budget = {};
  /// Elements to gather ahead at once; 0: none [stage3_prefetch_bucket_size].
  Numel prefetch_bucket{50'000'000};
  /// Keeps what is used again within so many elements [stage3_max_reuse_distance].
  Numel max_reuse_distance{1'000'000'000};
  /// Nothing more is gathered ahead beyond this [stage3_max_live_parameters].
  Numel max_live_parameters{1'000'000'000};
  /// Parameters up to this stay gathered [stage3_param_persistence_threshold] ...
  Numel persistence_threshold{100'000};
  /// ... as long as they are not more than this together [stage3_model_persistence_threshold].
  Numel model_persistence_threshold{std::numeric_limits<std::int64_t>::max()};
  /// Elements of the gradient bucket [reduce_bucket_size].
  Numel reduce_bucket{500'000'000};
  /// The optimizer steps shards in groups of about so many elements [sub_group_size].
  Numel sub_group_size{1'000'000'000};
  /// Paths and classes of leaf modules [leaf_module]; no parameter is gathered for a module in
  /// them.
  /// "*.experts" names all whose path ends so.
  std::vector<std::string> leaf_modules = {};
  /// Modules of up to so many elements per module with parameters in them, themselves included, are
  /// leaf modules, outer ones first; 0: none. Not containers and what holds more than 1e9 elements
  /// [stage3_module_granularity_threshold].
  Numel module_granularity{};
  /// MiCS (arXiv 2205.00119): so many neighbouring ranks hold all partitions together, and gather
  /// and reduce among themselves; 0: all ranks [mics_shard_size]. Groups add their partitions of
  /// gradients up once a step, before they are clipped or stepped.
  Index shard_group = 0;
  /// Consecutive ranks that train one model together; 0: all. Groups train on their own, as the
  /// data-parallel groups of a model-parallel job do [mpu].
  Index group_size = 0;
  /// Any other groups instead, equally large; ranks that are in none do nothing at all. Neither
  /// goes with MiCS or with ZeRO++'s groups of nodes.
  std::optional<RankGroups> groups = {};
  Offload offload_param = {};
  Offload offload_optimizer{.buffer_count = 4};
  Aio aio = {};
  DType param_dtype = DType::float32;  // gathered parameters and gradients; masters are float32
  std::optional<DType> reduce_dtype =
      {};  // reduce_scatter [communication_data_type]; as param_dtype
  ZeroPlusPlus plus_plus = {};
};

/// A parameter that has device memory for its gathered copy, and why.
struct LiveParameter {
  enum class Reason : std::uint8_t {
    active,      // a module needs it now
    prefetched,  // gathered ahead of `visit`
    kept,        // from an earlier use to `visit`
    persistent,  // small
    left_over,   // nothing known needs it
  };
  std::string name;
  Bytes bytes{};  // of its copy; its share of a gather's buffer is not in it
  Reason reason = Reason::active;
  std::string module;       // that needs it, now or at `visit`; "root"
  std::int32_t visit = -1;  // of this pass, counted on into the next, as in the trace

  std::string why() const;  // "kept for visit 12, of module model.layers.3"
};

/// The cut of one parameter.
struct PartitionedParameter {
  std::string name;
  Numel numel{};
  Numel partition{};  // per rank, padding included
  bool persistent = false;
  std::int32_t sub_group = -1;   // of the optimizer; -1: frozen
  Memory home = Memory::device;  // where the partition lives
};

/// The functions that Zero3 has besides those of every Engine.
class Zero3 : public virtual Engine {
 public:
  /// `module` needs `parameter` of another module, too: it is fetched and released with both
  /// (register_external_parameter). Between steps. Fails: invalid_argument (no such parameter; or,
  /// for the second, not registered), naming both.
  virtual Status register_external_parameter(ModuleId module, ParameterId parameter) = 0;
  virtual Status unregister_external_parameter(ModuleId module, ParameterId parameter) = 0;
  /// In forward, before it reads `parameter`: the module that runs now touches it. Found
  /// partitioned, it is registered with that module and gathered while the host waits. `compute`
  /// does so for what its work concerns. Fails: invalid_argument (no module runs).
  virtual Status touch(ParameterId parameter) = 0;
  /// In forward, before its post_forward: the module that runs now returns `parameter` (a dangling
  /// parameter; Model::returns says so beforehand). It is registered with the module around it and
  /// stays gathered until the step. Fails: invalid_argument (no module runs, or only the root).
  virtual Status return_parameter(ParameterId parameter) = 0;
  /// Frees all that is gathered, persistent or not, between passes (empty_partition_cache): what is
  /// needed next is gathered anew. Fails: invalid_argument (in forward or backward; compatible: if
  /// parameters still fly after a forward pass without backward).
  virtual Status partition_all_parameters() = 0;

  /// By ParameterId.
  virtual std::vector<PartitionedParameter> parameters() const = 0;

  /// Everything that is gathered now, by ParameterId.
  virtual std::vector<LiveParameter> live() const = 0;
  /// Device bytes that gathered parameters cost now: copies with their padding and the buffers of
  /// gathers; what memory accounts call unsharded_parameters and all_gather_buffers.
  virtual Bytes live_bytes() const = 0;
  /// strict: what `live_bytes` never exceeds. compatible: none.
  virtual std::optional<Bytes> live_budget() const = 0;
};

/// Partitions `model` over all ranks of `runtime`. Both must outlive the engine.
/// Fails: invalid_argument (a size below its smallest value, a leaf module that is none), naming
/// it; out_of_memory.
/// strict: also if a module needs more than the budget at once, naming it, both sizes and the
/// smallest budget that works; so does register_external_parameter.
/// compatible: calls fail with invalid_argument where DeepSpeed raises: a pass ends with parameters
/// still in flight ("still have inflight params"), what a module needs differs from the record
/// ("tracing error"), a gradient is ready twice ("already been reduced").
Result<std::unique_ptr<Zero3>> zero3(Runtime& runtime, const Model& model,
                                     const Zero3Options& options);

/// A recording in the notation of runs recorded with DeepSpeed 0.9.0. `parameters` of the engine.
std::vector<std::string> to_deepspeed_notation(const Recording& recording,
                                               std::span<const PartitionedParameter> parameters);

}  // namespace tessera
