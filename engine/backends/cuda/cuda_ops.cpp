// SPDX-License-Identifier: Apache-2.0
// The calls of CUDA, NCCL and kernels that carry out each operation.
#include "engine/backends/cuda/calls.h"
#include "engine/backends/cuda/cuda_backend.h"
#include "tessera/reachable_memory.h"

namespace tessera {
namespace {

std::size_t width(DType dtype) { return static_cast<std::size_t>(size_of(dtype).value); }

View block(View view, Numel pitch, std::int64_t k) {
  view.first += pitch * k;
  return view;
}

bool is_full(const View& view, Index index) {
  return view.end_at(index) - view.begin_at(index) == view.numel;
}

// The key has all that a graph bakes in: the work, the stream, addresses and sizes. A buffer that
// lies elsewhere in a later step is another key, so a graph never touches the memory of another
// buffer.
Graphs::Key key_of(const Compute& compute, CudaStream stream,
                   const std::vector<std::span<std::byte>>& reads,
                   const std::vector<std::span<std::byte>>& writes) {
  const auto address = [](const void* at) { return reinterpret_cast<std::uintptr_t>(at); };
  Graphs::Key key = {address(compute.repeated.of.get()),
                     static_cast<std::uintptr_t>(compute.repeated.part), address(stream),
                     reads.size(), writes.size()};
  for (const auto* views : {&reads, &writes}) {
    for (const auto& view : *views) key.insert(key.end(), {address(view.data()), view.size()});
  }
  key.insert(key.end(), compute.zeroed.begin(), compute.zeroed.end());
  return key;
}

}  // namespace

// A kernel copies by 16 bytes only what lies at multiples of them; the driver knows better ways.
bool CudaBackend::Casts::add(const BlockCast& cast) {
  constexpr std::int64_t small = 1 << 14;
  constexpr std::int64_t pack_bytes = 16;
  const BlockCopy& s = cast.shape;
  const std::int64_t unit = size_of(s.to_dtype).value;
  const auto is_whole = [](std::int64_t bytes) { return bytes % pack_bytes == 0; };
  const auto at = [](const void* address) {
    return static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(address) % pack_bytes);
  };
  const bool packs = is_whole(at(cast.to)) && is_whole(at(cast.from)) && is_whole(s.numel * unit) &&
                     is_whole(s.from_pitch * unit) && is_whole(s.to_pitch * unit);
  const bool same = s.from_dtype == s.to_dtype;
  if (same && (!equal_types || !kernels::is_computed(s.to_dtype))) return false;
  if (same && !packs && s.numel > small) return false;
  blocks.push_back(cast);
  return true;
}

std::span<std::byte> CudaBackend::bytes(const View& view, Index index) const {
  const Place& place = places_.at(view.buffer);
  const Bytes begin = place.offset + bytes_of(view.begin_at(index), view.dtype);
  const Bytes end = place.offset + bytes_of(view.end_at(index), view.dtype);
  const bool device = place.memory == Memory::device;
  std::byte* const at = device ? device_.at(begin) : pinned_.base() + begin.value;
  return {at, static_cast<std::size_t>((end - begin).value)};
}

Status CudaBackend::copy(const Copy& copy, Lane& lane) {
  const Index index = index_in(copy.index_in, rank_);
  if (uses_files(copy.route)) {
    return copy_files(copy, index, lane.stream());
  }
  Casts casts{copy.route == CopyRoute::on_device && copy.pieces.size() > 1};
  for (const CopyBlocks& piece : copy.pieces) {
    TESSERA_TRY(copy_piece(piece, index, lane.stream(), casts));
  }
  if (casts.blocks.empty()) return {};
  return cuda_status(module_.cuda, module_.kernels.cast_blocks(casts.blocks, lane.stream()),
                     "the kernel that casts");
}

Status CudaBackend::copy_files(const Copy& copy, Index index, CudaStream stream) {
  if (FileCopies::passes_host(copy.route) && !options_.aio.use_gds) {
    return Status(Code::invalid_argument,
                  "copies between files and the device need CudaOptions::aio.use_gds");
  }
  std::vector<FileCopies::Piece> pieces;
  for (const CopyBlocks& piece : copy.pieces) {
    entries_ += FileCopies::entries_max;
    pieces.push_back({piece, bytes(writes_files(copy.route) ? piece.from : piece.to, index)});
  }
  TESSERA_TRY(file_copies_.submit(copy.route, std::move(pieces), stream));
  if (file_service_ != nullptr) file_service_->wake();
  return {};
}

// What is to be cast is added to `casts`, since pieces do not overlap.
Status CudaBackend::copy_piece(const CopyBlocks& piece, Index index, CudaStream stream,
                               Casts& casts) {
  const std::int64_t last = piece.count - 1;
  const bool whole = piece.from.buffer.valid() && piece.count > 1 &&
                     is_full(block(piece.from, piece.from_pitch, last), index) &&
                     is_full(block(piece.to, piece.to_pitch, last), index);
  if (whole) return copy_blocks(piece, index, stream, casts);
  for (std::int64_t k = 0; k < piece.count; ++k) {
    TESSERA_TRY(copy_block(piece, k, index, stream, casts));
  }
  return {};
}

