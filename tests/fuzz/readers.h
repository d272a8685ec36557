// SPDX-License-Identifier: Apache-2.0
// Everything here that reads what others have made: what it is given whole, and how it is called.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "tessera/status.h"

namespace tessera::test {

/// Contents by name; one thing to read.
using Files = std::map<std::string, std::string>;

struct FuzzedReader {
  std::string name;
  std::vector<Files> seeds;
  /// Reads the files of seed `seed`, which are in `folder`, one of them damaged. Says how that
  /// ended, and fails the test where something was believed that must not be. `whole`: does what is
  /// done with it afterwards, too. What it writes is in `folder`/out, and gone at the end.
  std::function<Status(const std::string& folder, std::size_t seed, bool whole)> read;
};

/// The formats of traces that are imported.
std::vector<FuzzedReader> import_readers();
/// Pickles as such, of every protocol.
FuzzedReader pickle_reader();
/// Traces of our own; `more`: files of older versions. `scratch`: a folder to make seeds in.
FuzzedReader trace_reader(const std::string& scratch, const std::vector<std::string>& more);
/// Traces of two parts of one run.
FuzzedReader merge_reader(const std::string& scratch);
/// Checkpoints of PyTorch, DeepSpeed and safetensors.
std::vector<FuzzedReader> checkpoint_readers(const std::string& scratch);

/// What is at `path`, a file or the files of a folder, by their names in it.
Files files_at(const std::string& path);

}  // namespace tessera::test
