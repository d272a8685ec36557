// SPDX-License-Identifier: Apache-2.0
// The stand-in as a module that a program opens in place of the real one: one rank a process.
// The first line of stand_in.txt in the current folder says what is wrong with it: "no driver",
// "old driver", "no device", "old NCCL", "A100", "V100", "other build".
#include <fstream>
#include <string>

#include "tests/backends/cuda/stand_in/stand_in.h"

namespace tessera::test {
namespace {

StandInOptions options_of(const std::string& what) {
  StandInOptions options;
  options.device_bytes = std::size_t{1} << 30;
  options.cufile = false;  // its functions are for one thread
  if (what == "no driver") options.driver_version = 0, options.devices_code = 35;
  if (what == "old driver") options.driver_version = 12040, options.devices_code = 35;
  if (what == "no device") options.devices_code = 100;
  if (what == "old NCCL") options.nccl_version = 21805;
  if (what == "A100") options.capability = 80;
  if (what == "V100") options.capability = 70;
  return options;
}

}  // namespace
}  // namespace tessera::test

extern "C" const tessera::CudaModule* tessera_cuda_module() {
  using tessera::test::StandIn;
  std::string what;
  std::ifstream file("stand_in.txt");
  std::getline(file, what);
  static StandIn world(tessera::test::options_of(what));
  static tessera::CudaModule module = StandIn::module();
  if (what == "other build") ++module.version;
  return &module;
}
