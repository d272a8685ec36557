// SPDX-License-Identifier: Apache-2.0
#include "exchange/checkpoints/new_folder.h"

#include <fmt/format.h>

#include <filesystem>

namespace tessera::exchange {

Status fill_new_folder(const std::string& folder, const char* what,
                       const std::function<Status()>& write) {
  std::error_code error;
  if (std::filesystem::exists(folder, error)) {
    return Status(Code::invalid_argument,
                  fmt::format("{} exists: {} gets a folder of its own", folder, what));
  }
  const Status written = write();
  if (!written.ok()) std::filesystem::remove_all(folder, error);
  return written;
}

}  // namespace tessera::exchange
