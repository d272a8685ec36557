// SPDX-License-Identifier: Apache-2.0
#include "engine/runtime/op_checks.h"

#include <fmt/format.h>

#include "engine/runtime/access_history.h"

namespace tessera {
namespace {

class OpChecker {
 public:
  OpChecker(const Op& op, const OpEnvironment& environment) : op_(op), environment_(environment) {}

  Status operator()(const AllGather& o) const {
    TESSERA_TRY(whole_groups(o.communicator));
    TESSERA_TRY(gathered(o.communicator, o.input, o.output));
    return transferable(o.input, o.output, group_size(o.communicator));
  }
  Status operator()(const ReduceScatter& o) const {
    TESSERA_TRY(whole_groups(o.communicator));
    TESSERA_TRY(gathered(o.communicator, o.output, o.input));
    return transferable(o.input, o.output, group_size(o.communicator));
  }
  Status operator()(const AllReduce& o) const {
    return same_size(o.communicator, o.input, o.output);
  }
  Status operator()(const Reduce& o) const {
    TESSERA_TRY(root_in_group(o.communicator, o.root));
    return same_size(o.communicator, o.input, o.output);
  }
  Status operator()(const Broadcast& o) const {
    TESSERA_TRY(root_in_group(o.communicator, o.root));
    return same_size(o.communicator, o.data, o.data);
  }

  Status operator()(const AllToAll& o) const {
    TESSERA_TRY(same_size(o.communicator, o.input, o.output));
    if (o.input.buffer == o.output.buffer) return fail("an all_to_all cannot be in place");
    if (o.input.numel.value % group_size(o.communicator) == 0) return {};
    return fail(fmt::format("{} elements are not {} equal parts", o.input.numel.value,
                            group_size(o.communicator)));
  }

  Status operator()(const Copy& o) const {
    const Index n = o.index_in.valid() ? group_size(o.index_in) : 1;
    if (n < 1) return fail("uses an unknown communicator for its index");
    for (const auto& piece : o.pieces) {
      if (piece.from.numel != piece.to.numel || piece.count < 1) {
        return fail(fmt::format("copies {} elements into a view of {}", piece.from.numel.value,
                                piece.to.numel.value));
      }
      TESSERA_ASSIGN(const auto to, in_bounds(piece.to, n));
      if (!piece.from.buffer.valid()) continue;
      TESSERA_ASSIGN(const auto from, in_bounds(piece.from, n));
      TESSERA_TRY(on_route(o.route, piece, from, to));
    }
    return {};
  }
  Status operator()(const Compute& o) const {
    const Index n = o.index_in.valid() ? group_size(o.index_in) : 1;
    if (n < 1) return fail("uses an unknown communicator for its index");
    for (const auto* views : {&o.reads, &o.writes}) {
      for (const View& view : *views) {
        TESSERA_ASSIGN(const auto buffer, in_bounds(view, n));
        if (buffer.memory != Memory::nvme) continue;
        return fail("uses what is on NVMe: copy it to host memory first");
      }
    }
    return {};
  }
  Status operator()(const Wait&) const { return {}; }
  Status operator()(const Mark&) const { return {}; }

 private:
  Status fail(const std::string& what, Code code = Code::invalid_argument) const {
    return Status(code, fmt::format("{} on rank {}: {}", describe(op_), op_.where.first(), what));
  }

  const RankGroups* groups(CommunicatorId id) const { return environment_.groups(id); }
  Index group_size(CommunicatorId id) const {
    const RankGroups* g = groups(id);
    return g == nullptr ? 0 : g->group_size_max();
  }

  // A collective on part of a group would hang the others.
  Status whole_groups(CommunicatorId id) const {
    const RankGroups* g = groups(id);
    if (g == nullptr) return fail("uses an unknown communicator");
    if (op_.where == g->ranks()) return {};
    if (!g->ranks().covers(op_.where)) {
      return fail(fmt::format("ranks {} are in no group of the communicator",
                              op_.where.minus(g->ranks()).to_string()));
    }
    for (Index group = 0; group < g->group_count(); ++group) {
      std::vector<Rank> missing;
      bool inside = false;
      for (Index i = 0; i < g->group_size(group); ++i) {
        const Rank rank = g->member(group, i);
        op_.where.contains(rank) ? void(inside = true) : missing.push_back(rank);
      }
      if (inside && !missing.empty()) {
        return Status(Code::divergent,
                      fmt::format("{} is entered by rank {} without rank {} of its group: those "
                                  "ranks would wait for each other for ever",
                                  describe(op_), op_.where.to_string(),
                                  RankSet::of(std::move(missing)).to_string()));
      }
    }
    return {};
  }

