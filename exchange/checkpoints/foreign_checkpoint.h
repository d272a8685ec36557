// SPDX-License-Identifier: Apache-2.0
// A checkpoint of another program as whole tensors with names, whoever saved them in which parts.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/files/file_system.h"
#include "tessera/status.h"

namespace tessera::exchange {

class ForeignCheckpoint {
 public:
  using Shapes = std::map<std::string, std::vector<std::int64_t>>;

  virtual ~ForeignCheckpoint() = default;
  /// "PyTorch DCP", "DeepSpeed ZeRO-3 of 8 ranks".
  virtual std::string format() const = 0;
  /// Values by the parameters' names, AdamW's state as "state.NAME.exp_avg", "...exp_avg_sq" and
  /// "...step"; either may have something in front of it.
  virtual const Shapes& tensors() const = 0;
  /// All elements. Fails: corrupt (elements are missing, damage), io_error, not_supported, naming
  /// file and tensor. REQUIRES: tensors() has it.
  virtual Result<std::vector<float>> read(const std::string& name) const = 0;
};

/// A folder with .metadata, as torch.distributed.checkpoint saves it.
bool is_dcp(FileSystem& files, const std::string& path);
Result<std::unique_ptr<ForeignCheckpoint>> open_dcp(FileSystem& files, const std::string& path);

/// Whether a file may call another one so: a name without folders and control characters.
bool is_file_name(std::string_view name);

/// The folder inside of `path` that its file `file` names, as DeepSpeed's "latest" does; `path`
/// itself where there is no such file, or no name in it.
std::string folder_named_in(FileSystem& files, const std::string& path, const char* file);

/// A folder with ..._optim_states.pt, or one of several that its file "latest" names.
bool is_deepspeed(FileSystem& files, const std::string& path);
Result<std::unique_ptr<ForeignCheckpoint>> open_deepspeed(FileSystem& files, std::string path);

/// A folder with zero/NAME/fp32.pt, or one of several that its file "latest_universal" names.
bool is_universal(FileSystem& files, const std::string& path);
Result<std::unique_ptr<ForeignCheckpoint>> open_universal(FileSystem& files, std::string path);

/// A folder with model.safetensors.index.json, and optimizer.safetensors.index.json where AdamW's
/// state was kept.
bool is_safetensors_folder(FileSystem& files, const std::string& path);
Result<std::unique_ptr<ForeignCheckpoint>> open_safetensors_folder(FileSystem& files,
                                                                   const std::string& path);

}  // namespace tessera::exchange
