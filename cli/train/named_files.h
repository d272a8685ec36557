// SPDX-License-Identifier: Apache-2.0
// Files that a command names: what it reads can be read again, what it writes is not what it reads.
#pragma once

#include <string>
#include <vector>

#include "cli/train/train_options.h"

namespace tessera::cli {

struct NamedFile {
  std::string name, path;  // "--data", "the model"; ""
};

/// Whether both paths lead to one file, which need not exist.
bool same_file(const std::string& a, const std::string& b);

/// Fails: invalid_argument, if `output` would be written over one of `inputs`.
Status check_apart(const NamedFile& output, const std::vector<NamedFile>& inputs);

/// Fails: invalid_argument, naming the file and what is wrong with it, or both options.
Status check_named_files(const TrainArguments& arguments);

}  // namespace tessera::cli
