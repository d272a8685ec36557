// SPDX-License-Identifier: Apache-2.0
// The state of cuFile: registered files, and buffers that drives may reach.
#pragma once

#include <cstddef>
#include <map>
#include <optional>

namespace tessera::test {

class FakeCufile {
 public:
  void* open(int file) {
    const std::size_t handle = ++opened_;
    files_[handle] = file;
    return reinterpret_cast<void*>(handle);
  }
  bool close(void* handle) { return files_.erase(reinterpret_cast<std::size_t>(handle)) > 0; }
  std::optional<int> file_of(void* handle) const {
    const auto known = files_.find(reinterpret_cast<std::size_t>(handle));
    return known == files_.end() ? std::nullopt : std::optional(known->second);
  }

  /// False: some of it is registered.
  bool add(void* base, std::size_t bytes) {
    auto* const begin = static_cast<std::byte*>(base);
    const auto next = buffers_.lower_bound(begin);
    if (next != buffers_.end() && next->first < begin + bytes) return false;
    if (next != buffers_.begin() && std::prev(next)->second > begin) return false;
    buffers_[begin] = begin + bytes;
    return true;
  }
  bool remove(void* base) { return buffers_.erase(static_cast<std::byte*>(base)) > 0; }

  std::size_t live() const { return files_.size() + buffers_.size(); }

 private:
  std::size_t opened_ = 0;
  std::map<std::size_t, int> files_;          // by handle
  std::map<std::byte*, std::byte*> buffers_;  // begin, end
};

}  // namespace tessera::test
