// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <string>

namespace tessera::test {

/// A folder that must be empty when it goes.
class ScratchFolder {
 public:
  ScratchFolder() {
    std::string path = std::string(TESSERA_BINARY_DIR) + "/swap-XXXXXX";
    REQUIRE(mkdtemp(path.data()) != nullptr);
    path_ = path;
  }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  ~ScratchFolder() {
    CHECK(empty());
    std::filesystem::remove_all(path_);
  }
  const std::string& path() const { return path_; }
  bool empty() const { return std::filesystem::is_empty(path_); }

 private:
  std::string path_;
};

}  // namespace tessera::test
