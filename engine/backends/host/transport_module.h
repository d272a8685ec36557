// SPDX-License-Identifier: Apache-2.0
// Transports that live in modules of their own, opened when they are asked for: so the program
// starts on machines without MPI and can say what is missing.
#pragma once

#include <memory>
#include <string>

#include "engine/backends/host/transport.h"

namespace tessera {

/// The function that a module exports as "tessera_open_transport". On failure it returns null and
/// fills `error`.
using OpenTransport = Transport* (*)(std::string* error);

/// Looks for lib<name>.so in `folder` if that is not empty, else where find_module
/// (engine/backends/host/module_file.h) looks. The module stays open until the process ends.
/// Fails: not_supported (no such module, or a library that it needs is missing), naming the file;
/// communication_error.
Result<std::unique_ptr<Transport>> open_transport(const std::string& name,
                                                  const std::string& folder);

}  // namespace tessera
