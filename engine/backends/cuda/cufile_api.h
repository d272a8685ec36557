// SPDX-License-Identifier: Apache-2.0
// The functions of NVIDIA's cuFile (GPUDirect Storage) that the backend calls, as a table: as
// CudaApi. They may be called by any thread, whose current device need not be the one that is
// meant.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tessera {

struct CufileApi {
  // For transfers to and from memory of `device`. cuFile's code; 0: it is done.
  int (*handle_register)(int device, void** handle, int file);
  int (*buffer_register)(int device, void* base, std::size_t bytes);

  void (*handle_deregister)(int device, void* handle);
  void (*buffer_deregister)(int device, void* base);

  /// Between a file and memory of `device`, `at` bytes behind `base`: a registered buffer's, or any
  /// place. Returns bytes moved, or what went wrong, negative: an errno, or a code of cuFile's,
  /// which are 5000 and larger.
  std::int64_t (*read)(int device, void* handle, void* base, std::size_t bytes,
                       std::int64_t file_offset, std::int64_t at);
  std::int64_t (*write)(int device, void* handle, const void* base, std::size_t bytes,
                        std::int64_t file_offset, std::int64_t at);
};

}  // namespace tessera
