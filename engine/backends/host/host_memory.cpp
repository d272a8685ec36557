// SPDX-License-Identifier: Apache-2.0
#include "engine/backends/host/host_memory.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace tessera {

Result<HostMemory> HostMemory::reserve() {
  const Bytes bytes{static_cast<std::int64_t>(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGE_SIZE)};
  void* const base = mmap(nullptr, static_cast<std::size_t>(bytes.value), PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (base == MAP_FAILED) {
    return Status(
        Code::out_of_memory,
        fmt::format("cannot reserve {} bytes of addresses: {}; raise the limit of virtual "
                    "memory (ulimit -v)",
                    bytes.value, std::strerror(errno)));
  }
  HostMemory memory;
  memory.base_ = static_cast<std::byte*>(base);
  memory.bytes_ = bytes;
  return memory;
}

HostMemory::HostMemory(HostMemory&& other) noexcept
    : base_(std::exchange(other.base_, nullptr)), bytes_(std::exchange(other.bytes_, Bytes{})) {}

HostMemory& HostMemory::operator=(HostMemory&& other) noexcept {
  std::swap(base_, other.base_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

HostMemory::~HostMemory() {
  if (base_ != nullptr) munmap(base_, static_cast<std::size_t>(bytes_.value));
}

std::span<std::byte> HostMemory::at(Bytes offset, Bytes bytes) const {
  TESSERA_ASSERT(offset >= Bytes{0} && offset + bytes <= bytes_, "a buffer lies in its memory");
  return {base_ + offset.value, static_cast<std::size_t>(bytes.value)};
}

}  // namespace tessera
