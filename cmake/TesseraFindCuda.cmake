# SPDX-License-Identifier: Apache-2.0
# Sets cuda_found: whether the module for GPUs can be built here. Only looks; no compiler is run.
# Inside of another project nothing is detected: it may have a CUDA of its own.
# CUDA 12.5 has the versioned look-up of the driver's functions; NCCL 2.20 is what the backend needs.
set(cuda_found OFF)
if(PROJECT_IS_TOP_LEVEL AND NOT TESSERA_SANITIZE)
  find_package(CUDAToolkit 12.5 QUIET)
  find_package(NCCL 2.20 QUIET)
  if(CUDAToolkit_FOUND AND CUDAToolkit_NVCC_EXECUTABLE AND NCCL_FOUND)
    set(cuda_found ON)
  endif()
endif()
