// SPDX-License-Identifier: Apache-2.0
// load_checkpoint on any FileSystem, so that a test can make it fail.
#pragma once

#include "engine/files/file_system.h"
#include "tessera/checkpoint.h"

namespace tessera {

Result<CheckpointInfo> load_checkpoint_from(Engine& engine, const std::string& path,
                                            FileSystem& files);

}  // namespace tessera
