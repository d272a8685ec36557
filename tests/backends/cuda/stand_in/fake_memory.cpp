// SPDX-License-Identifier: Apache-2.0
#include "tests/backends/cuda/stand_in/fake_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <utility>

#include "tessera/assert.h"

namespace tessera::test {
namespace {

std::uintptr_t address(const void* at) { return reinterpret_cast<std::uintptr_t>(at); }

// A page of poison as a file, of which whoever writes gets a copy: most pages are never touched.
int poison() {
  static const int file = [] {
    const int made = memfd_create("poison", MFD_CLOEXEC);
    const std::vector<char> page(fake_page_bytes, static_cast<char>(fake_poison));
    const bool filled =
        ::write(made, page.data(), page.size()) == static_cast<ssize_t>(page.size());
    TESSERA_ASSERT(filled, "a file in memory");
    return made;
  }();
  return file;
}

}  // namespace

FakeMemory::~FakeMemory() {
  for (const auto& [base, bytes] : reserved_) munmap(reinterpret_cast<void*>(base), bytes);
}

bool FakeMemory::reserve(void** base, std::size_t bytes) {
  void* const range =
      mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (range == MAP_FAILED) return false;
  reserved_[address(range)] = bytes;
  *base = range;
  return true;
}

bool FakeMemory::unreserve(void* base) {
  const auto found = reserved_.find(address(base));
  if (found == reserved_.end()) return false;
  const auto inside = mapped_.lower_bound(found->first);
  if (inside != mapped_.end() && inside->first < found->first + found->second) return false;
  munmap(base, found->second);
  reserved_.erase(found);
  return true;
}

bool FakeMemory::create(std::uint64_t* handle, std::size_t bytes, int device) {
  std::size_t& free = free_[static_cast<std::size_t>(device)];
  if (bytes > free || bytes % fake_page_bytes != 0) return false;
  free -= bytes;
  *handle = next_handle_++;
  pieces_[*handle] = {bytes, device};
  return true;
}

bool FakeMemory::release(std::uint64_t handle) {
  const auto found = pieces_.find(handle);
  if (found == pieces_.end()) return false;
  free_[static_cast<std::size_t>(found->second.device)] += found->second.bytes;
  pieces_.erase(found);
  return true;
}

bool FakeMemory::map(void* at, std::size_t bytes, std::uint64_t handle) {
  const auto piece = pieces_.find(handle);
  const bool fits = piece != pieces_.end() && piece->second.bytes == bytes;
  if (!fits || mapped_.contains(address(at))) return false;
  mapped_[address(at)] = {bytes, handle, -1};
  return true;
}

bool FakeMemory::give_access(void* at, std::size_t bytes, int device) {
  const auto found = mapped_.find(address(at));
  if (found == mapped_.end() || found->second.bytes != bytes) return false;
  found->second.device = device;
  for (std::size_t page = 0; page < bytes; page += fake_page_bytes) {
    mmap(static_cast<std::byte*>(at) + page, fake_page_bytes, PROT_READ | PROT_WRITE,
         MAP_PRIVATE | MAP_FIXED | MAP_NORESERVE, poison(), 0);
  }
  return true;
}

bool FakeMemory::unmap(void* at, std::size_t bytes) {
  const auto found = mapped_.find(address(at));
  if (found == mapped_.end() || found->second.bytes != bytes) return false;
  mapped_.erase(found);
  mmap(at, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0);
  return true;
}

bool FakeMemory::pin(void** base, std::size_t bytes) {
  std::vector<std::byte> range(bytes, static_cast<std::byte>(fake_poison));
  *base = range.data();
  pinned_[address(*base)] = std::move(range);
  return true;
}

std::size_t FakeMemory::unpin(void* base) {
  const auto found = pinned_.find(address(base));
  if (found == pinned_.end()) return 0;
  const std::size_t bytes = found->second.size();
  pinned_.erase(found);
  return bytes;
}

bool FakeMemory::accessible(const void* at, std::size_t bytes, int device) const {
  std::uintptr_t begin = address(at);
  const std::uintptr_t end = begin + bytes;
  const auto pinned = pinned_.upper_bound(begin);
  if (pinned != pinned_.begin()) {
    const auto& [base, range] = *std::prev(pinned);
    if (end <= base + range.size()) return true;
  }
  while (begin < end) {  // neighbouring pieces are one range
    auto mapping = mapped_.upper_bound(begin);
    if (mapping == mapped_.begin()) return false;
    --mapping;
    if (mapping->second.device != device) return false;
    const std::uintptr_t mapping_end = mapping->first + mapping->second.bytes;
    if (mapping_end <= begin) return false;
    begin = mapping_end;
  }
  return true;
}

bool FakeMemory::is_one_piece(const void* at, std::size_t bytes) const {
  const auto after = mapped_.upper_bound(address(at));
  if (after == mapped_.begin()) return false;
  const auto& [base, mapping] = *std::prev(after);
  return address(at) + bytes <= base + mapping.bytes;
}

std::size_t FakeMemory::live() const {
  return reserved_.size() + mapped_.size() + pieces_.size() + pinned_.size();
}

}  // namespace tessera::test
