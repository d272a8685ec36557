// SPDX-License-Identifier: Apache-2.0
// The module with the real CUDA and NCCL: opened when it is asked for, so that the program starts
// on machines without them and can say what is missing.
#pragma once

#include <memory>
#include <string>

#include "engine/backends/cuda/cuda_api.h"
#include "engine/backends/cuda/cufile_api.h"
#include "engine/backends/cuda/device_math.h"
#include "engine/backends/cuda/kernel_api.h"
#include "engine/backends/cuda/kernel_loads.h"
#include "engine/backends/cuda/nccl_api.h"
#include "tessera/status.h"

namespace tessera {

/// Changes with any of the tables, so that a program refuses a module of another build.
inline constexpr int cuda_module_version = 12;
/// The NCCL versions whose calls have the meaning that the backend assumes: 2.20 to before 3.0.
inline constexpr int nccl_version_min = 22000;
inline constexpr int nccl_version_end = 30000;
/// The least compute capability that the kernels run on: products of bfloat16 by tensor cores.
inline constexpr int capability_min = 80;

struct CudaModule {
  int version = cuda_module_version;
  CudaApi cuda;
  NcclApi nccl;
  KernelApi kernels;
  /// Returns none if cuBLASLt does not start.
  std::unique_ptr<DeviceMath> (*make_math)(const MathOptions& options) = nullptr;
  /// The version of cuBLASLt: 130100 is 13.1.0.
  std::size_t (*cublas_version)() = nullptr;
  /// The version of cuFile: "1.15". Fails: not_supported.
  Result<std::string> (*find_cufile)() = nullptr;
  /// Starts it. Fails: not_supported.
  Result<CufileApi> (*start_cufile)() = nullptr;
  /// Whom the calling thread asks before it launches what has not run yet.
  void (*set_before_loads)(const KernelLoads& asked) = nullptr;
  /// The device works while nobody calls it; not so the tests' stand-in.
  bool works_alone = true;
};

/// The function that the module exports as "tessera_cuda_module".
using GetCudaModule = const CudaModule* (*)();

/// libtessera_cuda.so in `folder` if that is not empty, else where find_module
/// (engine/backends/host/module_file.h) looks. It stays open until the process ends.
/// Fails: not_supported (no such module, or a library that it needs is missing), naming the file.
Result<const CudaModule*> open_cuda_module(const std::string& folder);

/// Whether there is a GPU to run on, and libraries that fit; of several GPUs the first is looked
/// at. Fails: not_supported, saying which of driver, device and NCCL is missing or too old.
Status check_cuda(const CudaModule& module);

/// Whether a device computes what is asked for, and is not left to another way of computing it.
/// Fails: not_supported, naming the device, its compute capability or the version of cuBLASLt.
Status check_device(const CudaModule& module, int device, const MathOptions& wanted);

/// "NVIDIA H200"; "" if the driver does not say.
std::string name_of_device(const CudaApi& api, int device);

/// "NVIDIA H200, CUDA 13.0, driver 13.0, NCCL 2.28.9".
std::string describe_cuda(const CudaModule& module);

}  // namespace tessera
