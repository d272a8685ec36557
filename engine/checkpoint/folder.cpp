// SPDX-License-Identifier: Apache-2.0
#include "engine/checkpoint/folder.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <optional>

#include "engine/checkpoint/piece_file.h"

namespace tessera {
namespace {

constexpr std::string_view step_prefix = "step-";

std::string name_of_step(std::int64_t step) { return fmt::format("{}{:06}", step_prefix, step); }

// Of a name that name_of_step has made: none of "step-6", which nobody would look into.
std::optional<std::int64_t> step_of(std::string_view name) {
  if (!name.starts_with(step_prefix)) return {};
  const std::string_view digits = name.substr(step_prefix.size());
  std::int64_t step = 0;
  const auto read = std::from_chars(digits.data(), digits.data() + digits.size(), step);
  if (read.ec != std::errc{} || step < 0 || name != name_of_step(step)) return {};
  return step;
}

// The 12 of "rank-00003.12.safetensors"; -1 for other names.
std::int32_t generation_of(std::string_view name) {
  const std::size_t dot = name.find('.');
  std::int32_t generation = -1;
  if (dot != name.npos)
    std::from_chars(name.data() + dot + 1, name.data() + name.size(), generation);
  return generation;
}

// What this class has written, or had begun to.
bool is_ours(std::string_view name) {
  return name.starts_with(manifest_name) || (name.starts_with("rank-") && generation_of(name) >= 0);
}

std::string joined(const std::string& folder, const std::string& name) {
  return folder + "/" + name;
}

bool is_complete(FileSystem& files, const std::string& folder) {
  return files.exists(joined(folder, manifest_name));
}

}  // namespace

std::string CheckpointFolder::of_step(std::int64_t step) const {
  return joined(path_, name_of_step(step));
}

std::string CheckpointFolder::rank_file(Rank rank, std::int32_t generation) {
  return fmt::format("rank-{:05}.{}.safetensors", rank, generation);
}

Result<CheckpointFolder::Content> CheckpointFolder::content() const {
  TESSERA_ASSIGN(const auto names, files_.list(path_));
  Content content;
  for (const std::string& name : names) {
    const auto step = step_of(name);
    if (!step) continue;
    const bool complete = is_complete(files_, joined(path_, name));
    (complete ? content.steps : content.unfinished).push_back(*step);
  }
  std::sort(content.steps.begin(), content.steps.end());
  std::sort(content.unfinished.begin(), content.unfinished.end());
  return content;
}

Result<std::vector<std::string>> CheckpointFolder::renamed() const {
  TESSERA_ASSIGN(auto names, files_.list(path_));
  std::erase_if(names, [this](const std::string& name) {
    return step_of(name) || !is_complete(files_, joined(path_, name));
  });
  return names;
}

Status CheckpointFolder::remove_but(const std::string& folder,
                                    const std::vector<std::string>& kept) {
  TESSERA_ASSIGN(const auto names, files_.list(folder));
  for (const std::string& name : names) {
    if (!is_ours(name) || std::find(kept.begin(), kept.end(), name) != kept.end()) continue;
    TESSERA_TRY(files_.remove(joined(folder, name)));
  }
  return {};
}

// The manifest goes first and the folder is synchronised: from then on there is no checkpoint, so
// one that loses power between the removals is never taken for a complete one.
Status CheckpointFolder::remove_checkpoint(std::int64_t step) {
  const std::string folder = of_step(step);
  TESSERA_TRY(files_.remove(joined(folder, manifest_name)));
  TESSERA_TRY(files_.sync_folder(folder));
  TESSERA_TRY(remove_but(folder, {}));
  TESSERA_ASSIGN(const auto others, files_.list(folder));  // somebody's notes stay
  return others.empty() ? files_.remove(folder) : Status();
}

Result<std::int32_t> CheckpointFolder::prepare(std::int64_t step) {
  TESSERA_ASSIGN(const Content found, content());
  if (!found.steps.empty() && found.steps.back() > step) {
    return Status(Code::invalid_argument,
                  fmt::format("{} has a checkpoint of step {}, later than the {} that is to be "
                              "saved: give another folder, or remove what is not wanted any more",
                              path_, found.steps.back(), step));
  }
  for (const std::int64_t other : found.unfinished) TESSERA_TRY(remove_checkpoint(other));
  // Files of a new generation lie beside those of a complete checkpoint of the same step, which
  // stays loadable until its manifest is replaced.
  const std::string folder = of_step(step);
  TESSERA_TRY(files_.make_folder(folder));
  std::int32_t generation = -1;
  TESSERA_ASSIGN(const auto present, files_.list(folder));
  for (const std::string& name : present) generation = std::max(generation, generation_of(name));
  return generation + 1;
}

Status CheckpointFolder::complete(Manifest manifest, std::int32_t keep) {
  const std::string folder = of_step(manifest.step);
  std::vector<std::string> kept = {manifest_name};
  for (Manifest::File& file : manifest.files) {
    TESSERA_ASSIGN(const PieceFile written,
                   PieceFile::open(files_, joined(folder, file.name), file.header_sum));
    file.bytes = written.size();
    kept.push_back(file.name);
  }
  // The order matters: first the names of all files must be on the disk, then the manifest's bytes,
  // then its name appears by an atomic rename. Power lost in between leaves the old checkpoint.
  TESSERA_TRY(files_.sync_folder(folder));
  TESSERA_TRY(files_.sync_folder(path_));
  const std::string path = joined(folder, manifest_name);
  const std::string partial = path + ".partial";
  TESSERA_TRY(write_text(files_, partial, to_json(manifest)));
  TESSERA_TRY(files_.rename(partial, path));
  TESSERA_TRY(files_.sync_folder(folder));
  // Only now the files of an earlier generation and the oldest checkpoints can go.
  TESSERA_TRY(remove_but(folder, kept));
  TESSERA_ASSERT(keep >= 0, "the number of checkpoints to keep was checked");
  if (keep == 0) return {};
  TESSERA_ASSIGN(const Content found, content());
  const auto count = static_cast<std::size_t>(keep);
  for (std::size_t k = 0; k + count < found.steps.size(); ++k) {
    TESSERA_TRY(remove_checkpoint(found.steps[k]));
  }
  return {};
}

Result<Manifest> read_manifest(FileSystem& files, std::string& path) {
  if (!is_complete(files, path)) {
    const CheckpointFolder folder(files, path);
    TESSERA_ASSIGN(const CheckpointFolder::Content found, folder.content());
    if (found.steps.empty()) {
      TESSERA_ASSIGN(const auto renamed, folder.renamed());
      return Status(
          Code::io_error,
          fmt::format("{} is no checkpoint and has none: there is no {}, and no folder step-... "
                      "with one{}",
                      path, manifest_name,
                      renamed.empty() ? ""
                                      : fmt::format("; {} is one under another name: name it",
                                                    joined(path, renamed.front()))));
    }
    path = folder.of_step(found.steps.back());
  }
  const std::string name = joined(path, manifest_name);
  TESSERA_ASSIGN(const std::string text, read_text(files, name));
  TESSERA_ASSIGN(Manifest manifest, parse_manifest(text, name));
  const auto own = std::filesystem::path(path + "/").lexically_normal().parent_path();
  const auto named = step_of(own.filename().string());
  if (!named || *named == manifest.step) return manifest;
  return Status(Code::invalid_argument,
                fmt::format("{}: is a checkpoint of step {} in the folder of another step: call it "
                            "{} again, or what is saved next would count as older",
                            path, manifest.step, name_of_step(manifest.step)));
}

}  // namespace tessera