// Copies all blocks by one call. REQUIRES: none of them is cut at the end of its buffer.
Status CudaBackend::copy_blocks(const CopyBlocks& piece, Index index, CudaStream stream,
                                Casts& casts) {
  const auto to = bytes(piece.to, index);
  const auto from = bytes(piece.from, index);
  if (to.empty()) return {};
  ++entries_;
  const BlockCopy shape{piece.from.dtype, piece.to.dtype,         piece.to.numel.value,
                        piece.count,      piece.from_pitch.value, piece.to_pitch.value};
  if (casts.add({to.data(), from.data(), shape})) return {};
  const std::size_t unit = width(piece.to.dtype);
  const auto to_pitch = static_cast<std::size_t>(piece.to_pitch.value) * unit;
  const auto from_pitch = static_cast<std::size_t>(piece.from_pitch.value) * unit;
  const bool pitched = to_pitch >= to.size() && from_pitch >= to.size();
  if (!pitched) {  // one block to many places, or the other way round: not what CUDA calls 2D
    for (std::int64_t k = 0; k < piece.count; ++k) {
      TESSERA_TRY(copy_block(piece, k, index, stream, casts));
    }
    return {};
  }
  return cuda_status(
      module_.cuda,
      module_.cuda.memcpy_2d_async(to.data(), to_pitch, from.data(), from_pitch, to.size(),
                                   static_cast<std::size_t>(piece.count), stream),
      "cudaMemcpy2DAsync");
}

// Copies one block; elements that the source does not have become zero.
Status CudaBackend::copy_block(const CopyBlocks& piece, std::int64_t k, Index index,
                               CudaStream stream, Casts& casts) {
  const auto to = bytes(block(piece.to, piece.to_pitch, k), index);
  const auto from = piece.from.buffer.valid() ? bytes(block(piece.from, piece.from_pitch, k), index)
                                              : std::span<std::byte>{};
  const std::size_t numel =
      std::min(to.size() / width(piece.to.dtype), from.size() / width(piece.from.dtype));
  const std::size_t copied = numel * width(piece.to.dtype);
  entries_ += 2;
  const CudaApi& cuda = module_.cuda;
  const BlockCopy shape{piece.from.dtype, piece.to.dtype, static_cast<std::int64_t>(numel)};
  if (numel > 0 && !casts.add({to.data(), from.data(), shape})) {
    TESSERA_TRY(cuda_status(cuda, cuda.memcpy_async(to.data(), from.data(), copied, stream),
                            "cudaMemcpyAsync"));
  }
  if (copied == to.size()) return {};
  return cuda_status(cuda, cuda.memset_async(to.data() + copied, 0, to.size() - copied, stream),
                     "cudaMemsetAsync");
}

Status CudaBackend::compute(const Compute& compute, Lane& lane) {
  Spans reads;
  Spans writes;
  const Index index = index_in(compute.index_in, rank_);
  for (const View& view : compute.reads) reads.push_back(bytes(view, index));
  for (const View& view : compute.writes) writes.push_back(bytes(view, index));
  const bool by_kernels = compute.body && !compute.on_numbers && !compute.cost.on_host;
  if (!options_.graphs || !by_kernels || !compute.repeated.of) {
    if (options_.graphs && compute.body) graphs_.ran_unrepeated();
    return launch(compute, lane, reads, writes);
  }
  return graphs_.run(key_of(compute, lane.stream(), reads, writes), compute.repeated.of,
                     lane.stream(), [&] { return launch(compute, lane, reads, writes); });
}

Status CudaBackend::launch(const Compute& compute, Lane& lane, const Spans& reads,
                           const Spans& writes) {
  for (std::size_t k : compute.zeroed) {
    if (writes[k].empty()) continue;
    ++entries_;
    TESSERA_TRY(
        cuda_status(module_.cuda,
                    module_.cuda.memset_async(writes[k].data(), 0, writes[k].size(), lane.stream()),
                    "cudaMemsetAsync"));
  }
  if (!compute.body) return {};
  if (compute.on_numbers) return run_staged(compute, lane, reads, writes);
  if (compute.cost.on_host) return run_on_host(compute, lane, reads, writes);
  return run(compute, lane, reads, writes);
}

Status CudaBackend::run(const Compute& compute, Lane& lane, const Spans& reads,
                        const Spans& writes) {
  CudaKernels on_device = kernels(lane);
  const Status ran =
      run_body(compute, SpanContext(rank_, {reads.begin(), reads.end()}, writes, on_device));
  const Status status = on_device.finish();
  entries_ += on_device.launches();
  return ran.ok() ? status : ran;
}

