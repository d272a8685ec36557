// SPDX-License-Identifier: Apache-2.0
#include <ucontext.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <vector>

#include "tests/training/kernels/emulator/cuda_runtime.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#endif

namespace tessera::device::emulator {
namespace {

constexpr int warp = 32;
constexpr int threads_max = 384;
constexpr int group = 128;  // threads that multiply together
constexpr std::size_t stack_bytes = 128 << 10;
constexpr std::size_t shared_max = 227 << 10;  // of a block on Hopper
std::size_t shared_now = shared_max;
int failure = 0;  // of the kernel that runs

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

struct Fiber {
  ucontext_t context{};
  std::unique_ptr<std::byte[]> stack = std::make_unique_for_overwrite<std::byte[]>(stack_bytes);
  bool done = false;
  std::vector<std::vector<Copy>> copies;       // by group; the last one is open
  std::vector<std::vector<Product>> products;  // likewise
  void* fake_stack = nullptr;                  // of the address sanitizer
};

struct Block {
  const std::function<void()>* kernel = nullptr;
  int threads = 0;
  int current = 0;
  bool moved = false;  // somebody came further since the last look at all
  ucontext_t home{};
  std::array<Fiber, threads_max> fibers;
  Meeting of_block;
  std::array<Meeting, threads_max / warp> of_warps;
  std::array<Meeting, threads_max / group> of_groups;
  std::array<Lane, threads_max> lanes;
  std::vector<std::pair<Barrier*, std::function<void()>>> boxes;  // that are still to come
  int asked = 0;                                                  // for boxes
};

Block block;
alignas(1024) std::array<unsigned char, shared_max> shared_memory;

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

void leave() {
  Fiber& own = block.fibers[static_cast<std::size_t>(block.current)];
  switch_to(own.context, block.home, home_stack, home_bytes, own.done ? nullptr : &own.fake_stack);
}

void begin() {
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(nullptr, &home_stack, &home_bytes);
#endif
  (*block.kernel)();
  block.fibers[static_cast<std::size_t>(block.current)].done = true;
  block.moved = true;
  leave();
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

// A warp comes as far as it can before the next one moves at all: then a barrier that is missing
// shows.
void run_warps() {
  bool all_done = false;
  while (!all_done) {
    all_done = true;
    bool moved = false;
    for (int first = 0; first < block.threads; first += warp) {
      bool done = false;
      do {
        block.moved = false;
        done = look_at_warp(first);
        moved = moved || block.moved;
      } while (block.moved);
      all_done = all_done && done;
    }
    TESSERA_ASSERT(all_done || moved, "threads of a block wait at different places");
  }
}

void run_block() {
  block.of_block = {};
  block.of_warps.fill({});
  block.of_groups.fill({});
  block.boxes.clear();
  std::fill(shared_memory.begin(), shared_memory.end(), std::uint8_t{0xFF});
  for (int k = 0; k < block.threads; ++k) {
    Fiber& fiber = block.fibers[static_cast<std::size_t>(k)];
    fiber.done = false;
    fiber.copies.assign(1, {});
    fiber.products.assign(1, {});
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

Fiber& own_fiber() { return block.fibers[static_cast<std::size_t>(block.current)]; }

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

unsigned shared_address(const void* at) {
  return static_cast<unsigned>(static_cast<const unsigned char*>(at) - shared_memory.data());
}

namespace {

void look_at(Barrier& barrier) {
  if (barrier.missing > 0 || barrier.bytes > 0) return;
  ++barrier.phase;
  barrier.missing = barrier.arrivals;
  block.moved = true;
}

// 128-byte swizzle: bits 4 to 6 of an address are exclusive or'ed with bits 7 to 9.
std::size_t swizzled(std::size_t address) { return address ^ (address >> 7 & 7) << 4; }

std::uint16_t& shared_number(std::size_t address) {
  return *reinterpret_cast<std::uint16_t*>(shared_memory.data() + swizzled(address));
}

// "Matrix Descriptor" for wgmma, PTX ISA, and the canonical layouts beside it.
struct Matrix {
  std::size_t start, chunk, eight;

  explicit Matrix(std::uint64_t d)
      : start((d & 0x3FFF) << 4), chunk((d >> 16 & 0x3FFF) << 4), eight((d >> 32 & 0x3FFF) << 4) {
    TESSERA_ASSERT(d >> 62 == 1, "rows of 128 bytes are swizzled so");
  }
  // 16 columns lie in one row of 64.
  std::uint16_t of_row(int row, int k) const {
    const auto r = static_cast<std::size_t>(row);
    return shared_number(start + r / 8 * eight + r % 8 * 128 + static_cast<std::size_t>(k) * 2);
  }
  // 16 rows, of which 64 columns lie in one.
  std::uint16_t of_column(int k, int column) const {
    const auto r = static_cast<std::size_t>(k);
    const auto c = static_cast<std::size_t>(column);
    return shared_number(start + c / 64 * chunk + c % 64 * 2 + r / 8 * eight + r % 8 * 128);
  }
};

// This thread's numbers of the product of this number in its queue.
void carry_out(std::size_t end, std::size_t place) {
  const int first = block.current / group * group;
  const auto of = [&](int thread) -> const Product& {
    return block.fibers[static_cast<std::size_t>(first + thread)].products[end][place];
  };
  const Product& own = of(block.current - first);
  const int lane = own_lane();
  const int warp_row = (block.current - first) / warp * 16;
  for (int half = 0; half < 2; ++half) {
    const int row = warp_row + lane / 4 + 8 * half;
    float left[16];
    for (int k = 0; k < 16; ++k) {
      if (own.a == nullptr) {
        left[k] = own.number(Matrix(own.from_a).of_row(row, k));
      } else {
        const unsigned* const a = of((row / 16 * warp) + row % 8 * 4 + k % 8 / 2).a;
        left[k] =
            own.number(static_cast<std::uint16_t>(a[row % 16 / 8 + k / 8 * 2] >> (16 * (k % 2))));
      }
    }
    const Matrix b(own.from_b);
    for (int n = 0; n < own.eights; ++n) {
      for (int i = 0; i < 2; ++i) {
        const int column = n * 8 + lane % 4 * 2 + i;
        float sum = 0;
        for (int k = 0; k < 16; ++k) {
          sum +=
              left[k] * own.number(own.a == nullptr ? b.of_row(column, k) : b.of_column(k, column));
        }
        float& c = own.c[n * 4 + 2 * half + i];
        c = own.add ? c + sum : sum;
      }
    }
  }
}

}  // namespace

void begin_barrier(Barrier* barrier, int arrivals) {
  const auto count = static_cast<std::uint8_t>(arrivals);
  *barrier = {count, count, 0, 0};
}
void arrive(Barrier* barrier) { arrive_expecting(barrier, 0); }
void arrive_expecting(Barrier* barrier, int bytes) {
  TESSERA_ASSERT(barrier->missing > 0, "as many arrive as a barrier was told");
  barrier->bytes += bytes;
  --barrier->missing;
  look_at(*barrier);
}

void wait_for_phase(Barrier* barrier, unsigned phase) {
  while (barrier->phase % 2U == phase) {
    std::vector<std::function<void()>> due;
    for (const auto& [of, copy] : block.boxes) {
      if (of == barrier) due.push_back(copy);
    }
    std::erase_if(block.boxes, [&](const auto& box) { return box.first == barrier; });
    for (const auto& copy : due) copy();
    if (due.empty()) leave();
  }
}

void load_box(void* to, Barrier* barrier, int rows,
              const std::function<std::uint16_t(int row, int column)>& number) {
  constexpr int columns = 64;
  const std::size_t begin = shared_address(to);
  if (begin % 1024 != 0) failure = misaligned_address;
  const auto copy = [=] {
    for (int r = 0; r < rows; ++r) {
      for (int c = 0; c < columns; ++c) {
        shared_number(begin + static_cast<std::size_t>(r * columns + c) * 2) = number(r, c);
      }
    }
    barrier->bytes -= rows * columns * 2;
    look_at(*barrier);
  };
  if (++block.asked % 3 != 0) return copy();
  block.boxes.emplace_back(barrier, copy);
}

void multiply_later(const Product& product) { own_fiber().products.back().push_back(product); }
void end_products() { own_fiber().products.emplace_back(); }

void finish_products(std::size_t ends_left) {
  Meeting& meeting = block.of_groups[static_cast<std::size_t>(block.current / group)];
  meet(meeting, group);
  auto& queue = own_fiber().products;
  const std::size_t due = queue.size() > ends_left + 1 ? queue.size() - ends_left - 1 : 0;
  for (std::size_t end = 0; end < due; ++end) {
    for (std::size_t place = 0; place < queue[end].size(); ++place) carry_out(end, place);
  }
  meet(meeting, group);
  queue.erase(queue.begin(), queue.begin() + static_cast<std::ptrdiff_t>(due));
}

void wait_for_block() { meet(block.of_block, block.threads); }

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

}  // namespace tessera::device::emulator
