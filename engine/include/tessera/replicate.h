// SPDX-License-Identifier: Apache-2.0
// replicate / DDP: every rank keeps the whole model; gradients are averaged in buckets, each
// all-reduced as soon as its last gradient is there, while backward goes on.
//
// The idea: buckets of a capped size trade latency against overlap. After the first step they are
// rebuilt in the order in which gradients really became ready.
//
//   ReplicateOptions options{.bucket_cap = Bytes{50 << 20}, .gradient_as_bucket_view = true};
//   TESSERA_ASSIGN(auto engine, replicate(runtime, model, options));
//
// Where PyTorch asks for a device or a device list there is the Runtime: every rank has one device.
// Gradients belong to the engine, so none can be replaced by something that is
// no view of its bucket. All ranks run one program, so they cannot disagree about parameters.
//
// Behaviour: torch/csrc/distributed/c10d/reducer.cpp (Li et al., arXiv 2006.15704, section 3.2.3).
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tessera/comm_hook.h"
#include "tessera/engine.h"
#include "tessera/rank_set.h"

namespace tessera {

struct Recording;

struct ReplicateOptions {
  /// A bucket is closed when it reaches this, 25 MiB if it is not given [bucket_cap_mb].
  std::optional<Bytes> bucket_cap = {};
  /// The same for the bucket that is reduced first. Not given: `bucket_cap`, and 1 MiB if that is
  /// not given either, as in PyTorch 2.15.
  std::optional<Bytes> first_bucket_cap = {};
  /// The caps of the first buckets, one each, in the order of reduction; the last one is that of
  /// all others. Instead of the two above [bucket_cap_mb_list].
  std::vector<Bytes> bucket_caps = {};
  bool find_unused_parameters = false;   // unused parameters count as ready; no rebuilding
  bool gradient_as_bucket_view = false;  // gradients live in the buckets: no second copy
  bool static_graph = false;             // the first step reduces at its end and counts uses
  bool init_sync = true;                 // checks and broadcasts the model when it is set up
  bool broadcast_buffers = true;         // rank 0's at each forward that follows a synced one
  /// Paths of modules whose parameters and buffers, and all below, are left alone: they stay local.
  /// A parameter that is tied to one of them is left alone, too. Name here what is sharded.
  std::vector<std::string> ignored_modules = {};
  /// Consecutive ranks that train one model together; 0: all. Groups train on their own
  /// [process_group, device_mesh].
  Index group_size = 0;
  /// Any other groups instead, equally large; ranks that are in none do nothing at all.
  std::optional<RankGroups> groups = {};
  DType dtype = DType::float32;  // parameters, gradients and optimizer state
  /// Instead of `dtype`: every parameter has the model's own, and buckets are of one dtype each.
  bool own_dtypes = false;
  std::shared_ptr<CommHook> comm_hook = {};  // how buckets are reduced; none: mean over ranks
};

/// The result of torch's compute_bucket_assignment_by_size.
struct BucketAssignment {
  std::vector<std::vector<std::size_t>> buckets;  // indices of tensors
  std::vector<Bytes> limits;                      // per bucket; 0: sparse
};
struct BucketTensor {
  Bytes bytes{};
  DType dtype = DType::float32;
  bool sparse = false;  // a sparse gradient: a bucket of its own
};
/// Tensors are appended in the given order, apart per dtype; a bucket that reaches its limit is
/// closed and the next limit applies, the last one repeatedly. `indices` name the tensors and keep
/// the order of the buckets; without them buckets are sorted by their smallest index.
/// REQUIRES: !limits.empty(); indices empty or one per tensor.
BucketAssignment assign_buckets(const std::vector<BucketTensor>& tensors,
                                const std::vector<Bytes>& limits,
                                const std::vector<std::size_t>& indices = {});

/// Replicates `model` on all ranks of `runtime`, both must outlive the engine. A backward pass that
/// leaves a parameter without gradient fails at the next begin_forward, naming it, unless
/// find_unused_parameters is set. Fails: invalid_argument (no trained parameter, an ignored module
/// that does not exist, a cap below 1 byte, process groups of several sizes or of ranks that there
/// are not, own_dtypes where all are `dtype`, an engine that drives
/// `model` on `runtime` already, replicated or sharded, a hook that refuses), naming it;
/// out_of_memory.
Result<std::unique_ptr<Engine>> replicate(Runtime& runtime, const Model& model,
                                          const ReplicateOptions& options);

/// As ReplicateOptions::static_graph, for an engine that exists.
/// Fails: invalid_argument, if another scheme made it or it has run a forward pass already.
Status set_static_graph(Engine& engine);

/// A recording as PyTorch's reducer logs it: ready gradients and all-reduced buckets.
std::vector<std::string> to_ddp_notation(const Recording& recording);

}  // namespace tessera
