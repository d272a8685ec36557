// SPDX-License-Identifier: Apache-2.0
// A file whose blocks move to and from device memory by cuFile, and to and from host memory by
// preadv and pwritev.
//
// The idea: memory that is read into again and again, a swap buffer, is registered, so that the
// drive reaches it; memory that is written once is not, as registering takes longer than writing.
#pragma once

#include <map>
#include <mutex>

#include "engine/backends/cuda/cufile_api.h"
#include "engine/swap/block_io.h"

namespace tessera {

class GpuDirectFile {
 public:
  /// Between memory of `device` and the one file that requests name, which must outlive it.
  GpuDirectFile(const CufileApi& api, int device) : api_(api), device_(device) {}
  GpuDirectFile(const GpuDirectFile&) = delete;
  GpuDirectFile& operator=(const GpuDirectFile&) = delete;
  ~GpuDirectFile();

  /// As MoveBlock; by several threads at a time.
  std::int64_t move(const BlockRequest& request);

 private:
  struct Registered {
    std::byte* end = nullptr;
    bool accepted = false;
  };
  void register_buffer(std::span<std::byte> buffer);

  const CufileApi api_;
  const int device_;
  std::mutex mutex_;
  void* handle_ = nullptr;                    // of the file, once it is known
  std::map<std::byte*, Registered> buffers_;  // by begin
};

}  // namespace tessera
