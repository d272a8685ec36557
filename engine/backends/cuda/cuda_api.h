// SPDX-License-Identifier: Apache-2.0
// The functions of the CUDA runtime and driver that the backend calls, as a table.
//
// The idea: the backend needs no CUDA header, so it is compiled and tested everywhere. The module
// fills the table from the real libraries, tests fill it from a stand-in. Every function returns a
// CUDA error code and has the name of the CUDA function that it calls.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tessera {

using CudaStream = struct CudaStreamTag*;
using CudaEvent = struct CudaEventTag*;
using CudaGraph = struct CudaGraphTag*;
using CudaGraphExec = struct CudaGraphExecTag*;
using CudaMemory = std::uint64_t;  // CUmemGenericAllocationHandle

inline constexpr int cuda_success = 0;
inline constexpr int cuda_out_of_memory = 2;
inline constexpr int cuda_insufficient_driver = 35;
inline constexpr int cuda_no_device = 100;
inline constexpr int cuda_not_ready = 600;

struct CudaApi {
  int (*driver_get_version)(int* version);   // 0: there is no driver
  int (*runtime_get_version)(int* version);  // 13000 is 13.0
  int (*get_device_count)(int* count);
  int (*set_device)(int device);  // for the calling thread
  int (*device_get_name)(char* name, int bytes, int device);
  int (*device_get_capability)(int* capability, int device);  // 90 is 9.0
  int (*mem_get_info)(std::size_t* free, std::size_t* total);

  // A range of addresses, and memory that is mapped into it piece by piece.
  int (*mem_get_granularity)(std::size_t* bytes, int device);
  int (*mem_address_reserve)(void** base, std::size_t bytes);
  int (*mem_address_free)(void* base, std::size_t bytes);
  int (*mem_create)(CudaMemory* memory, std::size_t bytes, int device);
  int (*mem_map)(void* at, std::size_t bytes, CudaMemory memory);
  int (*mem_set_access)(void* at, std::size_t bytes, int device);
  int (*mem_unmap)(void* at, std::size_t bytes);
  int (*mem_release)(CudaMemory memory);

  // Pinned host memory.
  int (*host_alloc)(void** base, std::size_t bytes);
  int (*free_host)(void* base);

  int (*stream_create)(CudaStream* stream, int priority);  // never waits for the null stream
  int (*stream_destroy)(CudaStream stream);
  int (*stream_wait_event)(CudaStream stream, CudaEvent event);
  /// Holds the stream until `*word`, in pinned memory, has reached `value`. They are compared
  /// modulo 2^32, so the word may wrap around.
  int (*stream_wait_value)(CudaStream stream, const std::uint32_t* word, std::uint32_t value);
  /// Writes `value` to `*word`, in pinned memory, when the stream comes to it; what the stream did
  /// before is visible with it.
  int (*stream_write_value)(CudaStream stream, std::uint32_t* word, std::uint32_t value);
  int (*event_create)(CudaEvent* event);        // without timing
  int (*event_create_timed)(CudaEvent* event);  // knows when it happened
  int (*event_destroy)(CudaEvent event);
  int (*event_record)(CudaEvent event, CudaStream stream);
  int (*event_query)(CudaEvent event);  // cuda_not_ready: not yet
  /// The time between two events that have happened; negative if `to` was first. Each is accurate
  /// to half a microsecond, and a float has few digits: `from` should be recent.
  int (*event_elapsed_time)(float* milliseconds, CudaEvent from, CudaEvent to);

  // Work enqueued on the stream between begin and end is recorded instead of executed; meanwhile
  // this thread must not call any other function of CUDA.
  int (*stream_begin_capture)(CudaStream stream);
  int (*stream_end_capture)(CudaStream stream, CudaGraph* graph);
  int (*graph_instantiate)(CudaGraphExec* made, CudaGraph graph);
  int (*graph_destroy)(CudaGraph graph);
  int (*graph_launch)(CudaGraphExec graph, CudaStream stream);
  int (*graph_exec_destroy)(CudaGraphExec graph);

  int (*memcpy_async)(void* to, const void* from, std::size_t bytes, CudaStream stream);
  int (*memcpy_2d_async)(void* to, std::size_t to_pitch, const void* from, std::size_t from_pitch,
                         std::size_t width, std::size_t height, CudaStream stream);
  int (*memset_async)(void* to, int value, std::size_t bytes, CudaStream stream);

  const char* (*get_error_string)(int code);
};

}  // namespace tessera
