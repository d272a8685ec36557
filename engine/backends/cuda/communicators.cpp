// SPDX-License-Identifier: Apache-2.0
#include "engine/backends/cuda/communicators.h"

#include <fmt/format.h>

#include "engine/backends/cuda/calls.h"

namespace tessera {

Status Communicators::open(bool id_from_environment) {
  NcclId id;
  if (peers_.rank() == 0 || id_from_environment) {
    TESSERA_TRY(nccl_status(api_, nullptr, api_.get_unique_id(&id), "ncclGetUniqueId"));
  }
  if (!id_from_environment && peers_.ranks() > 1) {
    TESSERA_TRY(patience_.until(
        [&]() -> Result<Patience::Seen> {
          TESSERA_ASSIGN(const bool done,
                         peers_.share(std::as_writable_bytes(std::span(id.bytes))));
          return done ? Patience::Seen::done : Patience::Seen::nothing;
        },
        [] { return std::string("the others to start NCCL"); }));
  }
  // Arguments have no order: Clang would pass on `world_` as it was before the call.
  const int code =
      api_.comm_init_rank(&world_, peers_.ranks(), &id, peers_.rank(), {.name = "tessera"});
  return await(world_, code, "ncclCommInitRankConfig");
}

// Collective over the parent, also for ranks that get no communicator (NCCL's usage/communicators).
Status Communicators::split(CommunicatorId id, const RankGroups& groups, const std::string& name) {
  const Index group = groups.group_of(peers_.rank());
  const int color = group < 0 ? nccl_no_color : group;
  const int key = group < 0 ? 0 : groups.index_of(peers_.rank());
  NcclComm& comm = groups_[id];
  const std::string& kept = names_[id] = name;
  const int code = api_.comm_split(world_, color, key, &comm, {kept.c_str(), copy_engines_});
  TESSERA_TRY(await(world_, code, "ncclCommSplit"));
  if (group < 0) return {};
  if (comm == nullptr) {
    return Status(Code::communication_error,
                  fmt::format("ncclCommSplit of \"{}\" ended without a communicator", name));
  }
  return await(comm, nccl_in_progress, "ncclCommSplit");
}

Status Communicators::finish_call(NcclComm comm, int code, const char* call) {
  if (code != nccl_in_progress) return nccl_status(api_, comm, code, call);
  return await(comm, code, call);
}

// NCCL 2.28's ncclCommSplit and ncclCommWindowRegister of a communicator that does not block return
// ncclSuccess while a thread of NCCL's works, which fills in the handle at its end (init.cc,
// dev_runtime.cc: NCCLCHECK of ncclGroupEndInternal lets ncclInProgress pass). So the state of the
// communicator says when they are done, never their result.
Status Communicators::await(NcclComm comm, int code, const char* call) {
  if (code != nccl_in_progress) TESSERA_TRY(nccl_status(api_, comm, code, call));
  return patience_.until(
      [&]() -> Result<Patience::Seen> {
        int state = nccl_success;
        TESSERA_TRY(nccl_status(api_, comm, api_.comm_get_async_error(comm, &state),
                                "ncclCommGetAsyncError"));
        if (state == nccl_in_progress) return Patience::Seen::nothing;
        TESSERA_TRY(nccl_status(api_, comm, state, call));
        return Patience::Seen::done;
      },
      [&] { return std::string(call); });
}

Status Communicators::check() const {
  const auto healthy = [this](NcclComm comm) -> Status {
    if (comm == nullptr) return {};
    int state = nccl_success;
    TESSERA_TRY(
        nccl_status(api_, comm, api_.comm_get_async_error(comm, &state), "ncclCommGetAsyncError"));
    if (state == nccl_in_progress) return {};
    return nccl_status(api_, comm, state, "a collective of NCCL");
  };
  TESSERA_TRY(healthy(world_));
  for (const auto& entry : groups_) TESSERA_TRY(healthy(entry.second));
  return {};
}

Status Communicators::close(NcclComm& comm) {
  if (comm == nullptr) return {};
  TESSERA_TRY(await(comm, api_.comm_finalize(comm), "ncclCommFinalize"));
  const int code = api_.comm_destroy(comm);
  comm = nullptr;
  return nccl_status(api_, nullptr, code, "ncclCommDestroy");
}

Status Communicators::close() {
  for (auto& entry : groups_) TESSERA_TRY(close(entry.second));
  return close(world_);
}

void Communicators::abort() {
  // A split of the world may still be writing into groups_: NCCL's thread ends with the world.
  if (world_ != nullptr) api_.comm_abort(world_);
  world_ = nullptr;
  for (auto& entry : groups_) {
    if (entry.second != nullptr) api_.comm_abort(entry.second);
  }
  groups_.clear();
}

}  // namespace tessera
