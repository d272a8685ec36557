// SPDX-License-Identifier: Apache-2.0
// The CUDA runtime, and of the driver what only that has. The driver's library is found at run
// time, through the runtime: linking it would keep the module from opening where it is missing.
#include <cuda.h>
#include <cuda_runtime_api.h>

#include <cstring>

#include "engine/backends/cuda/module/tables.h"

namespace tessera {
namespace {

constexpr unsigned int driver_api = 12000;  // the version whose signatures are called here

cudaStream_t native(CudaStream stream) { return reinterpret_cast<cudaStream_t>(stream); }
cudaEvent_t native(CudaEvent event) { return reinterpret_cast<cudaEvent_t>(event); }
cudaGraph_t native(CudaGraph graph) { return reinterpret_cast<cudaGraph_t>(graph); }
cudaGraphExec_t native(CudaGraphExec graph) { return reinterpret_cast<cudaGraphExec_t>(graph); }
CUdeviceptr address(void* at) { return reinterpret_cast<CUdeviceptr>(at); }

// A function of the driver with its arguments; codes of driver and runtime mean the same.
template <class Function, class... Arguments>
int driver(const char* name, Arguments... arguments) {
  void* found = nullptr;
  cudaDriverEntryPointQueryResult result = cudaDriverEntryPointSymbolNotFound;
  const cudaError_t code =
      cudaGetDriverEntryPointByVersion(name, &found, driver_api, cudaEnableDefault, &result);
  if (code != cudaSuccess) return code;
  if (found == nullptr || result != cudaDriverEntryPointSuccess) return cudaErrorInsufficientDriver;
  return reinterpret_cast<Function*>(found)(arguments...);
}

CUmemAllocationProp pinned_on(int device) {
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  properties.location.id = device;
  const auto has = [device](CUdevice_attribute what) {
    int value = 0;
    driver<decltype(cuDeviceGetAttribute)>("cuDeviceGetAttribute", &value, what, CUdevice{device});
    return value != 0;
  };
  // As ncclMemAlloc asks for it: other processes of this machine may map it, for windows of NCCL.
  // Some virtual machines do not know how, and refuse memory of which it is asked.
  properties.requestedHandleTypes =
      has(CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED)
          ? CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
          : CU_MEM_HANDLE_TYPE_NONE;
  // Network cards and drives may reach it, if the platform knows how (NCCL's registered buffers,
  // GPUDirect Storage).
  properties.allocFlags.gpuDirectRDMACapable =
      has(CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED) ? 1 : 0;
  return properties;
}

// The driver's memory functions need a context, which the runtime makes when it is first used.
int use_device(int device) {
  const cudaError_t code = cudaSetDevice(device);
  return code == cudaSuccess ? cudaFree(nullptr) : code;
}

int device_get_name(char* name, int bytes, int device) {
  cudaDeviceProp properties{};
  const cudaError_t code = cudaGetDeviceProperties(&properties, device);
  std::strncpy(name, code == cudaSuccess ? properties.name : "?", static_cast<std::size_t>(bytes));
  name[bytes - 1] = '\0';
  return code;
}

int device_get_capability(int* capability, int device) {
  int major = 0;
  int minor = 0;
  cudaError_t code = cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device);
  if (code == cudaSuccess) {
    code = cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device);
  }
  *capability = 10 * major + minor;
  return code;
}

int mem_get_granularity(std::size_t* bytes, int device) {
  const CUmemAllocationProp properties = pinned_on(device);
  return driver<decltype(cuMemGetAllocationGranularity)>(
      "cuMemGetAllocationGranularity", bytes, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM);
}
int mem_address_reserve(void** base, std::size_t bytes) {
  CUdeviceptr range = 0;
  const int code = driver<decltype(cuMemAddressReserve)>("cuMemAddressReserve", &range, bytes,
                                                         std::size_t{0}, CUdeviceptr{0}, 0ULL);
  *base = reinterpret_cast<void*>(range);
  return code;
}
int mem_address_free(void* base, std::size_t bytes) {
  return driver<decltype(cuMemAddressFree)>("cuMemAddressFree", address(base), bytes);
}
int mem_create(CudaMemory* memory, std::size_t bytes, int device) {
  const CUmemAllocationProp properties = pinned_on(device);
  CUmemGenericAllocationHandle handle = 0;
  const int code = driver<decltype(cuMemCreate)>("cuMemCreate", &handle, bytes, &properties, 0ULL);
  *memory = handle;
  return code;
}
int mem_map(void* at, std::size_t bytes, CudaMemory memory) {
  return driver<decltype(cuMemMap)>("cuMemMap", address(at), bytes, std::size_t{0},
                                    CUmemGenericAllocationHandle{memory}, 0ULL);
}
int mem_set_access(void* at, std::size_t bytes, int device) {
  CUmemAccessDesc access{};
  access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  access.location.id = device;
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  return driver<decltype(cuMemSetAccess)>("cuMemSetAccess", address(at), bytes, &access,
                                          std::size_t{1});
}
int mem_unmap(void* at, std::size_t bytes) {
  return driver<decltype(cuMemUnmap)>("cuMemUnmap", address(at), bytes);
}
int mem_release(CudaMemory memory) {
  return driver<decltype(cuMemRelease)>("cuMemRelease", CUmemGenericAllocationHandle{memory});
}

