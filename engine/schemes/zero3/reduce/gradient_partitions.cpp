// SPDX-License-Identifier: Apache-2.0
#include "engine/schemes/zero3/reduce/gradient_partitions.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "engine/numbers/arithmetic.h"
#include "engine/schemes/zero3/gather/partitions.h"

namespace tessera {

// As in DeepSpeed the buffers exist from the start, and keep their places over steps.
Status GradientPartitions::allocate() {
  slices_.assign(parameters_.size(), {});
  std::array<Numel, memory_count> used{};
  for (const OnDemandParameter& p : parameters_) {
    if (!p.trained) continue;
    Numel& end = used[static_cast<std::size_t>(p.shard.memory)];
    slice(p.id).place = end;
    end += p.partition;
  }
  for (std::size_t m = 0; m < used.size(); ++m) {
    if (used[m] == Numel{0}) continue;
    TESSERA_ASSIGN(
        buffers_[m],
        allocate_in(operations_, facts_, static_cast<Memory>(m), "gradient_partitions",
                    bytes_of(used[m], facts_.param_dtype()), MemoryClass::sharded_gradients,
                    operations_.cause("root", Reason::none)));
  }
  return {};
}

Status GradientPartitions::release(EventId after) {
  TESSERA_ASSERT(!any(), "gradients that wait for a step are not thrown away");
  for (BufferId& buffer : buffers_) {
    if (buffer.valid()) TESSERA_TRY(operations_.release(buffer, after));
  }
  return {};
}

bool GradientPartitions::any() const {
  return std::any_of(slices_.begin(), slices_.end(), [](const Slice& s) { return s.filled; });
}

View GradientPartitions::view(const OnDemandParameter& p) const {
  return View::part(buffer(p.shard.memory), facts_.param_dtype(), slice(p.id).place, p.partition);
}

// The device adds: what was there comes back, and leaves again.
Status GradientPartitions::add_on_host(const OnDemandParameter& p, const View& fresh) {
  const Cause why = operations_.cause(p.shard.unit, Reason::accumulate);
  const StreamId stream = facts_.reduce;
  TESSERA_ASSIGN(BufferId sum, operations_.allocate(p.shard.name + ".grad_sum",
                                                    bytes_of(p.partition, facts_.param_dtype()),
                                                    MemoryClass::reduce_buffers, stream, why));
  const View there = view(p);
  const View here = View::whole(sum, facts_.param_dtype(), p.partition);
  TESSERA_TRY(
      operations_
          .submit(stream, why,
                  Copy{.pieces = {{.from = there, .to = here}}, .route = CopyRoute::to_device})
          .status());
  TESSERA_TRY(operations_.submit(stream, why, add(fresh, here)).status());
  TESSERA_ASSIGN(
      const EventId back,
      operations_.submit(
          stream, why, Copy{.pieces = {{.from = here, .to = there}}, .route = CopyRoute::to_host}));
  return operations_.release(sum, back);
}

// Copied in the first micro-batch that has one, added in later ones.
Status GradientPartitions::keep(const std::vector<OnDemandParameter*>& bucket,
                                const View& reduced) {
  const std::string_view unit = bucket.front()->shard.unit;
  std::vector<RoutedBlocks> pieces;
  Numel offset{};
  for (const OnDemandParameter* p : bucket) {
    const View from = View::part(reduced.buffer, facts_.reduce_dtype(), offset, p->partition);
    const View to = view(*p);
    TESSERA_ASSERT(p->trained && to.buffer.valid(), "what is reduced is trained, and has a place");
    const bool host = p->shard.memory != Memory::device;
    offset += p->partition;
    if (!std::exchange(slice(p->id).filled, true)) {
      pieces.push_back(
          {host ? CopyRoute::to_host : CopyRoute::on_device, {.from = from, .to = to}});
    } else if (host) {
      TESSERA_TRY(add_on_host(*p, from));
    } else {
      const Cause why = operations_.cause(unit, Reason::accumulate);
      TESSERA_TRY(operations_.submit(facts_.reduce, why, add(from, to)).status());
    }
  }
  TESSERA_ASSERT(offset == reduced.numel, "the slices of a bucket are all that was reduced");
  return operations_
      .copy_by_route(facts_.reduce, operations_.cause(unit, Reason::copy_out), {}, pieces)
      .status();
}

// Up to the last slice that has something: the rest is nobody's.
Status GradientPartitions::add_replicas() {
  Numel numel{};
  for (const OnDemandParameter& p : parameters_) {
    if (has(p.id)) numel = std::max(numel, slice(p.id).place + p.partition);
  }
  if (!facts_.replicas.valid() || added_ || numel == Numel{0}) return {};
  added_ = true;
  TESSERA_ASSERT(buffer(Memory::device).valid(), "MiCS keeps gradients on the device");
  const Cause order = operations_.cause("root", Reason::order);
  const View all = View::part(buffer(Memory::device), facts_.param_dtype(), Numel{0}, numel);
  // Slices were added on the reducing stream; of those that have nothing the compute stream may
  // still read what the step before left there.
  TESSERA_TRY(operations_.wait_stream(facts_.nccl, facts_.reduce, order));
  TESSERA_TRY(operations_.wait_stream(facts_.nccl, facts_.compute, order));
  TESSERA_ASSIGN(
      const EventId reduced,
      operations_.submit(facts_.nccl, operations_.cause("root", Reason::reduce_gradients),
                         AllReduce{facts_.replicas, all, all, Reduction::sum}));
  return operations_.wait_event(facts_.compute, reduced, operations_.cause("root", Reason::needed));
}

Status GradientPartitions::expect_not_added() const {
  if (!added_) return {};
  return Status(
      Code::invalid_argument,
      fmt::format("gradients of groups of {} ranks were added up already, for a norm or a "
                  "scale: step before the next backward pass",
                  facts_.ranks));
}

void GradientPartitions::forget() {
  for (Slice& slice : slices_) slice.filled = false;
  added_ = false;
}

}  // namespace tessera
