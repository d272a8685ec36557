// SPDX-License-Identifier: Apache-2.0
// Gradients of one backward pass: collected in the order in which they are ready, reduce-scattered
// together, and given to who keeps them (deepspeed stage3.py:
// reduce_independent_p_g_buckets_and_remove_grads, partition_grads; coalesced_collectives.py).
#pragma once

#include <deque>
#include <vector>

#include "engine/schemes/zero3/reduce/gradient_partitions.h"
#include "engine/schemes/zero3/zero_plus_plus/quantized_reduce.h"

namespace tessera {

class ReduceBucket {
 public:
  /// All must outlive it.
  ReduceBucket(Operations& operations, const Zero3Facts& facts, OnDemandParameters& parameters,
               GradientPartitions& kept)
      : operations_(operations),
        facts_(facts),
        parameters_(parameters),
        kept_(kept),
        quantized_(operations, facts) {}

  /// The bucket's memory, as large as it can ever be used.
  Status allocate();
  Status release(EventId after);

  void begin_backward();
  /// The view to which backward adds the gradient: allocated the first time.
  Result<View> view(ParameterId id);
  /// It is complete, and reduced with others of the bucket. Fails: invalid_argument, the second
  /// time in a pass.
  Status ready(ParameterId id);
  /// Those of `ids` that are trained and got no gradient in this pass get zeros.
  Status fill_missing(const std::vector<ParameterId>& ids);
  /// Reduces the rest, also what is ready though nobody said so. The host waits, as in DeepSpeed.
  Status finish();

 private:
  using Members = std::vector<OnDemandParameter*>;

  struct Gradient {
    BufferId fresh;        // of this backward pass
    View bucketed;         // where it is while it waits for its reduction
    bool reduced = false;  // in this pass, or waits for it
  };
  // A bucket whose parts are not with those of earlier micro-batches yet.
  struct Reduced {
    Members bucket;
    View scattered;
    EventId after;  // none: the reducing stream has waited for it
  };

  Gradient& at(ParameterId id) { return gradients_[id.index()]; }
  Cause cause(std::string_view unit, Reason reason) const {
    return operations_.cause(unit, reason);
  }
  Result<EventId> note(std::string_view unit, Reason reason);
  Status add(OnDemandParameter& p);
  Status reduce();
  Status reduce_together(const Members& bucket);
  Result<View> pack(const Members& bucket, Numel partition);
  Status scatter(const Members& bucket, const View& packed, Numel partition);
  Result<EventId> collect(const Members& bucket, const View& packed, const View& scattered,
                          const Cause& why);
  bool keeps_later(const View& packed) const;
  Result<EventId> keep_reduced();

  Operations& operations_;
  const Zero3Facts& facts_;
  OnDemandParameters& parameters_;
  GradientPartitions& kept_;
  QuantizedReduce quantized_;
  std::vector<Gradient> gradients_;  // by ParameterId
  BufferId buffer_;
  std::vector<ParameterId> members_;
  Numel numel_{};  // of the members
  std::deque<EventId> ongoing_;
  Reduced unkept_;
};

}  // namespace tessera
