// SPDX-License-Identifier: Apache-2.0
#include "exchange/checkpoints/foreign_checkpoint.h"

#include <algorithm>

namespace tessera::exchange {

bool is_file_name(std::string_view name) {
  return !name.empty() && std::none_of(name.begin(), name.end(), [](unsigned char c) {
    return c == '/' || c < ' ' || c == 0x7F;
  });
}

std::string folder_named_in(FileSystem& files, const std::string& path, const char* file) {
  const auto text = read_text(files, path + "/" + file);
  if (!text.ok()) return path;
  std::string name = *text;
  while (!name.empty() && (name.back() == '\n' || name.back() == ' ')) name.pop_back();
  return is_file_name(name) ? path + "/" + name : path;
}

}  // namespace tessera::exchange
