// SPDX-License-Identifier: Apache-2.0
#include "cli/train/export_folder.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>

#include "engine/text/text_file.h"

namespace tessera::cli {
namespace {

namespace fs = std::filesystem;

// Files that transformers keeps beside config.json.
constexpr const char* beside_config[] = {"generation_config.json",
                                         "tokenizer.json",
                                         "tokenizer_config.json",
                                         "tokenizer.model",
                                         "special_tokens_map.json",
                                         "added_tokens.json",
                                         "chat_template.jinja",
                                         "vocab.json",
                                         "merges.txt"};

// Where each of them comes from, if it is there; `tokenizer` is a file, a folder or "".
std::map<std::string, fs::path> beside_weights(const std::string& model_path,
                                               const std::string& tokenizer) {
  std::error_code error;
  const bool one_file = !tokenizer.empty() && !fs::is_directory(tokenizer, error);
  const fs::path given = one_file ? fs::path(tokenizer).parent_path() : fs::path(tokenizer);
  const fs::path generation = fs::path(model_path).parent_path();
  std::map<std::string, fs::path> out;
  for (const std::string name : beside_config) {
    const bool of_tokens = name != "generation_config.json";
    const fs::path from = (of_tokens && !tokenizer.empty() ? given : generation) / name;
    if (fs::is_regular_file(from, error)) out[name] = from;
  }
  if (one_file) out["tokenizer.json"] = tokenizer;
  return out;
}

Status copy_one(const fs::path& from, const fs::path& to) {
  std::error_code error;
  if (fs::equivalent(from, to, error)) return {};
  const std::string place = behind_links(to.string()), partial = place + ".partial";
  fs::copy_file(from, partial, fs::copy_options::overwrite_existing, error);
  if (!error) fs::rename(partial, place, error);
  if (!error) return {};
  std::error_code ignored;
  fs::remove(partial, ignored);
  return Status(Code::io_error, fmt::format("{}: cannot be copied to {}: {}", from.string(),
                                            to.string(), error.message()));
}

}  // namespace

bool names_folder(const std::string& path) {
  std::error_code error;
  return path.ends_with('/') || fs::is_directory(path, error);
}

std::string exported_file(const std::string& path) {
  return names_folder(path) ? (fs::path(path) / "model.safetensors").string() : path;
}

Status make_export_folder(const std::string& folder, const std::string& model_path) {
  std::error_code error;
  const fs::path adapter = fs::path(folder) / "adapter_config.json";
  if (fs::exists(adapter, error)) {
    return Status(Code::invalid_argument,
                  fmt::format("--export {}: has {}, by which from_pretrained puts an adapter onto "
                              "the weights: name another folder, or remove it",
                              folder, adapter.filename().string()));
  }
  if (fs::equivalent(fs::path(folder) / "config.json", model_path, error)) {
    return Status(Code::invalid_argument,
                  fmt::format("--export {}: is the folder of the model that is trained: name "
                              "another one",
                              folder));
  }
  fs::create_directory(folder, error);
  if (fs::is_directory(folder, error)) return {};
  return Status(Code::io_error, fmt::format("--export {}: the folder cannot be made", folder));
}

std::vector<std::string> left_beside_weights(const std::string& folder,
                                             const std::string& model_path,
                                             const std::string& tokenizer) {
  std::error_code error;
  const auto copied = beside_weights(model_path, tokenizer);
  std::vector<std::string> left;
  for (const char* name : beside_config) {
    if (!copied.contains(name) && fs::exists(fs::path(folder) / name, error)) left.push_back(name);
  }
  if (left.empty()) return {};
  return {
      fmt::format("--export {}: {} {} there and {}, as the model has none: from_pretrained "
                  "reads what lies beside weights",
                  folder, fmt::join(left, ", "), left.size() == 1 ? "is" : "are",
                  left.size() == 1 ? "stays" : "stay")};
}

bool keeps_config(const std::string& folder, const std::string& model_path,
                  const std::string& tokenizer) {
  std::map<std::string, fs::path> files = beside_weights(model_path, tokenizer);
  files["config.json"] = model_path;
  return std::all_of(files.begin(), files.end(), [&](const auto& file) {
    const auto is = text_of_file((fs::path(folder) / file.first).string());
    const auto will_be = text_of_file(file.second.string());
    return is.ok() && will_be.ok() && *is == *will_be;
  });
}

Status copy_beside_weights(const std::string& folder, const std::string& model_path,
                           const std::string& tokenizer) {
  const fs::path to = folder;
  for (const auto& [name, from] : beside_weights(model_path, tokenizer)) {
    TESSERA_TRY(copy_one(from, to / name));
  }
  return copy_one(model_path, to / "config.json");
}

}  // namespace tessera::cli
