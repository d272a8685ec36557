// SPDX-License-Identifier: Apache-2.0
// The block that the emulator runs: its threads as fibers, its shared memory, where they wait.
#pragma once

#include <ucontext.h>

#include <array>
#include <cstddef>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "tests/training/kernels/emulator/cuda_runtime.h"

namespace tessera::device::emulator {

inline constexpr int warp = 32;
inline constexpr int threads_max = 384;
inline constexpr int group = 128;  // threads that multiply together
inline constexpr std::size_t stack_bytes = 128 << 10;
inline constexpr std::size_t shared_max = 227 << 10;  // of a block on Hopper

struct Meeting {
  int arrived = 0;
  std::int64_t times = 0;
};

struct Copy {
  void* to;
  const void* from;
  bool exists;
};

struct Lane {
  float number = 0;
  std::array<unsigned, 4> a{};
  std::array<unsigned, 2> b{};
  const std::uint16_t* row = nullptr;
};

/// Floats of shared memory on their way to sums.
struct Addition {
  float* to;
  const float* from;
  std::size_t count;
  bool add;
  std::vector<float> read;
};

struct Fiber {
  ucontext_t context{};
  std::unique_ptr<std::byte[]> stack = std::make_unique_for_overwrite<std::byte[]>(stack_bytes);
  bool done = false;
  std::vector<std::vector<Copy>> copies;       // by group; the last one is open
  std::vector<std::vector<Product>> products;  // likewise
  std::vector<Addition> additions;
  void* fake_stack = nullptr;  // of the address sanitizer
};

struct Block {
  const std::function<void()>* kernel = nullptr;
  int threads = 0;
  int current = 0;
  bool moved = false;  // somebody came further since the last look at all
  ucontext_t home{};
  std::array<Fiber, threads_max> fibers;
  Meeting of_block;
  Meeting of_some;  // of its threads: a barrier with a number
  std::array<Meeting, threads_max / warp> of_warps;
  std::array<Meeting, threads_max / group> of_groups;
  std::array<Lane, threads_max> lanes;
  std::vector<std::pair<Barrier*, std::function<void()>>> boxes;  // that are still to come
  int asked = 0;                                                  // for boxes
};

inline Block block;
alignas(1024) inline std::array<unsigned char, shared_max> shared_memory;
inline int failure = 0;  // of the kernel that runs

inline Fiber& own_fiber() { return block.fibers[static_cast<std::size_t>(block.current)]; }
/// Another thread goes on.
void leave();
/// Goes on when `size` threads have come.
void meet(Meeting& meeting, int size);

}  // namespace tessera::device::emulator
