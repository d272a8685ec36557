// SPDX-License-Identifier: Apache-2.0
// The functions of NCCL that the backend calls, as a table; see cuda_api.h for why.
//
// Communicators do not block: any call may return `nccl_in_progress`, and `comm_get_async_error`
// says when it is over. Only so can a communicator be aborted at any point.
#pragma once

#include <array>
#include <cstddef>

#include "engine/backends/cuda/cuda_api.h"
#include "tessera/types.h"

namespace tessera {

using NcclComm = struct NcclCommTag*;
using NcclWindow = struct NcclWindowTag*;
struct NcclId {
  std::array<char, 128> bytes{};
};

inline constexpr int nccl_success = 0;
inline constexpr int nccl_in_progress = 7;
inline constexpr int nccl_no_color = -1;
inline constexpr int nccl_in_launch_order = 22600;  // NCCL_LAUNCH_ORDER_IMPLICIT is known from here

struct NcclCommOptions {
  const char* name = "";
  /// Copy engines instead of processors move what is in windows, where they can (NCCL 2.28).
  bool copy_engines = false;
};

// ncclRedOp_t and ncclDataType_t
enum class NcclOp : int {
  sum = 0,
  product = 1,
  max = 2,
  min = 3,
  average = 4
};  // or a created one
enum class NcclType : int {
  int8 = 0,
  uint8 = 1,
  int32 = 2,
  int64 = 4,
  float16 = 6,
  float32 = 7,
  float64 = 8,
  bfloat16 = 9
};

/// How NCCL carries out a collective: "RING SIMPLE, 24 channels".
struct NcclCollective {
  std::array<char, 64> how{};  // ends with 0
  std::int64_t number = 0;     // ascending; what NcclKernel calls it
};

struct NcclKernel {
  std::int64_t number = 0;
  Time time = 0;  // ns on the device, from the start of its first channel to the end of its last
};

struct NcclApi {
  int (*get_version)(int* version);  // 22809 is 2.28.9
  int (*get_unique_id)(NcclId* id);
  int (*comm_init_rank)(NcclComm* comm, int ranks, const NcclId* id, int rank,
                        const NcclCommOptions& options);
  int (*comm_split)(NcclComm parent, int color, int key, NcclComm* comm,
                    const NcclCommOptions& options);
  int (*comm_get_async_error)(NcclComm comm, int* error);
  int (*comm_finalize)(NcclComm comm);
  int (*comm_destroy)(NcclComm comm);
  int (*comm_abort)(NcclComm comm);
  /// Symmetric windows. Null: this NCCL has none. Collective, in the same order.
  int (*comm_window_register)(NcclComm comm, void* at, std::size_t bytes, NcclWindow* window);
  int (*comm_window_deregister)(NcclComm comm, NcclWindow window);
  int (*group_start)();
  int (*group_end)();

  int (*all_gather)(const void* in, void* out, std::size_t count, NcclType type, NcclComm comm,
                    CudaStream stream);  // count: of one rank
  int (*reduce_scatter)(const void* in, void* out, std::size_t count, NcclType type, NcclOp op,
                        NcclComm comm, CudaStream stream);  // count: of one rank
  int (*all_reduce)(const void* in, void* out, std::size_t count, NcclType type, NcclOp op,
                    NcclComm comm, CudaStream stream);
  int (*reduce)(const void* in, void* out, std::size_t count, NcclType type, NcclOp op, int root,
                NcclComm comm, CudaStream stream);
  int (*broadcast)(const void* in, void* out, std::size_t count, NcclType type, int root,
                   NcclComm comm, CudaStream stream);
  int (*send)(const void* in, std::size_t count, NcclType type, int peer, NcclComm comm,
              CudaStream stream);
  int (*recv)(void* out, std::size_t count, NcclType type, int peer, NcclComm comm,
              CudaStream stream);

  /// Sum of `factor` (one number of `type`, in host memory) times the input.
  int (*red_op_create_pre_mul_sum)(NcclOp* op, const void* factor, NcclType type, NcclComm comm);
  int (*red_op_destroy)(NcclOp op, NcclComm comm);

  /// Not a function of NCCL: the profiler's record of the collective that this process enqueued
  /// last. Each is returned once; false: the profiler is silent.
  bool (*last_collective)(NcclCollective* collective);
  /// The next collective whose kernels have ended, each once, in the order of their ends. Returns
  /// false if there is none.
  bool (*next_kernel)(NcclKernel* kernel);

  const char* (*get_error_string)(int code);
  const char* (*get_last_error)(NcclComm comm);
};

}  // namespace tessera