  Status gathered(CommunicatorId id, const View& shard, const View& full) const {
    const Index n = group_size(id);
    if (shard.dtype != full.dtype) {
      return fail(fmt::format("the shard is {} but the full buffer is {}", name_of(shard.dtype),
                              name_of(full.dtype)));
    }
    if (shard.numel * n != full.numel) {
      return fail(fmt::format("{} shards of {} elements do not make a buffer of {}", n,
                              shard.numel.value, full.numel.value));
    }
    const bool own_slice = shard.first == full.first && shard.step == shard.numel;
    if (shard.buffer == full.buffer && !own_slice) {
      return fail(fmt::format(
          "in place, index i must use elements {} + i * {}, not {} + i * {}: wrong shard offset",
          full.first.value, shard.numel.value, shard.first.value, shard.step.value));
    }
    return {};
  }

  Status same_size(CommunicatorId id, const View& input, const View& output) const {
    TESSERA_TRY(whole_groups(id));
    if (input.dtype != output.dtype || input.numel != output.numel) {
      return fail(fmt::format("{} {} in, {} {} out", input.numel.value, name_of(input.dtype),
                              output.numel.value, name_of(output.dtype)));
    }
    return transferable(input, output, group_size(id));
  }

  Status root_in_group(CommunicatorId id, Index root) const {
    const Index n = group_size(id);
    if (root < 0 || root >= n) return fail(fmt::format("root {} of a group of {}", root, n));
    return {};
  }

  Status on_route(CopyRoute route, const CopyBlocks& piece, const OpEnvironment::Buffer& from,
                  const OpEnvironment::Buffer& to) const {
    if (route_between(from.memory, to.memory) == route) {
      if (from.memory == Memory::nvme) return whole_slot(piece, piece.from, from);
      return to.memory == Memory::nvme ? whole_slot(piece, piece.to, to) : Status{};
    }
    static constexpr const char* names[] = {"the device", "host memory", "NVMe"};
    return fail(fmt::format("copies from {} to {} by another route",
                            names[static_cast<int>(from.memory)],
                            names[static_cast<int>(to.memory)]));
  }

  // A file's slot has one checksum per block, so it moves as a whole.
  Status whole_slot(const CopyBlocks& piece, const View& slot,
                    const OpEnvironment::Buffer& buffer) const {
    const bool whole = bytes_of(slot.numel, slot.dtype) == buffer.bytes;
    const bool plain = piece.from.dtype == piece.to.dtype && piece.count == 1 &&
                       piece.from.step == Numel{0} && piece.to.step == Numel{0};
    if (whole && plain) return {};
    return fail("moves a part of what is on NVMe, or casts it: buffers there move as a whole");
  }

  Status transferable(const View& input, const View& output, Index n) const {
    for (const View* view : {&input, &output}) {
      TESSERA_ASSIGN(const auto buffer, in_bounds(*view, n));
      if (buffer.memory == Memory::device) continue;
      return fail("uses memory that is not on the device: copy it there first");
    }
    return {};
  }

  Result<OpEnvironment::Buffer> in_bounds(const View& view, Index n) const {
    const auto held = environment_.buffer(view.buffer);
    if (!held) {
      return fail(fmt::format("uses buffer {}, which is released or was never allocated",
                              view.buffer.value),
                  Code::hazard);
    }
    const bool negative = view.first < Numel{0} || view.numel < Numel{0} || view.step < Numel{0};
    const bool indexed = n == 1 || view.step == Numel{0} || view.begin_at(n - 1) <= view.end;
    if (negative || !indexed || bytes_of(view.end, view.dtype) > held->bytes) {
      return fail(fmt::format("a view ends at element {} of a buffer of {} bytes", view.end.value,
                              held->bytes.value));
    }
    return *held;
  }

  const Op& op_;
  const OpEnvironment& environment_;
};

}  // namespace

std::string describe(const Op& op) { return Accessor{kind_of(op), op.cause, {}}.to_string(); }

Status check_op(const Op& op, const OpEnvironment& environment) {
  return std::visit(OpChecker(op, environment), op.what);
}

}  // namespace tessera
