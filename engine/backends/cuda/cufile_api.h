// SPDX-License-Identifier: Apache-2.0
// The functions of NVIDIA's cuFile (GPUDirect Storage) that the backend calls, as a table: as
// CudaApi. They may be called by any thread.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tessera {

struct CufileApi {
  // cuFile's code; 0: it is done.
  int (*handle_register)(void** handle, int file);
  int (*buffer_register)(void* base, std::size_t bytes);  // of a device

  void (*handle_deregister)(void* handle);
  void (*buffer_deregister)(void* base);

  /// Between a file and memory of `device`, `at` bytes behind `base`: a registered buffer's, or any
  /// place. Returns bytes moved, or what went wrong, negative: an errno, or a code of cuFile's,
  /// which are 5000 and larger.
  std::int64_t (*read)(int device, void* handle, void* base, std::size_t bytes,
                       std::int64_t file_offset, std::int64_t at);
  std::int64_t (*write)(int device, void* handle, const void* base, std::size_t bytes,
                        std::int64_t file_offset, std::int64_t at);
};

}  // namespace tessera
