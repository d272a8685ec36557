// SPDX-License-Identifier: Apache-2.0
#include "engine/backends/cuda/module/first_launches.h"

#include <mutex>
#include <set>

namespace tessera::device {
namespace {

thread_local KernelLoads loads;

}  // namespace

void set_before_loads(const KernelLoads& asked) { loads = asked; }

int before_load() { return loads(); }

int before_launch(const void* kernel) {
  static std::mutex mutex;
  static std::set<const void*> launched;
  {
    const std::lock_guard lock(mutex);
    if (launched.contains(kernel)) return 0;
  }
  if (const int code = before_load(); code != 0) return code;
  const std::lock_guard lock(mutex);
  launched.insert(kernel);
  return 0;
}

}  // namespace tessera::device
