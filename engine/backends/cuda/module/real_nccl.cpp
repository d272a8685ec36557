// SPDX-License-Identifier: Apache-2.0
// NCCL, with communicators that never block.
#include <nccl.h>

#include <cstring>

#include "engine/backends/cuda/module/nccl_profiler.h"
#include "engine/backends/cuda/module/tables.h"

#if NCCL_VERSION_CODE >= 22700
// An older library has none of these; the module opens all the same.
#pragma weak ncclCommWindowRegister
#pragma weak ncclCommWindowDeregister
#endif

namespace tessera {
namespace {

static_assert(sizeof(ncclUniqueId) == sizeof(NcclId));
static_assert(static_cast<int>(ncclInProgress) == nccl_in_progress);
static_assert(static_cast<int>(ncclAvg) == static_cast<int>(NcclOp::average));
static_assert(static_cast<int>(ncclBfloat16) == static_cast<int>(NcclType::bfloat16));
static_assert(static_cast<int>(ncclFloat32) == static_cast<int>(NcclType::float32));
static_assert(NCCL_SPLIT_NOCOLOR == nccl_no_color);

ncclComm_t native(NcclComm comm) { return reinterpret_cast<ncclComm_t>(comm); }
ncclComm_t* native(NcclComm* comm) { return reinterpret_cast<ncclComm_t*>(comm); }
cudaStream_t native(CudaStream stream) { return reinterpret_cast<cudaStream_t>(stream); }
ncclDataType_t native(NcclType type) { return static_cast<ncclDataType_t>(type); }
ncclRedOp_t native(NcclOp op) { return static_cast<ncclRedOp_t>(op); }

ncclConfig_t config([[maybe_unused]] const NcclCommOptions& options) {
  ncclConfig_t made = NCCL_CONFIG_INITIALIZER;
  made.blocking = 0;
#if NCCL_VERSION_CODE >= 22700
  made.commName = options.name;
#endif
#if NCCL_VERSION_CODE >= 22800
  if (options.copy_engines) made.CTAPolicy = NCCL_CTA_POLICY_ZERO;
#endif
  return made;
}

int comm_init_rank(NcclComm* comm, int ranks, const NcclId* id, int rank,
                   const NcclCommOptions& options) {
  ncclUniqueId unique;
  std::memcpy(&unique, id->bytes.data(), sizeof unique);
  ncclConfig_t own = config(options);
  return ncclCommInitRankConfig(native(comm), ranks, unique, rank, &own);
}
int comm_split(NcclComm parent, int color, int key, NcclComm* comm,
               const NcclCommOptions& options) {
  ncclConfig_t own = config(options);
  return ncclCommSplit(native(parent), color, key, native(comm), &own);
}
int comm_get_async_error(NcclComm comm, int* error) {
  ncclResult_t state = ncclSuccess;
  const ncclResult_t code = ncclCommGetAsyncError(native(comm), &state);
  *error = state;
  return code;
}

#if NCCL_VERSION_CODE >= 22700
int comm_window_register(NcclComm comm, void* at, std::size_t bytes, NcclWindow* window) {
  return ncclCommWindowRegister(native(comm), at, bytes, reinterpret_cast<ncclWindow_t*>(window),
                                NCCL_WIN_COLL_SYMMETRIC);
}
#endif

int all_gather(const void* in, void* out, std::size_t count, NcclType type, NcclComm comm,
               CudaStream stream) {
  return ncclAllGather(in, out, count, native(type), native(comm), native(stream));
}
int reduce_scatter(const void* in, void* out, std::size_t count, NcclType type, NcclOp op,
                   NcclComm comm, CudaStream stream) {
  return ncclReduceScatter(in, out, count, native(type), native(op), native(comm), native(stream));
}
int all_reduce(const void* in, void* out, std::size_t count, NcclType type, NcclOp op,
               NcclComm comm, CudaStream stream) {
  return ncclAllReduce(in, out, count, native(type), native(op), native(comm), native(stream));
}
int reduce(const void* in, void* out, std::size_t count, NcclType type, NcclOp op, int root,
           NcclComm comm, CudaStream stream) {
  return ncclReduce(in, out, count, native(type), native(op), root, native(comm), native(stream));
}
int broadcast(const void* in, void* out, std::size_t count, NcclType type, int root, NcclComm comm,
              CudaStream stream) {
  return ncclBroadcast(in, out, count, native(type), root, native(comm), native(stream));
}
int send(const void* in, std::size_t count, NcclType type, int peer, NcclComm comm,
         CudaStream stream) {
  return ncclSend(in, count, native(type), peer, native(comm), native(stream));
}
int recv(void* out, std::size_t count, NcclType type, int peer, NcclComm comm, CudaStream stream) {
  return ncclRecv(out, count, native(type), peer, native(comm), native(stream));
}

int red_op_create_pre_mul_sum(NcclOp* op, const void* factor, NcclType type, NcclComm comm) {
  ncclRedOp_t made = ncclSum;
  const ncclResult_t code = ncclRedOpCreatePreMulSum(&made, const_cast<void*>(factor), native(type),
                                                     ncclScalarHostImmediate, native(comm));
  *op = static_cast<NcclOp>(made);
  return code;
}

}  // namespace

NcclApi real_nccl() {
  NcclApi api{};
  api.get_version = [](int* version) -> int { return ncclGetVersion(version); };
  api.get_unique_id = [](NcclId* id) -> int {
    return ncclGetUniqueId(reinterpret_cast<ncclUniqueId*>(id));
  };
  api.comm_init_rank = comm_init_rank;
  api.comm_split = comm_split;
  api.comm_get_async_error = comm_get_async_error;
  api.comm_finalize = [](NcclComm comm) -> int { return ncclCommFinalize(native(comm)); };
  api.comm_destroy = [](NcclComm comm) -> int { return ncclCommDestroy(native(comm)); };
  api.comm_abort = [](NcclComm comm) -> int { return ncclCommAbort(native(comm)); };
#if NCCL_VERSION_CODE >= 22700
  if (&ncclCommWindowRegister != nullptr) {  // else the library is older than its header was
    api.comm_window_register = comm_window_register;
    api.comm_window_deregister = [](NcclComm comm, NcclWindow window) -> int {
      return ncclCommWindowDeregister(native(comm), reinterpret_cast<ncclWindow_t>(window));
    };
  }
#endif
  api.group_start = []() -> int { return ncclGroupStart(); };
  api.group_end = []() -> int { return ncclGroupEnd(); };
  api.all_gather = all_gather;
  api.reduce_scatter = reduce_scatter;
  api.all_reduce = all_reduce;
  api.reduce = reduce;
  api.broadcast = broadcast;
  api.send = send;
  api.recv = recv;
  api.red_op_create_pre_mul_sum = red_op_create_pre_mul_sum;
  api.red_op_destroy = [](NcclOp op, NcclComm comm) -> int {
    return ncclRedOpDestroy(native(op), native(comm));
  };
  api.last_collective = last_collective;
  api.next_kernel = next_kernel;
  api.get_error_string = [](int code) -> const char* {
    return ncclGetErrorString(static_cast<ncclResult_t>(code));
  };
  api.get_last_error = [](NcclComm comm) -> const char* { return ncclGetLastError(native(comm)); };
  return api;
}

}  // namespace tessera
