// SPDX-License-Identifier: Apache-2.0
// Reducing a bucket: every slice to the rank in whose part it lies (deepspeed stage_1_and_2.py:
// average_tensor).
#include "engine/numbers/arithmetic.h"
#include "engine/schemes/zero12/zero12_engine.h"
#include "tessera/assert.h"

namespace tessera {

Status Zero12Engine::reduce(PartBucket& bucket) {
  if (bucket.entries.empty()) return {};
  if (overlaps()) TESSERA_TRY(wait_stream(reduce_, compute_, cause("root", Reason::order)));
  const std::vector<OwnedSlice> slices = owned_slices(bucket.entries, flat_.layout.shard);
  TESSERA_ASSIGN(const View wire, divided(bucket));
  if (ranks_ > 1) TESSERA_TRY(communicate(wire, slices));
  TESSERA_TRY(keep(wire, slices));
  TESSERA_ASSIGN(bucket.reduced,
                 mark(cause("root", Reason::reduce_gradients), marks::gradients_sharded, reduce_));
  BufferId buffer = wire.buffer;
  if (buffer != bucket.buffer) TESSERA_TRY(release(buffer, bucket.reduced));
  bucket.entries.clear();
  bucket.numel = {};
  return {};
}

// The view that is sent: the bucket itself, or its copy in another dtype.
Result<View> Zero12Engine::divided(const PartBucket& bucket) {
  const View values = View::part(bucket.buffer, param_dtype(), Numel{0}, bucket.numel);
  View wire = values;
  // As in DeepSpeed the cast comes first: the division is done in the dtype that is sent.
  if (reduce_dtype() != param_dtype()) {
    const Cause why = cause("root", Reason::copy_in);
    TESSERA_ASSIGN(const BufferId cast,
                   allocate("reduce_bucket.cast", bytes_of(bucket.numel, reduce_dtype()),
                            MemoryClass::reduce_buffers, reduce_, why));
    wire = View::whole(cast, reduce_dtype(), bucket.numel);
    TESSERA_TRY(submit(reduce_, why, Copy{.pieces = {{.from = values, .to = wire}}}).status());
  }
  if (ranks_ == 1) return wire;
  TESSERA_TRY(
      submit(reduce_, cause("root", Reason::divide), divide(wire, static_cast<float>(ranks_)))
          .status());
  return wire;
}

Status Zero12Engine::communicate(const View& wire, const std::vector<OwnedSlice>& slices) {
  const Cause why = cause("root", Reason::reduce_gradients);
  TESSERA_TRY(wait_stream(nccl_, reduce_, cause("root", Reason::order)));
  if (options_.reduce_scatter) {
    for (const OwnedSlice& slice : slices) {
      const View own = View::part(wire.buffer, wire.dtype, slice.offset, slice.numel);
      TESSERA_TRY(
          submit(nccl_, why, Reduce{world_, own, own, Reduction::sum, slice.owner}).status());
    }
  } else {
    TESSERA_TRY(submit(nccl_, why, AllReduce{world_, wire, wire, Reduction::sum}).status());
  }
  TESSERA_TRY(wait_stream(reduce_, nccl_, cause("root", Reason::order)));
  // To all but the owner a slice means nothing.
  return submit(reduce_, cause("root", Reason::free_memory), declare_read({wire})).status();
}

// Zeros at first: what nobody uses has the gradient zero.
Status Zero12Engine::open_part() {
  if (part_.valid()) return {};
  const Cause why = cause("root", Reason::copy_out);
  const Numel numel = flat_.layout.shard;
  TESSERA_ASSIGN(part_,
                 allocate("gradient_part", bytes_of(numel, param_dtype()),
                          offloads() ? MemoryClass::pinned_host : MemoryClass::sharded_gradients,
                          reduce_, why, home()));
  const View none{.dtype = param_dtype(), .numel = numel};
  const View all = View::whole(part_, param_dtype(), numel);
  return submit(
             reduce_, why,
             Copy{.pieces = {{.from = none, .to = all}}, .route = *route_between(home(), home())})
      .status();
}

// The device adds: what was there comes back, and leaves again (deepspeed stage_1_and_2.py:
// async_accumulate_grad_in_cpu_via_gpu).
Status Zero12Engine::add_on_host(const RankSet& owner, const View& fresh, const View& there) {
  const Cause why = cause("root", Reason::offload);
  // Of the stream that uses it, on the rank that does.
  TESSERA_ASSIGN(BufferId sum, runtime_.allocate({.bytes = bytes_of(there.numel, there.dtype),
                                                  .memory = Memory::device,
                                                  .memory_class = MemoryClass::reduce_buffers,
                                                  .stream = reduce_,
                                                  .where = owner,
                                                  .cause = why,
                                                  .name = "gradient_part.sum"}));
  const View here = View::whole(sum, there.dtype, there.numel);
  TESSERA_TRY(
      submit_on(owner, reduce_, why,
                Copy{.pieces = {{.from = there, .to = here}}, .route = CopyRoute::to_device})
          .status());
  TESSERA_TRY(
      submit_on(owner, reduce_, cause("root", Reason::accumulate), add(fresh, here)).status());
  TESSERA_ASSIGN(const EventId back, submit_on(owner, reduce_, why,
                                               Copy{.pieces = {{.from = here, .to = there}},
                                                    .route = CopyRoute::to_host}));
  return release_on(owner, sum, back);
}

// The owner copies what it got into its part, or adds it to that of earlier micro-batches.
Status Zero12Engine::keep(const View& wire, const std::vector<OwnedSlice>& slices) {
  TESSERA_TRY(open_part());
  for (const OwnedSlice& slice : slices) {
    TESSERA_ASSERT(slice.owner < ranks_, "every element of the flat range is in somebody's part");
    const RankSet owner = RankSet::single(slice.owner);
    Copy copy{.index_in = {}, .pieces = {}, .route = *route_between(Memory::device, home())};
    for (const OwnedPiece& piece : slice.pieces) {
      const View from = View::part(wire.buffer, wire.dtype, piece.offset, piece.numel);
      const View to = View::part(part_, param_dtype(), piece.in_part, piece.numel);
      if (at(piece.parameter).has_gradient && offloads()) {
        TESSERA_TRY(add_on_host(owner, from, to));
      } else if (at(piece.parameter).has_gradient) {
        const Cause why = cause("root", Reason::accumulate);
        TESSERA_TRY(submit_on(owner, reduce_, why, add(from, to)).status());
      } else {
        copy.pieces.push_back({.from = from, .to = to});
      }
    }
    if (copy.pieces.empty()) continue;
    TESSERA_TRY(submit_on(owner, reduce_,
                          cause("root", offloads() ? Reason::offload : Reason::copy_out),
                          std::move(copy))
                    .status());
  }
  // Only now: a parameter that two ranks share has a slice with each, and both are its first.
  for (const OwnedSlice& slice : slices) {
    for (const OwnedPiece& piece : slice.pieces) at(piece.parameter).has_gradient = true;
  }
  return {};
}

}  // namespace tessera
