// SPDX-License-Identifier: Apache-2.0
// load_checkpoint from a file system that a test may have made.
#pragma once

#include "engine/files/file_system.h"
#include "tessera/checkpoint.h"

namespace tessera {

Result<CheckpointInfo> load_checkpoint_from(Engine& engine, const std::string& path,
                                            FileSystem& files);

}  // namespace tessera
