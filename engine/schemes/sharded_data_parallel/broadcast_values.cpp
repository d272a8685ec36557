// SPDX-License-Identifier: Apache-2.0
// Values that all ranks must agree on: the model when it is set up, buffers before forward, and
// after the optimizer what each owner has stepped.
#include "engine/numbers/arithmetic.h"
#include "engine/schemes/sharded_data_parallel/owner_engine.h"
#include "tessera/assert.h"

namespace tessera {

std::vector<View> OwnerEngine::buffer_views() const {
  std::vector<View> views;
  for (std::size_t k = 0; k < module_buffers_.size(); ++k) {
    const Numel bytes{model_.buffers[k].bytes().value};
    if (bytes > Numel{0}) views.push_back(View::whole(module_buffers_[k], DType::uint8, bytes));
  }
  return views;
}

// The host program may look at any element from now on.
Status OwnerEngine::use(const std::vector<View>& views) {
  TESSERA_TRY(wait_stream(compute_, comm_, cause("root", Reason::needed)));
  return submit(compute_, cause("root", Reason::needed), declare_read(views)).status();
}

Status OwnerEngine::broadcast_in_place(const std::vector<View>& views, Index root) {
  if (views.empty()) return {};
  const Cause why = cause("root", Reason::order);
  TESSERA_TRY(wait_stream(comm_, compute_, why));
  for (const View& view : views) {
    TESSERA_TRY(submit(comm_, why, Broadcast{group_, view, root}).status());
  }
  return use(views);
}

Status OwnerEngine::sync_model() {
  std::vector<View> all;
  for (const OwnedParameter& p : parameters_) all.push_back(p.shard.values());
  for (const View& buffer : buffer_views()) all.push_back(buffer);
  return broadcast_in_place(all, /*root=*/0);
}

Status OwnerEngine::broadcast_buffers() { return broadcast_in_place(buffer_views(), /*root=*/0); }

// The part of a shard that is broadcast: its trained parameters, or their copy in a narrower dtype.
Result<View> OwnerEngine::pack(const OwnerShard& shard) {
  const View values = View::part(shard.value, shard.dtype, Numel{0}, shard.trained);
  const DType dtype = options_.broadcast_dtype.value_or(shard.dtype);
  // A wider dtype would send more bytes and say nothing more.
  if (size_of(dtype) >= size_of(shard.dtype)) return values;
  const Cause why = cause(shard.name, Reason::copy_in);
  TESSERA_ASSIGN(const BufferId wire,
                 allocate(std::string(shard.name) + ".broadcast", bytes_of(shard.trained, dtype),
                          MemoryClass::temporary, compute_, why));
  const View packed = View::whole(wire, dtype, shard.trained);
  TESSERA_TRY(submit_on(owner_set(shard.owner), compute_, why,
                        Copy{.pieces = {{.from = values, .to = packed}}})
                  .status());
  return packed;
}

Status OwnerEngine::broadcast_shards() {
  if (ranks_ == 1) return {};
  std::vector<View> sent;
  std::vector<View> values;
  for (const OwnerShard& shard : shards_) {
    if (shard.trained == Numel{0} || !steps_now(shard.optimizer)) continue;
    TESSERA_ASSIGN(const View packed, pack(shard));
    sent.push_back(packed);
    values.push_back(View::part(shard.value, shard.dtype, Numel{0}, shard.trained));
  }
  if (sent.empty()) return {};
  TESSERA_TRY(wait_stream(comm_, compute_, cause("root", Reason::order)));
  std::size_t k = 0;
  for (const OwnerShard& shard : shards_) {
    if (shard.trained == Numel{0} || !steps_now(shard.optimizer)) continue;
    TESSERA_TRY(
        submit(comm_, cause(shard.name, Reason::step), Broadcast{group_, sent[k++], shard.owner})
            .status());
  }
  TESSERA_ASSERT(k == sent.size(), "every shard that was packed is sent");
  // The broadcasts are over before packed copies are unpacked and freed.
  TESSERA_TRY(use(sent));
  Copy unpack;
  for (k = 0; k < sent.size(); ++k) {
    if (sent[k].buffer == values[k].buffer) continue;
    unpack.pieces.push_back({.from = sent[k], .to = values[k]});
  }
  if (unpack.pieces.empty()) return {};
  TESSERA_ASSIGN(const EventId unpacked,
                 submit(compute_, cause("root", Reason::copy_out), std::move(unpack)));
  for (k = 0; k < sent.size(); ++k) {
    if (sent[k].buffer != values[k].buffer) TESSERA_TRY(release(sent[k].buffer, unpacked));
  }
  return {};
}

}  // namespace tessera
