// SPDX-License-Identifier: Apache-2.0
// A file by which its neighbours are read, such as config.json beside weights, is away while they
// are written anew: nobody reads new ones by an old one, wherever that is stopped.
//
//   SetAside config(folder + "/config.json");
//   TESSERA_TRY(write_weights(folder));  // if it fails, the old file is back
//   config.replaced();
#pragma once

#include <filesystem>
#include <string>
#include <system_error>
#include <utility>

namespace tessera {

class SetAside {
 public:
  /// `path` becomes `path`.before, if it is there.
  explicit SetAside(std::string path) : path_(std::move(path)) {
    std::filesystem::rename(path_, before(), error_);
    away_ = !error_;
  }
  SetAside(const SetAside&) = delete;
  SetAside& operator=(const SetAside&) = delete;
  ~SetAside() {
    if (away_) std::filesystem::rename(before(), path_, error_);
  }

  /// Its neighbours are new: the old file is of no use.
  void replaced() {
    if (away_) std::filesystem::remove(before(), error_);
    away_ = false;
  }

 private:
  std::string before() const { return path_ + ".before"; }

  const std::string path_;
  std::error_code error_;
  bool away_ = false;
};

}  // namespace tessera