// A body on the host: its views are in pinned memory, so it only waits for the stream.
Status CudaBackend::run_on_host(const Compute& compute, Lane& lane, const Spans& reads,
                                const Spans& writes) {
  TESSERA_TRY(drain(lane));
  return run_body(compute, SpanContext(rank_, {reads.begin(), reads.end()}, writes));
}

CudaKernels CudaBackend::kernels(Lane& lane) {
  const auto to_host = [this, &lane](std::span<const std::byte> device,
                                     std::span<std::byte> host) -> Status {
    TESSERA_TRY(make_staging(Bytes{static_cast<std::int64_t>(host.size())}));
    TESSERA_TRY(cuda_status(
        module_.cuda,
        module_.cuda.memcpy_async(staging_.base(), device.data(), host.size(), lane.stream()),
        "cudaMemcpyAsync"));
    TESSERA_TRY(drain(lane));
    std::copy_n(staging_.base(), host.size(), host.begin());
    return {};
  };
  const CudaKernels::Device device{module_.cuda, module_.kernels, mailbox_, math_.get(),
                                   graphs_.recording()};
  return {device, lane.stream(), workspace(lane), to_host};
}

Status CudaBackend::make_staging(Bytes bytes) {
  if (staged_by_ != nullptr) TESSERA_TRY(drain(*staged_by_));
  staged_by_ = nullptr;
  if (bytes <= staging_.bytes()) return {};
  TESSERA_TRY(drain_all());  // before memory is pinned: cuda_buffers.cpp
  return staging_.allocate(bytes * 2);
}

Status CudaBackend::run_staged(const Compute& compute, Lane& lane, const Spans& reads,
                               const Spans& writes) {
  StagedBytes staged;
  const auto on_device = [&](const View& view) {
    return places_.at(view.buffer).memory == Memory::device;
  };
  for (std::size_t i = 0; i < reads.size(); ++i) {
    if (on_device(compute.reads[i])) staged.touch(reads[i]);
  }
  for (std::size_t i = 0; i < writes.size(); ++i) {
    if (on_device(compute.writes[i])) staged.touch(writes[i]);
  }
  TESSERA_TRY(make_staging(staged.layout()));
  TESSERA_TRY(staged.copy_in(module_.cuda, staging_.base(), lane.stream()));
  TESSERA_TRY(drain(lane));
  auto seen = reads;
  auto changed = writes;
  for (std::size_t i = 0; i < seen.size(); ++i) {
    if (on_device(compute.reads[i])) seen[i] = staged.copy_of(reads[i]);
  }
  for (std::size_t i = 0; i < changed.size(); ++i) {
    if (on_device(compute.writes[i])) changed[i] = staged.copy_of(writes[i]);
  }
  TESSERA_TRY(
      run_body(compute, SpanContext(rank_, {seen.begin(), seen.end()}, std::move(changed))));
  for (std::size_t i = 0; i < writes.size(); ++i) {
    if (on_device(compute.writes[i])) {
      TESSERA_TRY(staged.copy_out(module_.cuda, writes[i], lane.stream()));
    }
  }
  staged_by_ = &lane;
  return {};
}

NcclCall CudaBackend::call(CommunicatorId id, const View& input, const View& output,
                           Lane& lane) const {
  const RankGroups& groups = communicator(id).groups;
  const Index index = groups.index_of(rank_);
  return {id,
          groups.group_size(groups.group_of(rank_)),
          output.dtype,
          std::min(input.numel, output.numel),
          bytes(input, index).data(),
          bytes(output, index).data(),
          lane.stream()};
}

Status CudaBackend::collective(const Op& op, Lane& lane) {
  struct Starter {
    CudaBackend& self;
    Lane& lane;

    Status operator()(const AllGather& o) const {
      return self.collectives_.all_gather(self.call(o.communicator, o.input, o.output, lane));
    }
    Status operator()(const ReduceScatter& o) const {
      return self.collectives_.reduce_scatter(self.call(o.communicator, o.input, o.output, lane),
                                              o.reduction, o.factor);
    }
    Status operator()(const AllReduce& o) const {
      return self.collectives_.all_reduce(self.call(o.communicator, o.input, o.output, lane),
                                          o.reduction, o.factor);
    }
    Status operator()(const Reduce& o) const {
      return self.collectives_.reduce(self.call(o.communicator, o.input, o.output, lane),
                                      o.reduction, o.root);
    }
    Status operator()(const AllToAll& o) const {
      return self.collectives_.all_to_all(self.call(o.communicator, o.input, o.output, lane));
    }
    Status operator()(const Broadcast& o) const {
      return self.collectives_.broadcast(self.call(o.communicator, o.data, o.data, lane), o.root);
    }
    Status operator()(const Copy&) const { return {}; }
    Status operator()(const Compute&) const { return {}; }
    Status operator()(const Wait&) const { return {}; }
    Status operator()(const Mark&) const { return {}; }
  };
  return std::visit(Starter{*this, lane}, op.what);
}

}  // namespace tessera
