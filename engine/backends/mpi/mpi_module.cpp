// SPDX-License-Identifier: Apache-2.0
// The entry point of the module.
#include "engine/backends/host/transport_module.h"
#include "engine/backends/mpi/mpi_transport.h"

extern "C" tessera::Transport* tessera_open_transport(std::string* error) {
  auto transport = tessera::MpiTransport::create();
  if (transport.ok()) return std::move(*transport).release();
  *error = transport.status().message();
  return nullptr;
}
