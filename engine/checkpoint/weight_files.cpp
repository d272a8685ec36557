// SPDX-License-Identifier: Apache-2.0
#include "engine/checkpoint/weight_files.h"

#include <fmt/format.h>

#include "engine/files/file_system.h"
#include "engine/text/json_reader.h"

namespace tessera {

namespace {

// Whose layout a file has: Flax and TensorFlow keep matrices the other way round. Others are
// refused by from_pretrained, too; MLX has PyTorch's, and so has a file that says nothing.
Result<SafetensorsFile> open_weights(const std::string& path) {
  TESSERA_ASSIGN(SafetensorsFile file, SafetensorsFile::open(path));
  const auto format = file.metadata().find("format");
  if (format == file.metadata().end()) return file;
  for (const char* known : {"pt", "mlx", "tessera checkpoint"}) {
    if (format->second == known) return file;
  }
  return Status(Code::invalid_argument,
                fmt::format("{}: __metadata__ says format {}, but matrices are read as PyTorch has "
                            "them (pt): convert the file, or correct that",
                            path, in_quotes(format->second)));
}

}  // namespace

Result<WeightFiles> WeightFiles::open(const std::string& path) {
  WeightFiles opened;
  if (path.ends_with(".json")) {
    TESSERA_TRY(opened.open_index(path));
    return opened;
  }
  TESSERA_ASSIGN(SafetensorsFile file, open_weights(path));
  opened.files_.push_back(std::move(file));
  for (const StoredTensor& tensor : opened.files_[0].tensors()) {
    opened.tensors_.push_back({0, &tensor});
  }
  return opened;
}

// Moved files keep their tensors where they are, so pointers to them stay.
Status WeightFiles::open_index(const std::string& path) {
  const auto corrupt = [&](const std::string& what) {
    return Status(Code::corrupt, fmt::format("{}: {}", path, what));
  };
  TESSERA_ASSIGN(const std::string text, read_text(system_files(), path));
  TESSERA_ASSIGN(const nlohmann::json index, parse_json(text, path));
  if (!index.is_object() || !index.contains("weight_map") || !index["weight_map"].is_object()) {
    return corrupt("has no weight_map, as an index of safetensors files has");
  }
  const std::string folder = path.substr(0, path.rfind('/') + 1);  // "" without one
  std::map<std::string, std::size_t> places;
  for (const auto& [tensor, where] : index["weight_map"].items()) {
    const std::string name = where.is_string() ? where.get<std::string>() : "";
    if (name.empty() || name.find('/') != std::string::npos) {
      return corrupt(fmt::format("{} is in no file of this folder", in_quotes(tensor)));
    }
    const auto [place, fresh] = places.try_emplace(name, files_.size());
    if (fresh) {
      TESSERA_ASSIGN(SafetensorsFile file, open_weights(folder + name));
      files_.push_back(std::move(file));
    }
    const StoredTensor* const stored = files_[place->second].find(tensor);
    if (stored == nullptr) {
      return corrupt(fmt::format("{} has no tensor {}", in_quotes(name), in_quotes(tensor)));
    }
    tensors_.push_back({place->second, stored});
  }
  return {};
}

}  // namespace tessera
