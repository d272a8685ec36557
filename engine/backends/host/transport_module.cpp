// SPDX-License-Identifier: Apache-2.0
#include "engine/backends/host/transport_module.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include "engine/backends/host/module_file.h"
#include "tessera/host_runtime.h"

namespace tessera {
namespace {

Result<OpenTransport> find_transport(const std::string& name, const std::string& folder) {
  const std::string file = fmt::format("lib{}.so", name);
  const auto path = find_module(file, folder);
  if (!path) {
    return Status(Code::not_supported,
                  fmt::format("{} is not there: install libopenmpi-dev and openmpi-bin and build "
                              "with -DTESSERA_MPI=ON, name its folder in the environment variable "
                              "TESSERA_MODULES, or run without mpirun",
                              file));
  }
  void* const module = dlopen(path->c_str(), RTLD_NOW | RTLD_GLOBAL);
  if (module == nullptr) {
    return Status(Code::not_supported,
                  fmt::format("cannot open {}: {}", path->string(), dlerror()));
  }
  const auto open = reinterpret_cast<OpenTransport>(dlsym(module, "tessera_open_transport"));
  if (open != nullptr) return open;
  return Status(Code::not_supported,
                fmt::format("{} is no module of this program", path->string()));
}

}  // namespace

Result<std::unique_ptr<Transport>> open_transport(const std::string& name,
                                                  const std::string& folder) {
  TESSERA_ASSIGN(const OpenTransport open, find_transport(name, folder));
  std::string error;
  std::unique_ptr<Transport> transport(open(&error));
  if (transport) return transport;
  return Status(Code::communication_error, error);
}

Status mpi_available(const std::string& modules) {
  TESSERA_TRY(find_transport("tessera_mpi", modules).status());
  return {};
}

}  // namespace tessera
