// SPDX-License-Identifier: Apache-2.0
// The stand-in's functions of NCCL.
#include <fmt/format.h>

#include <algorithm>

#include "engine/numbers/number.h"
#include "tests/backends/cuda/stand_in/tables.h"

namespace tessera::test {
namespace {

constexpr int invalid_argument = 4;
constexpr int invalid_usage = 5;

FakeComm* comm_of(NcclComm comm) { return reinterpret_cast<FakeComm*>(comm); }

template <class F>
int called(Call call, NcclComm comm, F&& f) {
  return called(call, [&](StandIn& world) {
    if (!world.nccl().knows(comm_of(comm))) return invalid_argument;
    FakeComm& own = *comm_of(comm);
    own.error = std::max(own.error, world.take_late_failure());
    return f(world, own);
  });
}

std::size_t width(NcclType type) {
  switch (type) {
    case NcclType::float16:
    case NcclType::bfloat16: return 2;
    case NcclType::int32:
    case NcclType::float32: return 4;
    case NcclType::int64:
    case NcclType::float64: return 8;
    default: return 1;
  }
}

std::vector<MemoryAccess> accesses_of(const FakeComm& comm, const CollectiveCall& call) {
  const std::size_t part = call.count * width(call.type);
  const std::size_t all = part * static_cast<std::size_t>(comm.group->size);
  const bool root = comm.index == call.root;
  switch (call.kind) {
    case CollectiveKind::all_gather: return {{call.in, part, false}, {call.out, all, true}};
    case CollectiveKind::reduce_scatter: return {{call.in, all, false}, {call.out, part, true}};
    case CollectiveKind::reduce:
      if (!root) return {{call.in, part, false}};
      break;
    case CollectiveKind::broadcast:
      return root ? std::vector<MemoryAccess>{{call.in, part, false}}
                  : std::vector<MemoryAccess>{{call.out, part, true}};
    default: break;
  }
  return {{call.in, part, false}, {call.out, part, true}};
}

std::string wrong_place(const FakeComm& comm, const CollectiveCall& call) {
  const std::size_t part = call.count * width(call.type);
  const bool scatters = call.kind == CollectiveKind::reduce_scatter;
  if (!scatters && call.kind != CollectiveKind::all_gather) return {};
  const std::byte* const whole = scatters ? call.in : call.out;
  const std::byte* const own = scatters ? call.out : call.in;
  const std::byte* const end = whole + part * static_cast<std::size_t>(comm.group->size);
  if (own + part <= whole || own >= end) return {};
  if (own == whole + part * static_cast<std::size_t>(comm.index)) return {};
  return fmt::format("{} in place, but not at the rank's own part", name_of(call.kind));
}

// What others reach must be at the same place on all ranks; a rank's own part is only its own
// business (NCCL's device/symmetric/all_gather.cuh, reduce_scatter.cuh), but known or not alike.
std::string places_of(const FakeComm& comm, const CollectiveCall& call) {
  const bool scatters = call.kind == CollectiveKind::reduce_scatter;
  if (!scatters && call.kind != CollectiveKind::all_gather) return {};
  const std::byte* const whole = scatters ? call.in : call.out;
  const std::byte* const own = scatters ? call.out : call.in;
  const bool known = comm.windows.overlaps(own, 1);
  return comm.windows.place(whole) + (known ? ", in a window" : ", elsewhere");
}

// What NCCL's thread does with a call.
int launch(StandIn& world, FakeComm& comm, const CollectiveCall& call,
           const std::vector<MemoryAccess>& accesses) {
  std::string problem;
  auto meeting = world.nccl().submit(comm, call, problem);
  if (!problem.empty()) world.report(problem);
  if (!meeting) return invalid_argument;
  const int code = world.queue_meeting(call.stream, accesses, name_of(call.kind), meeting);
  return code == 0 ? nccl_success : 1;  // ncclUnhandledCudaError
}

int submit(StandIn& world, FakeComm& comm, const CollectiveCall& call,
           const std::vector<MemoryAccess>& accesses) {
  if (!world.nccl().ready(comm)) return invalid_argument;
  if (world.nccl().is_launching(comm.device)) {
    world.report(fmt::format("{} is called while NCCL still enqueues another: their order is open",
                             name_of(call.kind)));
  }
  if (std::string wrong = wrong_place(comm, call); !wrong.empty()) world.report(wrong);
  for (const MemoryAccess& access : accesses) {
    if (comm.windows.leaves(access.at, access.bytes)) {
      world.report(fmt::format("{} begins in a window and ends behind it", name_of(call.kind)));
    }
  }
  const int by_seed = world.options().seed == 0 ? 0 : world.nccl().delay();
  const int calls = world.options().nccl_calls > 0 ? world.options().nccl_calls : by_seed;
  if (calls == 0) return launch(world, comm, call, accesses);
  world.nccl().launch(
      comm, calls, [&world, &comm, call, accesses] { return launch(world, comm, call, accesses); });
  return nccl_in_progress;
}

int collect(Call name, NcclComm comm, CollectiveCall call, CudaStream stream) {
  return called(name, comm, [&](StandIn& world, FakeComm& own) {
    call.stream = reinterpret_cast<FakeStream*>(stream);
    const auto op = own.operators.find(static_cast<int>(call.op));
    if (static_cast<int>(call.op) > static_cast<int>(NcclOp::average)) {
      if (op == own.operators.end()) return invalid_argument;
      call.factor = op->second;
    }
    if (world.options().tamper) {
      world.options().tamper(world.rank(), world.uses(name, world.rank()), call);
    }
    call.places = places_of(own, call);
    return submit(world, own, call, accesses_of(own, call));
  });
}

CollectiveCall call_of(CollectiveKind kind, const void* in, void* out, std::size_t count,
                       NcclType type) {
  CollectiveCall call;
  call.kind = kind;
  call.in = static_cast<const std::byte*>(in);
  call.out = static_cast<std::byte*>(out);
  call.count = count;
  call.type = type;
  return call;
}

int get_version(int* version) {
  *version = StandIn::current().options().nccl_version;
  return 0;
}
int get_unique_id(NcclId* id) {
  return called(Call::get_unique_id, [&](StandIn& world) {
    const std::string made = world.nccl().unique_id();
    std::copy(made.begin(), made.end(), id->bytes.begin());
    return 0;
  });
}
int comm_init_rank(NcclComm* comm, int ranks, const NcclId* id, int rank, const NcclCommOptions&) {
  return called(Call::comm_init_rank, [&](StandIn& world) {
    FakeComm* const made = world.nccl().init(id->bytes.data(), ranks, rank, StandIn::device);
    *comm = reinterpret_cast<NcclComm>(made);
    if (made == nullptr) return invalid_usage;
    made->error = world.take_late_failure();
    return nccl_in_progress;
  });
}
int comm_split(NcclComm parent, int color, int key, NcclComm* comm, const NcclCommOptions&) {
  return called(Call::comm_split, parent, [&](StandIn& world, FakeComm& own) {
    *comm = nullptr;
    if (!world.nccl().ready(own)) return invalid_argument;
    world.nccl().split(own, color, key, StandIn::device, comm);
    return nccl_success;  // although it has only begun: init.cc of NCCL 2.26 to 2.29
  });
}
int comm_get_async_error(NcclComm comm, int* error) {
  return called(Call::comm_get_async_error, comm, [&](StandIn& world, FakeComm& own) {
    *error = world.nccl().state(own);
    return 0;
  });
}
int comm_finalize(NcclComm comm) {
  return called(Call::comm_finalize, comm, [&](StandIn& world, FakeComm& own) {
    world.nccl().finalize(own);
    return nccl_in_progress;
  });
}
int comm_destroy(NcclComm comm) {
  return called(Call::comm_destroy, comm, [&](StandIn& world, FakeComm& own) {
    if (own.closing == 0) world.report("a communicator is destroyed that was not finalized");
    if (!own.windows.empty()) {
      world.report("a communicator is destroyed whose windows were not deregistered");
    }
    if (!own.operators.empty()) {
      world.report("a communicator is destroyed whose operators were not destroyed");
    }
    world.nccl().destroy(&own, world.streams());
    return 0;
  });
}
int comm_abort(NcclComm comm) {
  return called(Call::comm_abort, comm, [&](StandIn& world, FakeComm& own) {
    world.nccl().destroy(&own, world.streams());
    return 0;
  });
}

int comm_window_register(NcclComm comm, void* at, std::size_t bytes, NcclWindow* window) {
  return called(Call::comm_window_register, comm, [&](StandIn& world, FakeComm& own) {
    *window = nullptr;
    if (!world.nccl().ready(own)) return invalid_argument;
    if (!world.memory().accessible(at, bytes, own.device)) return invalid_argument;
    if (!world.memory().is_one_piece(at, bytes)) {
      world.report("a window ends where its first piece of memory does, and this one has several");
    }
    const std::string differs = own.windows.add(own.group->registrations, at, bytes);
    if (!differs.empty()) world.report(differs);
    own.registering.emplace_back(window, own.windows.newest());
    own.busy = 2;
    return nccl_success;  // although it has only begun: dev_runtime.cc of NCCL 2.28
  });
}
int comm_window_deregister(NcclComm comm, NcclWindow window) {
  return called(Call::comm_window_deregister, comm, [&](StandIn&, FakeComm& own) {
    const auto number = static_cast<int>(reinterpret_cast<std::intptr_t>(window));
    return own.windows.remove(number) ? nccl_success : invalid_argument;
  });
}

int group_start() {
  return called(Call::group_start,
                [](StandIn& world) { return ++world.nccl().batch(world.rank()).depth, 0; });
}
int group_end() {
  return called(Call::group_end, [](StandIn& world) {
    FakeNccl::Batch& batch = world.nccl().batch(world.rank());
    if (--batch.depth > 0) return 0;
    auto calls = std::exchange(batch.calls, {});
    int code = std::exchange(batch.failed, nccl_success);
    if (code != nccl_success) return code;  // then nothing of the group is done
    for (auto& [comm, call] : calls) {
      if (world.options().tamper) {
        world.options().tamper(world.rank(), world.uses(Call::group_end, world.rank()), call);
      }
      std::vector<MemoryAccess> accesses;
      for (const auto& [peer, m] : call.sends) accesses.push_back({m.at, m.bytes, false});
      for (const auto& [peer, m] : call.receives) accesses.push_back({m.at, m.bytes, true});
      code = submit(world, *comm, call, accesses);
    }
    return code;
  });
}

int all_gather(const void* in, void* out, std::size_t count, NcclType type, NcclComm comm,
               CudaStream stream) {
  return collect(Call::all_gather, comm, call_of(CollectiveKind::all_gather, in, out, count, type),
                 stream);
}
int reduce_scatter(const void* in, void* out, std::size_t count, NcclType type, NcclOp op,
                   NcclComm comm, CudaStream stream) {
  CollectiveCall call = call_of(CollectiveKind::reduce_scatter, in, out, count, type);
  call.op = op;
  return collect(Call::reduce_scatter, comm, call, stream);
}
int all_reduce(const void* in, void* out, std::size_t count, NcclType type, NcclOp op,
               NcclComm comm, CudaStream stream) {
  CollectiveCall call = call_of(CollectiveKind::all_reduce, in, out, count, type);
  call.op = op;
  return collect(Call::all_reduce, comm, call, stream);
}
int reduce(const void* in, void* out, std::size_t count, NcclType type, NcclOp op, int root,
           NcclComm comm, CudaStream stream) {
  CollectiveCall call = call_of(CollectiveKind::reduce, in, out, count, type);
  call.op = op;
  call.root = root;
  return collect(Call::reduce, comm, call, stream);
}
int broadcast(const void* in, void* out, std::size_t count, NcclType type, int root, NcclComm comm,
              CudaStream stream) {
  CollectiveCall call = call_of(CollectiveKind::broadcast, in, out, count, type);
  call.root = root;
  return collect(Call::broadcast, comm, call, stream);
}

int note(Call name, NcclComm comm, int peer, CollectiveCall::Message message, CudaStream stream) {
  StandIn& all = StandIn::current();
  FakeNccl::Batch& batch = all.nccl().batch(all.rank());
  const int code = called(name, comm, [&](StandIn& world, FakeComm& own) {
    if (batch.depth == 0) world.report("a message outside of a group: it would wait for ever");
    CollectiveCall& call = batch.calls[&own];
    call.kind = CollectiveKind::exchange;
    call.stream = reinterpret_cast<FakeStream*>(stream);
    (name == Call::send ? call.sends : call.receives)[peer] = message;
    return 0;
  });
  if (code != 0) batch.failed = code;
  return code;
}
int send(const void* in, std::size_t count, NcclType type, int peer, NcclComm comm,
         CudaStream stream) {
  auto* const at = const_cast<std::byte*>(static_cast<const std::byte*>(in));
  return note(Call::send, comm, peer, {at, count * width(type)}, stream);
}
int recv(void* out, std::size_t count, NcclType type, int peer, NcclComm comm, CudaStream stream) {
  return note(Call::recv, comm, peer, {static_cast<std::byte*>(out), count * width(type)}, stream);
}

int red_op_create_pre_mul_sum(NcclOp* op, const void* factor, NcclType type, NcclComm comm) {
  return called(Call::red_op_create_pre_mul_sum, comm, [&](StandIn& world, FakeComm& own) {
    const std::span<const std::byte> number(static_cast<const std::byte*>(factor), width(type));
    const DType dtype = type == NcclType::float16    ? DType::float16
                        : type == NcclType::bfloat16 ? DType::bfloat16
                                                     : DType::float32;
    *op = world.nccl().create_operator(own, load_number(number, dtype, 0));
    return 0;
  });
}
int red_op_destroy(NcclOp op, NcclComm comm) {
  return called(Call::red_op_destroy, comm, [&](StandIn& world, FakeComm& own) {
    return world.nccl().destroy_operator(own, op) ? nccl_success : invalid_argument;
  });
}

bool last_collective(NcclCollective* collective) {
  StandIn& world = StandIn::current();
  const std::string& told = world.options().profiled;
  if (told.empty() || world.nccl().is_launching(world.rank())) return false;
  told.copy(collective->how.data(), collective->how.size() - 1);
  collective->number = world.profile();
  return true;
}

bool next_kernel(NcclKernel* kernel) { return StandIn::current().next_kernel(*kernel); }

const char* nccl_error_string(int) { return "an error of the stand-in"; }
const char* get_last_error(NcclComm) { return ""; }

}  // namespace

NcclApi nccl_table(int version) {
  const bool has_windows = version >= 22700;
  return {get_version,
          get_unique_id,
          comm_init_rank,
          comm_split,
          comm_get_async_error,
          comm_finalize,
          comm_destroy,
          comm_abort,
          has_windows ? comm_window_register : nullptr,
          has_windows ? comm_window_deregister : nullptr,
          group_start,
          group_end,
          all_gather,
          reduce_scatter,
          all_reduce,
          reduce,
          broadcast,
          send,
          recv,
          red_op_create_pre_mul_sum,
          red_op_destroy,
          last_collective,
          next_kernel,
          nccl_error_string,
          get_last_error};
}

}  // namespace tessera::test
