// SPDX-License-Identifier: Apache-2.0
// Communication hooks of replicate: how a full bucket of gradients becomes their mean over ranks.
//
// The idea: the reducer fills buckets and says when one is complete; a hook may reduce it in any
// way, for instance in fewer bytes. With a hook the reducer does not divide by the number of ranks:
// the hook does.
//
//   ReplicateOptions options{.comm_hook = fp16_compress_hook()};
//
// A hook of your own: everything is queued on the communication stream in the order of the calls,
// so that backward goes on meanwhile. This one sums instead of averaging:
//
//   class SumHook final : public CommHook {
//     std::string_view name() const override { return "sum"; }
//     Result<EventId> reduce(const GradBucket& bucket, HookContext& context) override {
//       return context.all_reduce(bucket.values);
//     }
//   };
//
// Behaviour: torch/distributed/algorithms/ddp_comm_hooks; PowerSGD: Vogels et al., arXiv
// 1905.13727.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/engine.h"

namespace tessera {

/// A gradient inside a bucket.
struct BucketParameter {
  ParameterId id = {};
  std::string_view name = {};
  std::vector<std::int64_t> shape = {};
  Numel offset{};
  Numel numel{};
};

/// A bucket that holds every rank's own gradients.
struct GradBucket {
  std::size_t index = 0;  // in the order of reduction
  bool is_last = false;
  View values = {};  // all of it; its dtype is that of the gradients
  std::vector<BucketParameter> parameters = {};
};

/// The runtime as a hook may use it. Handles mean the same on every rank, joined ones included.
class HookContext {
 public:
  virtual ~HookContext() = default;

  /// Allocates a buffer, which lives until it is released, over many steps if need be.
  virtual Result<BufferId> allocate(const std::string& name, Bytes bytes) = 0;
  /// Releases the buffer after everything queued so far.
  virtual Status release(BufferId buffer) = 0;
  /// Queues a Copy or a Compute.
  virtual Result<EventId> submit(decltype(Op::what) what) = 0;
  /// Queues the sum over ranks, in place.
  virtual Result<EventId> all_reduce(const View& view) = 0;
  /// The number by which a sum is divided to get the mean: all ranks, or those with inputs left.
  virtual float divisor() const = 0;
};

class CommHook {
 public:
  virtual ~CommHook() = default;
  /// The hook's name in traces and messages.
  virtual std::string_view name() const = 0;
  /// Called when the hook is registered; an error refuses it.
  virtual Status attach() { return {}; }
  /// Called when the engine is destroyed: its buffers are out of reach.
  virtual void detach() {}
  /// Returns the event after which `bucket.values` holds the result on every rank. Called once per
  /// bucket and synchronised backward pass, in the order of buckets.
  virtual Result<EventId> reduce(const GradBucket& bucket, HookContext& context) = 0;
};

/// Divides, then sums over ranks.
std::shared_ptr<CommHook> allreduce_hook();
/// Casts to half as many bytes, divides, sums, casts back.
std::shared_ptr<CommHook> fp16_compress_hook();
std::shared_ptr<CommHook> bf16_compress_hook();

struct PowerSgdOptions {
  std::int32_t rank = 1;
  /// Synchronised backward passes before it compresses. Buckets are still rebuilt in the first two,
  /// and early gradients compress badly.
  std::int32_t start_iteration = 1000;
  /// A matrix of n x m is compressed if (n + m) * rank * this < n * m.
  double min_compression_rate = 2;
  bool error_feedback = true;  // what compression loses is added to the next gradient
  bool warm_start = true;      // iterations begin with the last Q instead of a random one
  std::uint64_t seed = 0;
};

/// Low-rank gradients: M ~ P Q^T. Three all-reduces a bucket: what is not worth compressing
/// (vectors always), all P, all Q. Keeps state, so it serves one engine at a time.
/// `attach` fails: invalid_argument, start_iteration <= 1 with error feedback or warm start, a rank
/// below 1, a second engine while the first one lives.
std::shared_ptr<CommHook> power_sgd_hook(const PowerSgdOptions& options = {});

/// Registers `hook` with an engine made by `replicate`, as ReplicateOptions::comm_hook does.
/// Fails: invalid_argument, if the engine has a hook, was made by another scheme or has run a
/// forward pass already; whatever the hook's `attach` does.
Status register_comm_hook(Engine& engine, std::shared_ptr<CommHook> hook);

}  // namespace tessera
