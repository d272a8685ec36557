// SPDX-License-Identifier: Apache-2.0
// What operations do to the memory of this rank.
#include <algorithm>

#include "engine/host/file_task.h"
#include "engine/host/host_carrier.h"
#include "engine/runtime/number_arrays.h"

namespace tessera {
namespace {

class HostContext final : public BodyContext {
 public:
  HostContext(Rank rank, std::vector<std::span<const std::byte>> reads,
              std::vector<std::span<std::byte>> writes)
      : rank_(rank), reads_(std::move(reads)), writes_(std::move(writes)) {}
  Rank rank() const override { return rank_; }
  std::span<const std::byte> read(std::size_t i) const override { return reads_.at(i); }
  std::span<std::byte> write(std::size_t i) const override { return writes_.at(i); }

 private:
  Rank rank_;
  std::vector<std::span<const std::byte>> reads_;
  std::vector<std::span<std::byte>> writes_;
};

}  // namespace

std::span<std::byte> HostCarrier::bytes(const View& view, Index index) const {
  const Place& place = places_.at(view.buffer);
  const Bytes begin = bytes_of(view.begin_at(index), view.dtype);
  const Bytes end = bytes_of(view.end_at(index), view.dtype);
  return memory_[static_cast<std::size_t>(place.memory)].at(place.offset + begin, end - begin);
}

Index HostCarrier::index_in(CommunicatorId id) const {
  return id.valid() ? communicator(id).groups.index_of(rank_) : 0;
}

void HostCarrier::copy(const Copy& copy) const {
  const Index index = index_in(copy.index_in);
  for (const CopyBlocks& piece : copy.pieces) {
    for (std::int64_t k = 0; k < piece.count; ++k) {
      View from = piece.from;
      View to = piece.to;
      from.first += piece.from_pitch * k;
      to.first += piece.to_pitch * k;
      const auto source = from.buffer.valid() ? bytes(from, index) : std::span<std::byte>{};
      copy_numbers(source, from.dtype, bytes(to, index), to.dtype);
    }
  }
}

std::unique_ptr<RunningTask> HostCarrier::start_files(const Copy& copy) {
  const bool writes = copy.route == CopyRoute::to_nvme;
  if (!writes && copy.route != CopyRoute::from_nvme) return nullptr;
  const Index index = index_in(copy.index_in);
  std::vector<SwapMove> moves;
  for (const CopyBlocks& piece : copy.pieces) {
    moves.push_back(
        swapped_.start(piece, copy.route, rank_, bytes(writes ? piece.from : piece.to, index)));
  }
  return std::make_unique<FileTask>(std::move(moves));
}

void HostCarrier::compute(const Compute& compute) const {
  std::vector<std::span<const std::byte>> reads;
  std::vector<std::span<std::byte>> writes;
  const Index index = index_in(compute.index_in);
  for (const View& view : compute.reads) reads.push_back(bytes(view, index));
  for (const View& view : compute.writes) writes.push_back(bytes(view, index));
  for (std::size_t k : compute.zeroed) std::fill(writes[k].begin(), writes[k].end(), std::byte{0});
  if (compute.body) compute.body(HostContext(rank_, std::move(reads), std::move(writes)));
}

CollectiveCall HostCarrier::call(CommunicatorId id, const View& input, const View& output) const {
  const RankGroups& groups = communicator(id).groups;
  const Index index = groups.index_of(rank_);
  return {id,    output.dtype,        groups.group_size(groups.group_of(rank_)),
          index, bytes(input, index), bytes(output, index)};
}

Result<std::unique_ptr<CollectiveTask>> HostCarrier::start_collective(const Op& op) {
  struct Starter {
    using Started = Result<std::unique_ptr<CollectiveTask>>;
    HostCarrier& self;

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
