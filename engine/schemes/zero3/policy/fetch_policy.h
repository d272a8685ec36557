// SPDX-License-Identifier: Apache-2.0
// Who decides which parameters are gathered when, and how long they stay.
//
// The idea: the engine says what the model does now; a policy answers with gathers and frees of a
// ParameterMover, which carries them out and knows nothing of plans.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "engine/schemes/zero3/on_demand_parameter.h"
#include "tessera/zero3.h"

namespace tessera {

/// What a policy may see and do.
class ParameterMover {
 public:
  /// By ModuleId, each in ascending order.
  using Needs = std::vector<std::vector<ParameterId>>;

  virtual ~ParameterMover() = default;
  virtual const Model& moved_model() const = 0;
  /// May change between passes.
  virtual const Needs& needs() const = 0;
  virtual std::span<OnDemandParameter> moved() = 0;  // by ParameterId
  virtual std::span<const OnDemandParameter> moved() const = 0;

  /// Starts one all_gather of parameters that are not available.
  virtual Status gather(std::vector<ParameterId> missing, Reason reason) = 0;
  /// Device bytes that gathered parameters cost now, buffers of gathers included.
  virtual Bytes live_bytes() const = 0;
  /// What the end of gathers that fly will need besides.
  virtual Bytes promised() const = 0;
  /// The most that one gather of these needs at any time, its end included.
  virtual Bytes gather_bytes(std::span<const ParameterId> parameters) const = 0;
  /// What stays of it.
  virtual Bytes gathered_bytes(ParameterId parameter) const = 0;
  /// Parameters that fly are there when it returns: the stream of gathers waits for them. False:
  /// it did not fly.
  virtual Result<bool> arrive(OnDemandParameter& p) = 0;
  /// A parameter that flies will not be used.
  virtual Status drop(OnDemandParameter& p) = 0;
  /// Partitions may be written: what was dropped has read them.
  virtual Status settle() = 0;
  /// Its partition is on NVMe, and no read of it is under way or done.
  virtual bool reads_drive(const OnDemandParameter& p) const = 0;
  virtual std::int32_t free_swap_buffers() const = 0;
  /// Reads into buffers what will be gathered next, in this order.
  virtual Status read_ahead(const std::vector<ParameterId>& next) = 0;
  /// compatible: it is not kept for `p` any more.
  virtual Status release_swap_buffer(const OnDemandParameter& p) = 0;
  /// The module's work waits for all gathers so far, or only for `arrived`.
  virtual Status hand_over(ModuleId module) = 0;
  virtual Status hand_over(ModuleId module, std::span<const EventId> arrived) = 0;
  /// After the youngest work of the model.
  virtual EventId worked() const = 0;
  /// Frees what is available and needed by no module.
  virtual Status free(OnDemandParameter& p) = 0;
  /// Gathers what is persistent, one by one; the host waits.
  virtual Status gather_persistent() = 0;
  /// The same for any that are not available.
  virtual Status gather_now(const std::vector<ParameterId>& missing, Reason reason) = 0;
  /// From now on `module` needs `parameter`, too. Fails: what FetchPolicy::check fails with.
  virtual Status add_need(ModuleId module, ParameterId parameter) = 0;
  virtual Status wait(EventId event) = 0;

  virtual Status note(ModuleId module, Mark mark) = 0;
  virtual Status note(const OnDemandParameter& p, Mark mark) = 0;
  virtual Status note(Mark mark) = 0;  // of the root
};

class FetchPolicy {
 public:
  virtual ~FetchPolicy() = default;

  /// Before the first pass, and when modules need more. Fails: invalid_argument, where the options
  /// cannot work.
  virtual Status check() { return {}; }
  virtual Status begin_forward(const ForwardPass& pass) = 0;
  virtual Status pre_forward(ModuleId module, bool recomputing) = 0;
  /// `module` did its work in forward; `trains`: with parameters that need gradients.
  virtual void ran(ModuleId /*module*/, bool /*trains*/) {}
  virtual Status post_forward(ModuleId module, bool recomputing) = 0;
  /// In forward: `module`, which runs, reads `p`, perhaps no need of it.
  virtual Status touch(ModuleId module, OnDemandParameter& p) = 0;
  virtual Status begin_backward() { return {}; }
  virtual Status pre_backward(ModuleId module) = 0;
  virtual Status post_backward(ModuleId module) = 0;
  /// Of backward, or of a forward pass in evaluation.
  virtual Status end_pass() = 0;
  /// A forward pass in training mode is over that gets no backward.
  virtual Status drop_forward() { return {}; }
  /// Values are about to change, or have changed: frees everything.
  virtual Status before_step() = 0;
  virtual Status after_step() { return {}; }
  virtual Status values_changed() = 0;
  /// Other parameters are trained than before.
  virtual void graph_changed() {}
  virtual std::vector<LiveParameter> live() const = 0;
  virtual std::optional<Bytes> budget() const { return {}; }
};

std::unique_ptr<FetchPolicy> make_compatible_policy(ParameterMover& mover,
                                                    const Zero3Options& options);
std::unique_ptr<FetchPolicy> make_strict_policy(ParameterMover& mover, const Zero3Options& options);

}  // namespace tessera