int stream_create(CudaStream* stream, int priority) {
  return cudaStreamCreateWithPriority(reinterpret_cast<cudaStream_t*>(stream),
                                      cudaStreamNonBlocking, priority);
}
int stream_wait_value(CudaStream stream, const std::uint32_t* word, std::uint32_t value) {
  return driver<decltype(cuStreamWaitValue32)>(
      "cuStreamWaitValue32", reinterpret_cast<CUstream>(stream),
      address(const_cast<std::uint32_t*>(word)), cuuint32_t{value},
      unsigned{CU_STREAM_WAIT_VALUE_GEQ});
}
int stream_write_value(CudaStream stream, std::uint32_t* word, std::uint32_t value) {
  return driver<decltype(cuStreamWriteValue32)>(
      "cuStreamWriteValue32", reinterpret_cast<CUstream>(stream), address(word), cuuint32_t{value},
      unsigned{CU_STREAM_WRITE_VALUE_DEFAULT});
}
int event_create(CudaEvent* event) {
  return cudaEventCreateWithFlags(reinterpret_cast<cudaEvent_t*>(event), cudaEventDisableTiming);
}
int memcpy_async(void* to, const void* from, std::size_t bytes, CudaStream stream) {
  return cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, native(stream));
}
int memcpy_2d_async(void* to, std::size_t to_pitch, const void* from, std::size_t from_pitch,
                    std::size_t width, std::size_t height, CudaStream stream) {
  return cudaMemcpy2DAsync(to, to_pitch, from, from_pitch, width, height, cudaMemcpyDefault,
                           native(stream));
}

}  // namespace

CudaApi real_cuda() {
  CudaApi api{};
  api.driver_get_version = [](int* version) -> int { return cudaDriverGetVersion(version); };
  api.runtime_get_version = [](int* version) -> int { return cudaRuntimeGetVersion(version); };
  api.get_device_count = [](int* count) -> int { return cudaGetDeviceCount(count); };
  api.set_device = use_device;
  api.device_get_name = device_get_name;
  api.device_get_capability = device_get_capability;
  api.mem_get_info = [](std::size_t* free, std::size_t* total) -> int {
    return cudaMemGetInfo(free, total);
  };
  api.mem_get_granularity = mem_get_granularity;
  api.mem_address_reserve = mem_address_reserve;
  api.mem_address_free = mem_address_free;
  api.mem_create = mem_create;
  api.mem_map = mem_map;
  api.mem_set_access = mem_set_access;
  api.mem_unmap = mem_unmap;
  api.mem_release = mem_release;
  api.host_alloc = [](void** base, std::size_t bytes) -> int {
    return cudaHostAlloc(base, bytes, cudaHostAllocPortable);
  };
  api.free_host = [](void* base) -> int { return cudaFreeHost(base); };
  api.stream_create = stream_create;
  api.stream_destroy = [](CudaStream stream) -> int { return cudaStreamDestroy(native(stream)); };
  api.stream_wait_event = [](CudaStream stream, CudaEvent event) -> int {
    return cudaStreamWaitEvent(native(stream), native(event), 0);
  };
  api.stream_wait_value = stream_wait_value;
  api.stream_write_value = stream_write_value;
  api.event_create = event_create;
  api.event_create_timed = [](CudaEvent* event) -> int {
    return cudaEventCreate(reinterpret_cast<cudaEvent_t*>(event));
  };
  api.event_destroy = [](CudaEvent event) -> int { return cudaEventDestroy(native(event)); };
  api.event_record = [](CudaEvent event, CudaStream stream) -> int {
    return cudaEventRecord(native(event), native(stream));
  };
  api.event_query = [](CudaEvent event) -> int { return cudaEventQuery(native(event)); };
  api.event_elapsed_time = [](float* milliseconds, CudaEvent from, CudaEvent to) -> int {
    return cudaEventElapsedTime(milliseconds, native(from), native(to));
  };
  api.stream_begin_capture = [](CudaStream stream) -> int {
    // Other threads, NCCL's, may go on as they like.
    return cudaStreamBeginCapture(native(stream), cudaStreamCaptureModeThreadLocal);
  };
  api.stream_end_capture = [](CudaStream stream, CudaGraph* graph) -> int {
    return cudaStreamEndCapture(native(stream), reinterpret_cast<cudaGraph_t*>(graph));
  };
  api.graph_instantiate = [](CudaGraphExec* made, CudaGraph graph) -> int {
    return cudaGraphInstantiate(reinterpret_cast<cudaGraphExec_t*>(made), native(graph), 0);
  };
  api.graph_destroy = [](CudaGraph graph) -> int { return cudaGraphDestroy(native(graph)); };
  api.graph_launch = [](CudaGraphExec graph, CudaStream stream) -> int {
    return cudaGraphLaunch(native(graph), native(stream));
  };
  api.graph_exec_destroy = [](CudaGraphExec graph) -> int {
    return cudaGraphExecDestroy(native(graph));
  };
  api.memcpy_async = memcpy_async;
  api.memcpy_2d_async = memcpy_2d_async;
  api.memset_async = [](void* to, int value, std::size_t bytes, CudaStream stream) -> int {
    return cudaMemsetAsync(to, value, bytes, native(stream));
  };
  api.get_error_string = [](int code) -> const char* {
    return cudaGetErrorString(static_cast<cudaError_t>(code));
  };
  return api;
}

}  // namespace tessera
