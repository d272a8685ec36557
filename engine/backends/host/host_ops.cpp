// SPDX-License-Identifier: Apache-2.0
// The effects of operations on the memory of this rank.
#include "engine/backends/host/file_task.h"
#include "engine/backends/host/host_backend.h"
#include "tessera/assert.h"
#include "tessera/reachable_memory.h"

namespace tessera {

std::span<std::byte> HostBackend::bytes(const View& view, Index index) const {
  const Place& place = places_.at(view.buffer);
  const Bytes begin = bytes_of(view.begin_at(index), view.dtype);
  const Bytes end = bytes_of(view.end_at(index), view.dtype);
  return memory_[static_cast<std::size_t>(place.memory)].at(place.offset + begin, end - begin);
}

// It is done when it returns: neither other ranks nor a drive take part.
bool HostBackend::takes_no_turns(const Op& op) {
  const auto* copy = std::get_if<Copy>(&op.what);
  if (copy == nullptr) return !communicator_of(op).valid();
  return !uses_files(copy->route);
}

Status HostBackend::run(const Op& op) {
  if (const auto* work = std::get_if<Copy>(&op.what)) copy(*work);
  if (const auto* work = std::get_if<Compute>(&op.what)) {
    TESSERA_ASSERT(!in_body_, "no body runs inside of another");
    in_body_ = true;
    const Status ran = compute(*work);
    in_body_ = false;
    if (!ran.ok()) return fail({ran.code(), fmt::format("{}: {}", describe(op), ran.message())});
  }
  return {};
}

void HostBackend::copy(const Copy& copy) const {
  const Index index = index_in(copy.index_in, rank_);
  copy_in_memory(copy, [&](const View& view) { return bytes(view, index); });
}

std::unique_ptr<RunningTask> HostBackend::start_files(const Copy& copy) {
  const bool writes = writes_files(copy.route);
  const Index index = index_in(copy.index_in, rank_);
  std::vector<SwapMove> moves;
  for (const CopyBlocks& piece : copy.pieces) {
    moves.push_back(
        swapped_.start(piece, copy.route, rank_, bytes(writes ? piece.from : piece.to, index)));
  }
  return std::make_unique<FileTask>(std::move(moves));
}

Status HostBackend::compute(const Compute& compute) const {
  const Index index = index_in(compute.index_in, rank_);
  return compute_in_memory(compute, rank_, [&](const View& view) { return bytes(view, index); });
}

CollectiveCall HostBackend::call(CommunicatorId id, const View& input, const View& output) const {
  const RankGroups& groups = communicator(id).groups;
  const Index index = groups.index_of(rank_);
  TESSERA_ASSERT(index >= 0, "a collective holds for whole groups, of which this rank is in one");
  return {id,    output.dtype,        groups.group_size(groups.group_of(rank_)),
          index, bytes(input, index), bytes(output, index)};
}

Result<std::unique_ptr<CollectiveTask>> HostBackend::start_collective(const Op& op) {
  struct Starter {
    using Started = Result<std::unique_ptr<CollectiveTask>>;
    HostBackend& self;

    Started operator()(const AllGather& o) {
      return start_all_gather(*self.transport_, self.call(o.communicator, o.input, o.output));
    }
    Started operator()(const ReduceScatter& o) {
      return start_reduce_scatter(*self.transport_, self.call(o.communicator, o.input, o.output),
                                  {o.reduction, o.factor});
    }
    Started operator()(const AllReduce& o) {
      return start_all_reduce(*self.transport_, self.call(o.communicator, o.input, o.output),
                              {o.reduction, o.factor});
    }
    Started operator()(const Reduce& o) {
      return start_reduce(*self.transport_, self.call(o.communicator, o.input, o.output),
                          {o.reduction, 1}, o.root);
    }
    Started operator()(const AllToAll& o) {
      return start_all_to_all(*self.transport_, self.call(o.communicator, o.input, o.output));
    }
    Started operator()(const Broadcast& o) {
      return start_broadcast(*self.transport_, self.call(o.communicator, o.data, o.data), o.root);
    }
    Started operator()(const Copy&) { return nothing(); }
    Started operator()(const Compute&) { return nothing(); }
    Started operator()(const Wait&) { return nothing(); }
    Started operator()(const Mark&) { return nothing(); }
    static Started nothing() {
      return Status(Code::invalid_argument, "this operation is no collective");
    }
  };
  return std::visit(Starter{*this}, op.what);
}

}  // namespace tessera
