// SPDX-License-Identifier: Apache-2.0
// After a step every rank gets all parts (deepspeed runtime/utils.py: all_gather_dp_groups).
#include <algorithm>

#include "engine/numbers/arithmetic.h"
#include "engine/schemes/zero12/zero12_engine.h"
#include "tessera/assert.h"

namespace tessera {

// Parts were written by each rank for itself.
Status Zero12Engine::refresh() {
  TESSERA_TRY(gather_parts());
  return frozen_.value.valid() ? gather(frozen_) : Status{};
}

Status Zero12Engine::gather_parts() {
  if (offloads()) {
    TESSERA_TRY(bring_part());
    return gather(flat_);
  }
  const Numel part = flat_.layout.shard;
  Copy cast{.index_in = shard_groups().shard, .pieces = {}};
  cast.pieces.push_back({.from = View::whole(flat_.shard.value, DType::float32, part),
                         .to = View::shard(flat_.value, param_dtype(), part, ranks_)});
  TESSERA_TRY(submit(compute_, cause("root", Reason::copy_out), std::move(cast)).status());
  return gather(flat_);
}

// From host memory, in the dtype of parameters: the CPU casts before, so that fewer bytes cross.
Status Zero12Engine::bring_part() {
  const Numel part = flat_.layout.shard;
  const View master = View::whole(flat_.shard.value, DType::float32, part);
  View from = master;
  BufferId cast;
  const Cause why = cause("root", Reason::offload);
  if (param_dtype() != DType::float32) {
    TESSERA_TRY(wait_stream(host_, compute_, cause("root", Reason::order)));
    TESSERA_ASSIGN(cast, allocate("parameters.cast", bytes_of(part, param_dtype()),
                                  MemoryClass::pinned_host, host_, why, Memory::pinned_host));
    from = View::whole(cast, param_dtype(), part);
    TESSERA_TRY(submit(host_, cause("root", Reason::copy_out),
                       Copy{.pieces = {{.from = master, .to = from}}, .route = CopyRoute::on_host})
                    .status());
    TESSERA_TRY(wait_stream(compute_, host_, cause("root", Reason::needed)));
  }
  Copy move{.index_in = shard_groups().shard, .pieces = {}, .route = CopyRoute::to_device};
  move.pieces.push_back(
      {.from = from, .to = View::shard(flat_.value, param_dtype(), part, ranks_)});
  TESSERA_ASSIGN(const EventId there, submit(compute_, why, std::move(move)));
  return cast.valid() ? release(cast, there) : Status{};
}

// In place if it goes into one bucket; pieces of parts lie apart and have to be copied out.
Status Zero12Engine::gather(FlatBuffer& flat) {
  if (ranks_ == 1) return {};
  TESSERA_ASSERT(flat.value.valid(), "what is gathered exists");
  const Numel part = flat.layout.shard;
  const std::int64_t pieces =
      std::max<std::int64_t>(1, flat.layout.padded().value / options_.allgather_bucket.value);
  if (pieces == 1) {
    const Cause why = cause("root", Reason::step);
    const View all = View::whole(flat.value, param_dtype(), flat.layout.padded());
    TESSERA_TRY(wait_stream(nccl_, compute_, cause("root", Reason::order)));
    const View own = View::shard(flat.value, param_dtype(), part, ranks_);
    TESSERA_TRY(submit(nccl_, why, AllGather{world_, own, all}).status());
    TESSERA_TRY(wait_stream(compute_, nccl_, cause("root", Reason::needed)));
    return submit(compute_, cause("root", Reason::needed), declare_read({all})).status();
  }
  // Pieces begin at even elements: NCCL wants 4 bytes, which are two elements of fp16.
  const std::int64_t even = part.value / pieces / 2 * 2;
  const Numel piece{std::max<std::int64_t>(2, even)};
  Numel done{};
  for (std::int64_t k = 1; done < part; ++k) {
    const Numel numel = k == pieces ? part - done : std::min(piece, part - done);
    TESSERA_TRY(gather_piece(flat, done, numel));
    done += numel;
  }
  return {};
}

Status Zero12Engine::gather_piece(const FlatBuffer& flat, Numel first, Numel numel) {
  const Cause why = cause("root", Reason::step);
  const Numel all = numel * ranks_;
  TESSERA_ASSIGN(BufferId gathered, allocate("allgather_bucket", bytes_of(all, param_dtype()),
                                             MemoryClass::all_gather_buffers, compute_, why));
  View own = View::shard(flat.value, param_dtype(), flat.layout.shard, ranks_);
  own.first = first;
  own.numel = numel;
  TESSERA_TRY(wait_stream(nccl_, compute_, cause("root", Reason::order)));
  TESSERA_TRY(submit(nccl_, why, AllGather{world_, own, View::whole(gathered, param_dtype(), all)})
                  .status());
  TESSERA_TRY(wait_stream(compute_, nccl_, cause("root", Reason::needed)));
  View from = View::part(gathered, param_dtype(), Numel{0}, numel);
  from.end = all;
  View to = View::part(flat.value, param_dtype(), first, numel);
  to.end = flat.layout.padded();
  CopyBlocks out{.from = from, .to = to, .count = ranks_};
  out.from_pitch = numel;
  out.to_pitch = flat.layout.shard;
  TESSERA_ASSIGN(const EventId copied,
                 submit(compute_, cause("root", Reason::copy_out), Copy{.pieces = {out}}));
  return release(gathered, copied);
}

}  // namespace tessera
