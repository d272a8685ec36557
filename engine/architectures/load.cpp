// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <filesystem>

#include "engine/architectures/hugging_face.h"
#include "engine/model/module_tree.h"
#include "engine/text/text_file.h"

namespace tessera {
namespace {

// "examples/models/llama-3-8b.json" -> "llama-3-8b"; a config.json is named after its folder.
std::string name_from(const std::string& source) {
  const std::filesystem::path path(source);
  std::string stem = path.stem().string();
  const std::string folder = path.parent_path().filename().string();
  if (stem == "config" && !folder.empty() && folder != "." && folder != "..") stem = folder;
  return stem.empty() ? source : stem;
}

}  // namespace

Result<Model> parse_model(std::string_view json, const std::string& source) {
  TESSERA_ASSIGN(const nlohmann::json parsed, parse_python_json(json, source));
  if (parsed.is_object() && parsed.contains("tessera_model")) {
    return module_tree_model(parsed, source);
  }
  return hugging_face_model(parsed, source, name_from(source));
}

Result<Model> load_model(const std::string& path) {
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) {
    return Status(Code::io_error,
                  fmt::format("{} is a directory: name the config.json in it", path));
  }
  TESSERA_ASSIGN(const std::string text, text_of_file(path));
  return parse_model(text, path);
}

}  // namespace tessera
