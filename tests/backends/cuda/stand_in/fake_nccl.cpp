// SPDX-License-Identifier: Apache-2.0
#include "tests/backends/cuda/stand_in/fake_nccl.h"

#include <fmt/format.h>

#include <algorithm>

namespace tessera::test {

bool FakeNccl::knows(const FakeComm* comm) const {
  return std::any_of(comms_.begin(), comms_.end(),
                     [&](const auto& own) { return own.get() == comm; });
}

FakeComm* FakeNccl::enter(const std::shared_ptr<FakeGroup>& group, int index, int device) {
  comms_.push_back(std::make_unique<FakeComm>());
  FakeComm& comm = *comms_.back();
  comm.group = group;
  comm.index = index;
  comm.device = device;
  ++group->arrived;
  return &comm;
}

FakeComm* FakeNccl::init(const std::string& id, int ranks, int rank, int device) {
  auto& group = worlds_[id];
  if (!group) {
    group = std::make_shared<FakeGroup>();
    group->size = ranks;
    group->name = "world";
  }
  if (!group->devices.insert(device).second) return nullptr;
  return enter(group, rank, device);
}

// The backend's key is the index itself.
void FakeNccl::split(FakeComm& parent, int color, int key, int device, NcclComm* handle) {
  FakeGroup& all = *parent.group;
  const int number = ++parent.splits;
  FakeComm* own = nullptr;
  if (color != nccl_no_color) {
    auto& group = all.split[{number, color}];
    if (!group) {
      group = std::make_shared<FakeGroup>();
      group->name = fmt::format("split {} color {}", number, color);
    }
    own = enter(group, key, device);
  }
  if (++all.split_by[number] == all.size) {
    for (auto& [key_of, group] : all.split) {
      if (key_of.first == number) group->size = group->arrived;
    }
  }
  if (own != nullptr) parent.splitting.emplace_back(handle, own);
  parent.busy = 2;
}

bool FakeNccl::ready(const FakeComm& comm) const {
  FakeGroup& group = *comm.group;
  const bool splitting = comm.splits > 0 && group.split_by[comm.splits] < group.size;
  const bool closing = comm.closing > 0 && group.closed < group.size;
  const int window = comm.windows.newest();
  const bool registering = window > 0 && group.registrations.by_number[window].come < group.size;
  return comm.busy == 0 && !comm.launching && group.complete() && !splitting && !closing &&
         !registering;
}

int FakeNccl::state(FakeComm& comm) {
  if (comm.error != 0) return comm.error;
  if (comm.group->error != 0) return comm.group->error;
  if (comm.busy > 0) return --comm.busy, nccl_in_progress;
  if (!ready(comm)) return nccl_in_progress;
  for (const auto& [handle, made] : comm.splitting) *handle = reinterpret_cast<NcclComm>(made);
  for (const auto& [handle, number] : comm.registering) {
    *handle = reinterpret_cast<NcclWindow>(static_cast<std::intptr_t>(number));
  }
  comm.splitting.clear();
  comm.registering.clear();
  return nccl_success;
}

void FakeNccl::launch(FakeComm& comm, int calls, std::function<int()> enqueue) {
  comm.launching = {std::move(enqueue), calls};
}

void FakeNccl::work(int device) {
  for (const auto& comm : comms_) {
    if (comm->device != device || !comm->launching || --comm->launching->calls > 0) continue;
    const auto enqueue = std::exchange(comm->launching, std::nullopt)->enqueue;
    comm->error = std::max(comm->error, enqueue());
  }
}

bool FakeNccl::is_launching(int device) const {
  return std::any_of(comms_.begin(), comms_.end(), [&](const auto& comm) {
    return comm->device == device && comm->launching.has_value();
  });
}

bool FakeNccl::in_window(const void* at, std::size_t bytes, int device) const {
  return std::any_of(comms_.begin(), comms_.end(), [&](const auto& comm) {
    return comm->device == device && comm->windows.overlaps(at, bytes);
  });
}

void FakeNccl::finalize(FakeComm& comm) {
  if (comm.closing++ == 0) ++comm.group->closed;
}

void FakeNccl::destroy(FakeComm* comm, FakeStreams& streams) {
  for (const auto& [handle, made] : comm->splitting) destroy(made, streams);
  for (auto& collective : comm->group->collectives) {
    for (FakeStream* stream : collective->streams()) {
      if (stream->device != comm->device) continue;
      collective->leave();
      streams.drop(collective.get(), stream);
      auto& order = order_[static_cast<std::size_t>(comm->device)];
      std::erase(order, collective.get());
    }
  }
  std::erase_if(comms_, [&](const auto& own) { return own.get() == comm; });
}

NcclOp FakeNccl::create_operator(FakeComm& comm, float factor) {
  int op = static_cast<int>(NcclOp::average) + 1;
  while (comm.operators.contains(op)) ++op;
  comm.operators[op] = factor;
  return static_cast<NcclOp>(op);
}

bool FakeNccl::destroy_operator(FakeComm& comm, NcclOp op) {
  return comm.operators.erase(static_cast<int>(op)) == 1;
}

std::shared_ptr<Meeting> FakeNccl::submit(FakeComm& comm, const CollectiveCall& call,
                                          std::string& problem) {
  auto& group = *comm.group;
  if (!group.complete()) {
    problem =
        fmt::format("{} on communicator {} before it is ready", name_of(call.kind), group.name);
    return nullptr;
  }
  const std::size_t number = comm.started++;
  if (number == group.collectives.size()) {
    group.collectives.push_back(std::make_shared<FakeCollective>(group, order_));
  }
  const auto& collective = group.collectives[number];
  order_[static_cast<std::size_t>(comm.device)].push_back(collective.get());
  problem = collective->join(comm.index, call);
  if (!problem.empty()) {
    problem = fmt::format("collective {} of communicator {}: {}", number, group.name, problem);
    group.error = 5;  // ncclInvalidUsage
  }
  return collective;
}

}  // namespace tessera::test
