// SPDX-License-Identifier: Apache-2.0
// Who waits for the device before CUDA does: the first launch of a kernel loads it, and that may
// wait until the device has nothing to do ("Lazy Loading", CUDA C++ Programming Guide). Behind a
// collective whose peer is dead it never comes back; whoever waits before looks at a deadline.
#pragma once

namespace tessera {

/// Asked before a thread launches something that has not run in this process.
struct KernelLoads {
  int (*wait)(void* whose) = nullptr;  // returns an error code: then nothing is launched
  void* whose = nullptr;

  int operator()() const { return wait == nullptr ? 0 : wait(whose); }
};

}  // namespace tessera
