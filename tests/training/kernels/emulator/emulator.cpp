// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>

#include "tests/training/kernels/emulator/block.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#endif

namespace tessera::device::emulator {
namespace {

std::size_t shared_now = shared_max;

// The sanitizer wants to know which stack is in use.
void switch_to(ucontext_t& from, ucontext_t& to, [[maybe_unused]] const void* stack,
               [[maybe_unused]] std::size_t bytes, [[maybe_unused]] void** fake) {
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_start_switch_fiber(fake, stack, bytes);
#endif
  swapcontext(&from, &to);
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(fake == nullptr ? nullptr : *fake, nullptr, nullptr);
#endif
}

const void* home_stack = nullptr;
std::size_t home_bytes = 0;

}  // namespace

void leave() {
  Fiber& own = block.fibers[static_cast<std::size_t>(block.current)];
  switch_to(own.context, block.home, home_stack, home_bytes, own.done ? nullptr : &own.fake_stack);
}

void meet(Meeting& meeting, int size) {
  const std::int64_t times = meeting.times;
  block.moved = true;
  if (++meeting.arrived == size) {
    meeting.arrived = 0;
    ++meeting.times;
    return;
  }
  while (meeting.times == times) leave();
}

namespace {

void begin() {
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(nullptr, &home_stack, &home_bytes);
#endif
  (*block.kernel)();
  block.fibers[static_cast<std::size_t>(block.current)].done = true;
  block.moved = true;
  leave();
}

void meet_warp() { meet(block.of_warps[static_cast<std::size_t>(block.current / warp)], warp); }

Lane& lane_of_warp(int lane) {
  return block.lanes[static_cast<std::size_t>(block.current / warp * warp + lane)];
}

// Whether all threads of the warp are done.
bool look_at_warp(int first) {
  bool all_done = true;
  for (int k = first; k < first + warp; ++k) {
    Fiber& fiber = block.fibers[static_cast<std::size_t>(k)];
    if (fiber.done) continue;
    block.current = k;
    threadIdx = dim3(static_cast<unsigned>(k), 0, 0);
    void* fake = nullptr;
    switch_to(block.home, fiber.context, fiber.stack.get(), stack_bytes, &fake);
    all_done = all_done && fiber.done;
  }
  return all_done;
}

// Looks at the warps of a group until none of them can go on. Returns whether all are done.
bool run_group(int begin, bool& moved) {
  const int end = std::min(begin + group, block.threads);
  bool all_done = true;
  bool any = true;
  while (any) {
    any = false;
    all_done = true;
    for (int first = begin; first < end; first += warp) {
      bool done = false;
      do {
        block.moved = false;
        done = look_at_warp(first);
        any = any || block.moved;
      } while (block.moved);
      all_done = all_done && done;
    }
    moved = moved || any;
  }
  return all_done;
}

// A warp comes as far as it can before the next one moves at all, and so do groups of warps: then a
// barrier that is missing shows. Every other block begins with its last group.
void run_warps() {
  const int groups = (block.threads + group - 1) / group;
  const bool backwards = blockIdx.x % 2 == 1;
  bool all_done = false;
  while (!all_done) {
    all_done = true;
    bool moved = false;
    for (int i = 0; i < groups; ++i) {
      all_done &= run_group((backwards ? groups - 1 - i : i) * group, moved);
    }
    TESSERA_ASSERT(all_done || moved, "threads of a block wait at different places");
  }
}

void run_block() {
  block.of_block = {};
  block.of_warps.fill({});
  block.of_groups.fill({});
  block.of_some = {};
  block.boxes.clear();
  std::fill(shared_memory.begin(), shared_memory.end(), std::uint8_t{0xFF});
  for (int k = 0; k < block.threads; ++k) {
    Fiber& fiber = block.fibers[static_cast<std::size_t>(k)];
    fiber.done = false;
    fiber.copies.assign(1, {});
    fiber.products.assign(1, {});
    fiber.additions.clear();
    getcontext(&fiber.context);
    fiber.context.uc_stack = {fiber.stack.get(), 0, stack_bytes};
    fiber.context.uc_link = nullptr;
    makecontext(&fiber.context, begin, 0);
  }
  run_warps();
}

template <class T>
float number(unsigned pair, int half) {
  return kernels::load(T{static_cast<std::uint16_t>(pair >> (16 * half))});
}

// Technical specifications by compute capability, CUDA C++ Programming Guide: the same on all
// cards. Registers are no limit here: 255 for each of 256 threads are as many as a block can have.
int limits(const dim3& blocks, int threads, std::size_t shared) {
  constexpr unsigned along_x = 0x7FFFFFFF;
  constexpr unsigned along_others = 65'535;
  const bool many = blocks.x > along_x || blocks.y > along_others || blocks.z > along_others;
  const bool none = blocks.x == 0 || blocks.y == 0 || blocks.z == 0;
  if (none || many || threads < 1 || threads > 1'024) return invalid_configuration;
  return shared <= shared_now ? 0 : invalid_value;
}

}  // namespace

int run(const dim3& blocks, int threads, std::size_t shared, const std::function<void()>& kernel) {
  if (const int code = limits(blocks, threads, shared); code != 0) return code;
  ++launched.kernels;
  if (launched.only_counts) return 0;
  TESSERA_ASSERT(threads <= threads_max && threads % warp == 0, "whole warps");
  failure = 0;
  block.kernel = &kernel;
  block.threads = threads;
  gridDim = blocks;
  blockDim = dim3(static_cast<unsigned>(threads));
  for (unsigned z = 0; z < blocks.z; ++z) {
    for (unsigned y = 0; y < blocks.y; ++y) {
      for (unsigned x = 0; x < blocks.x; ++x) {
        blockIdx = dim3(x, y, z);
        run_block();
      }
    }
  }
  return failure;
}

unsigned char* shared_bytes() { return shared_memory.data(); }
std::size_t& shared_bytes_max() { return shared_now; }

namespace {

void execute(const Copy& copy) {
  constexpr std::size_t bytes = 16;
  if (copy.exists) {
    std::memcpy(copy.to, copy.from, bytes);
  } else {
    std::memset(copy.to, 0, bytes);
  }
}

void expect_aligned(const void* at, std::size_t bytes) {
  if (reinterpret_cast<std::uintptr_t>(at) % bytes != 0) failure = misaligned_address;
}

}  // namespace

void access(void* to, const void* from, const void* at, std::size_t bytes) {
  expect_aligned(at, bytes);
  std::memcpy(to, from, bytes);
}

void copy_later(void* to, const void* from, bool exists) {
  expect_aligned(to, 16);
  if (exists) expect_aligned(from, 16);
  const Copy copy{to, from, exists};
  if (block.current % 2 == 0) return execute(copy);
  own_fiber().copies.back().push_back(copy);
}

void end_copies() { own_fiber().copies.emplace_back(); }

void finish_copies(std::size_t groups_left) {
  auto& groups = own_fiber().copies;
  while (groups.size() > groups_left + 1) {
    for (const Copy& copy : groups.front()) execute(copy);
    groups.erase(groups.begin());
  }
}

void wait_for_warp() { meet_warp(); }
void wait_for_block() { meet(block.of_block, block.threads); }

unsigned shared_address(const void* at) {
  return static_cast<unsigned>(static_cast<const unsigned char*>(at) - shared_memory.data());
}

int own_lane() { return block.current % warp; }

float from_lane(float x, int lane) {
  lane_of_warp(own_lane()).number = x;
  meet_warp();
  const float found = lane_of_warp(lane).number;
  meet_warp();
  return found;
}

template <class T>
void multiply_add(float (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
  Lane& own = lane_of_warp(own_lane());
  std::copy(std::begin(a), std::end(a), own.a.begin());
  own.b = {b0, b1};
  meet_warp();
  for (int i = 0; i < 4; ++i) {
    const int row = own_lane() / 4 + i / 2 * 8;
    const int column = own_lane() % 4 * 2 + i % 2;
    float sum = 0;
    for (int k = 0; k < 16; ++k) {
      const Lane& left = lane_of_warp(row % 8 * 4 + k % 8 / 2);
      const Lane& right = lane_of_warp(column * 4 + k % 8 / 2);
      sum += number<T>(left.a[static_cast<std::size_t>(row / 8 + k / 8 * 2)], k % 2) *
             number<T>(right.b[static_cast<std::size_t>(k / 8)], k % 2);
    }
    c[i] += sum;
  }
  meet_warp();
}

template void multiply_add<kernels::BFloat16>(float (&)[4], const unsigned (&)[4], unsigned,
                                              unsigned);
template void multiply_add<kernels::Float16>(float (&)[4], const unsigned (&)[4], unsigned,
                                             unsigned);

void load_matrices(unsigned (&r)[4], const void* row, bool transposed) {
  expect_aligned(row, 16);
  lane_of_warp(own_lane()).row = static_cast<const std::uint16_t*>(row);
  meet_warp();
  for (int j = 0; j < 4; ++j) {
    const int outer = own_lane() / 4;
    const int inner = own_lane() % 4 * 2;
    const auto at = [&](int matrix_row, int column) -> unsigned {
      return lane_of_warp(j * 8 + matrix_row).row[column];
    };
    r[j] = transposed ? at(inner, outer) | at(inner + 1, outer) << 16
                      : at(outer, inner) | at(outer, inner + 1) << 16;
  }
  meet_warp();
}

void store_matrices(void* row, const unsigned (&r)[4]) {
  expect_aligned(row, 16);
  Lane& own = lane_of_warp(own_lane());
  std::copy(std::begin(r), std::end(r), own.a.begin());
  meet_warp();
  auto* const to = static_cast<std::uint16_t*>(row);
  for (int column = 0; column < 8; ++column) {
    const Lane& from = lane_of_warp(own_lane() % 8 * 4 + column / 2);
    const unsigned pair = from.a[static_cast<std::size_t>(own_lane() / 8)];
    to[column] = static_cast<std::uint16_t>(pair >> (16 * (column % 2)));
  }
  meet_warp();
}

}  // namespace tessera::device::emulator
