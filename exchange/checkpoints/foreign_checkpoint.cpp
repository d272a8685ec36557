// SPDX-License-Identifier: Apache-2.0
#include "exchange/checkpoints/foreign_checkpoint.h"

namespace tessera::exchange {

std::string folder_named_in(FileSystem& files, const std::string& path, const char* file) {
  const auto text = read_text(files, path + "/" + file);
  if (!text.ok()) return path;
  std::string name = *text;
  while (!name.empty() && (name.back() == '\n' || name.back() == ' ')) name.pop_back();
  return name.empty() || name.find('/') != std::string::npos ? path : path + "/" + name;
}

}  // namespace tessera::exchange
