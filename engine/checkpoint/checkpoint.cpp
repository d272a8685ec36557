// SPDX-License-Identifier: Apache-2.0
// Finding, describing, checking and loading complete checkpoints.
#include "tessera/checkpoint.h"

#include <fmt/format.h>

#include <algorithm>

#include "engine/checkpoint/checkpoint_reader.h"
#include "engine/checkpoint/engine_state.h"
#include "engine/checkpoint/load.h"
#include "engine/files/block_sum.h"

namespace tessera {
namespace {

CheckpointInfo info_of(const std::string& path, const Manifest& manifest) {
  CheckpointInfo info{.path = path,
                      .step = manifest.step,
                      .model = manifest.model,
                      .scheme = manifest.scheme,
                      .world_size = manifest.world_size,
                      .parameters = manifest.parameters,
                      .files = {},
                      .blobs = manifest.blobs};
  for (const Manifest::File& file : manifest.files) info.files.push_back({file.name, file.bytes});
  return info;
}

std::string shown(const std::vector<std::int64_t>& shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

Status other_model(const std::string& path, const std::string& what) {
  return Status(Code::invalid_argument,
                fmt::format("{}: {}: load a checkpoint of this model", path, what));
}

// Compares names, shapes and param groups. All that can be wrong with them is found here, before
// the engine changes, so that a refused checkpoint leaves it as it was.
Status check_model(const CheckpointReader& reader, const EngineState& state) {
  const Model& model = state.model();
  for (std::size_t p = 0; p < model.parameters.size(); ++p) {
    const Parameter& own = model.parameters[p];
    const CheckpointParameter* const saved = reader.find(own.name);
    if (saved == nullptr) {
      return other_model(reader.path(),
                         fmt::format("is of {} and has no parameter {}, which {} has",
                                     reader.manifest().model, own.name, model.name));
    }
    if (saved->shape != own.shape) {
      return other_model(reader.path(),
                         fmt::format("parameter {} is {}, in {} it is {}", own.name,
                                     shown(saved->shape), model.name, shown(own.shape)));
    }
    if (saved->steps > 0 && !state.in_a_group(ParameterId{static_cast<std::int32_t>(p)})) {
      return Status(Code::invalid_argument,
                    fmt::format("{}: parameter {} has optimizer state, but is in no param group: "
                                "add it to one before",
                                reader.path(), own.name));
    }
  }
  for (const CheckpointParameter& saved : reader.manifest().parameters) {
    const ParameterId id = model.find_parameter(saved.name);
    if (id.valid() && model.parameter(id).name == saved.name) continue;
    return other_model(reader.path(), fmt::format("is of {} and has a parameter {}, which {} has "
                                                  "not",
                                                  reader.manifest().model, saved.name, model.name));
  }
  return {};
}

// Ranks may see different folders under one path (a file system that is not shared): each would
// load something, and the mixture would train on. So they compare their manifests first.
Status check_same(const EngineState& state, const Manifest& manifest) {
  const std::string text = to_json(manifest);
  const std::uint64_t sum = block_sum(std::as_bytes(std::span(text)));
  TESSERA_ASSIGN(const auto sums, state.exchange_wide([=](Rank) { return sum; }));
  for (std::size_t rank = 0; rank < sums.size(); ++rank) {
    if (sums[rank] == sums[0]) continue;
    return Status(Code::divergent,
                  fmt::format("rank {} loads another checkpoint than rank 0: give all ranks the "
                              "same folder",
                              rank));
  }
  return {};
}

}  // namespace

Bytes CheckpointInfo::bytes() const {
  Bytes sum{};
  for (const CheckpointFile& file : files) sum += file.bytes;
  return sum;
}

Result<std::vector<std::string>> list_checkpoints(const std::string& directory) {
  const CheckpointFolder folder(system_files(), directory);
  TESSERA_ASSIGN(const CheckpointFolder::Content found, folder.content());
  std::vector<std::string> paths;
  for (const std::int64_t step : found.steps) paths.push_back(folder.of_step(step));
  return paths;
}

Result<PassedCheckpoints> passed_checkpoints(const std::string& directory) {
  const CheckpointFolder folder(system_files(), directory);
  PassedCheckpoints passed;
  TESSERA_ASSIGN(passed.renamed, folder.renamed());
  for (std::string& name : passed.renamed) name = fmt::format("{}/{}", directory, name);
  TESSERA_ASSIGN(const CheckpointFolder::Content found, folder.content());
  for (const std::int64_t step : found.unfinished) {
    const bool newest = found.steps.empty() || step > found.steps.back();
    if (newest) passed.unfinished.push_back(folder.of_step(step));
  }
  return passed;
}

Result<std::string> latest_checkpoint(const std::string& directory) {
  TESSERA_ASSIGN(const auto paths, list_checkpoints(directory));
  if (!paths.empty()) return paths.back();
  return Status(Code::io_error, fmt::format("{} has no complete checkpoint", directory));
}

Result<CheckpointInfo> read_checkpoint(const std::string& path) {
  std::string own = path;
  TESSERA_ASSIGN(const Manifest manifest, read_manifest(system_files(), own));
  return info_of(own, manifest);
}

Status verify_checkpoint(const std::string& path) {
  TESSERA_ASSIGN(CheckpointReader reader, CheckpointReader::open(system_files(), path));
  return reader.verify();
}

Result<CheckpointInfo> load_checkpoint(Engine& engine, const std::string& path) {
  return load_checkpoint_from(engine, path, system_files());
}

Result<CheckpointInfo> load_checkpoint_from(Engine& engine, const std::string& path,
                                            FileSystem& files) {
  TESSERA_ASSIGN(const EngineState state, EngineState::of(engine));
  TESSERA_TRY(state.expect_idle("load_checkpoint"));
  const std::string what = "loading " + path;
  auto opened = CheckpointReader::open(files, path);
  Status status = opened.status();
  if (opened.ok()) status = check_model(*opened, state);
  TESSERA_TRY(state.agree(status, what));
  CheckpointReader& reader = *opened;
  TESSERA_TRY(check_same(state, reader.manifest()));
  std::vector<std::int64_t> steps;
  for (const Parameter& p : state.model().parameters) steps.push_back(reader.find(p.name)->steps);
  const Status written = state.write(&steps, [&](Rank rank, ParameterId id, StateTensor tensor,
                                                 Numel first, std::span<float> values) {
    return reader.read(state.model().parameter(id).name, tensor, rank, first, values);
  });
  TESSERA_TRY(state.agree(written, what));
  return info_of(reader.path(), reader.manifest());
}

}  // namespace tessera
