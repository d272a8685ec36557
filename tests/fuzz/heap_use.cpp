// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/heap_use.h"

#include <sys/resource.h>

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define TESSERA_COUNTS_ALLOCATIONS
#include <sanitizer/allocator_interface.h>
#include <sanitizer/common_interface_defs.h>

#include <atomic>
#include <cstddef>
#endif
#endif

namespace tessera::test {

#ifdef TESSERA_COUNTS_ALLOCATIONS
namespace {

std::atomic<std::int64_t> heap_now, heap_most;  // since the restart

void count_allocation(const volatile void*, std::size_t size) {
  const std::int64_t now = heap_now += static_cast<std::int64_t>(size);
  for (std::int64_t most = heap_most; most < now && !heap_most.compare_exchange_weak(most, now);) {
  }
}

void count_release(const volatile void* at) {
  if (at != nullptr) {
    heap_now -=
        static_cast<std::int64_t>(__sanitizer_get_allocated_size(const_cast<const void*>(at)));
  }
}

}  // namespace

void restart_heap_use() {
  static const int installed =
      __sanitizer_install_malloc_and_free_hooks(count_allocation, count_release);
  static_cast<void>(installed);
  heap_now = heap_most = 0;
}
std::int64_t most_heap_used() { return heap_most; }
void say_at_death(void (*say)()) { __sanitizer_set_death_callback(say); }

#else
namespace {

std::int64_t process_before = 0;

std::int64_t most_of_process() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return std::int64_t{usage.ru_maxrss} * 1024;
}

}  // namespace

void restart_heap_use() { process_before = most_of_process(); }
std::int64_t most_heap_used() { return most_of_process() - process_before; }
void say_at_death(void (*)()) {}
#endif

}  // namespace tessera::test
