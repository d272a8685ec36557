// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "engine/checkpoint/checkpoint_writer.h"
#include "exchange/checkpoints/foreign_checkpoint.h"
#include "exchange/checkpoints/parameter_names.h"
#include "tessera/exchange/checkpoints.h"

namespace tessera::exchange {
namespace {

Result<std::unique_ptr<ForeignCheckpoint>> open_foreign(FileSystem& files,
                                                        const std::string& path) {
  if (is_dcp(files, path)) return open_dcp(files, path);
  if (is_universal(files, path)) return open_universal(files, path);
  if (is_deepspeed(files, path)) return open_deepspeed(files, path);
  if (is_safetensors_folder(files, path)) return open_safetensors_folder(files, path);
  return Status(Code::invalid_argument,
                fmt::format("{}: is no folder of torch.distributed.checkpoint (which has "
                            ".metadata), of DeepSpeed (..._optim_states.pt) nor of safetensors "
                            "with an index (model.safetensors.index.json)",
                            path));
}

std::vector<std::string> left_out(const ForeignCheckpoint& checkpoint,
                                  const std::vector<NamedTensors>& named) {
  std::set<std::string> used;
  for (const NamedTensors& all : named) {
    for (const std::string& name : {all.value, all.exp_avg, all.exp_avg_sq, all.step}) {
      used.insert(name);
    }
  }
  std::vector<std::string> unused;
  for (const auto& [name, shape] : checkpoint.tensors()) {
    if (!used.contains(name)) unused.push_back(name);
  }
  if (unused.empty()) return {};
  return {
      fmt::format("{} tensors were left out, which the model has no parameter for or has under "
                  "another name: {}{}",
                  unused.size(), unused.front(), unused.size() > 1 ? ", ..." : "")};
}

Result<std::int64_t> step_of(const ForeignCheckpoint& checkpoint, const NamedTensors& all) {
  if (all.step.empty()) return std::int64_t{0};
  const auto& shape = checkpoint.tensors().at(all.step);
  std::vector<float> step;
  if (shape.empty() || shape == std::vector<std::int64_t>{1}) {
    TESSERA_ASSIGN(step, checkpoint.read(all.step));
  }
  // A float counts to 2^24 exactly, and no run goes so far.
  if (step.size() == 1 && step[0] >= 1 && step[0] <= 16777216.0F) {
    return static_cast<std::int64_t>(step[0]);
  }
  return Status(Code::corrupt, fmt::format("{} is no number of steps", all.step));
}

Status copy_tensors(const ForeignCheckpoint& from, const std::vector<NamedTensors>& named,
                    const Model& model, CheckpointWriter& to) {
  for (std::size_t p = 0; p < named.size(); ++p) {
    const auto add = [&](const std::string& name, StateTensor tensor) -> Status {
      if (name.empty()) return {};
      TESSERA_ASSIGN(std::vector<float> values, from.read(name));
      return to.add(model.parameters[p].name, tensor, std::move(values));
    };
    TESSERA_TRY(add(named[p].value, StateTensor::value));
    TESSERA_TRY(add(named[p].exp_avg, StateTensor::exp_avg));
    TESSERA_TRY(add(named[p].exp_avg_sq, StateTensor::exp_avg_sq));
  }
  return to.finish();
}

}  // namespace

Result<CheckpointImport> import_checkpoint(const std::string& path, const Model& model,
                                           const std::string& directory,
                                           const CheckpointImportOptions& options) {
  FileSystem& files = system_files();
  TESSERA_ASSIGN(const auto checkpoint, open_foreign(files, path));
  TESSERA_ASSIGN(const auto named, match_parameters(*checkpoint, model, path, options.prefix));
  CheckpointImport done{
      .format = checkpoint->format(), .checkpoint = {}, .warnings = left_out(*checkpoint, named)};
  Manifest about{
      .model = model.name, .scheme = done.format, .blobs = {{imported_blob, done.format}}};
  for (std::size_t p = 0; p < named.size(); ++p) {
    const Parameter& parameter = model.parameters[p];
    TESSERA_ASSIGN(const std::int64_t steps, step_of(*checkpoint, named[p]));
    about.parameters.push_back({parameter.name, parameter.shape, steps});
    done.with_state += steps > 0 ? 1 : 0;
    done.step = std::max(done.step, steps);
  }
  done.parameters = static_cast<std::int64_t>(named.size());
  done.step = about.step = options.step.value_or(done.step);
  done.checkpoint = CheckpointFolder(files, directory).of_step(about.step);
  std::error_code ignored;
  const bool was_there = std::filesystem::exists(directory, ignored);
  const bool had_step = std::filesystem::exists(done.checkpoint, ignored);
  TESSERA_ASSIGN(CheckpointWriter writer, CheckpointWriter::create(files, directory, about));
  const Status written = copy_tensors(*checkpoint, named, model, writer);
  if (!written.ok() && !had_step) {
    std::filesystem::remove_all(was_there ? done.checkpoint : directory, ignored);
  }
  TESSERA_TRY(written);
  return done;
}

}  // namespace tessera::exchange
