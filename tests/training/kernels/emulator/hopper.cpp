// SPDX-License-Identifier: Apache-2.0
// What kernels for Hopper call: barriers in shared memory, boxes of tensors (TMA), products of
// groups of warps (wgmma).
#include <utility>

#include "tests/training/kernels/emulator/block.h"

namespace tessera::device::emulator {
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
        const Matrix a(own.from_a);
        left[k] = own.number(own.columns_of_a ? a.of_column(k, row) : a.of_row(row, k));
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
              left[k] * own.number(own.columns_of_b ? b.of_column(k, column) : b.of_row(column, k));
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

void load_bytes(void* to, const void* from, int bytes, Barrier* barrier) {
  for (const void* at : {const_cast<const void*>(to), from}) {
    if (reinterpret_cast<std::uintptr_t>(at) % 16 != 0) failure = misaligned_address;
  }
  const auto copy = [=] {
    std::memcpy(to, from, static_cast<std::size_t>(bytes));
    barrier->bytes -= bytes;
    look_at(*barrier);
  };
  if (++block.asked % 3 != 0) return copy();
  block.boxes.emplace_back(barrier, copy);
}

void add_floats(float* to, const float* from, int bytes, bool add) {
  for (const float* at : {const_cast<const float*>(to), from}) {
    if (reinterpret_cast<std::uintptr_t>(at) % 16 != 0) failure = misaligned_address;
  }
  own_fiber().additions.push_back({to, from, static_cast<std::size_t>(bytes) / 4, add, {}});
}
void wait_for_reads() {
  for (Addition& one : own_fiber().additions) one.read.assign(one.from, one.from + one.count);
}
void wait_for_sums() {
  for (Addition& one : own_fiber().additions) {
    if (one.read.empty()) one.read.assign(one.from, one.from + one.count);
    for (std::size_t i = 0; i < one.count; ++i) {
      one.to[i] = one.add ? one.to[i] + one.read[i] : one.read[i];
    }
  }
  own_fiber().additions.clear();
}

unsigned take_ticket(unsigned* tickets) { return (*tickets)++; }
void wait_for_turn(const unsigned* turns, unsigned number) {
  while (*turns != number) leave();
}
void pass_turn(unsigned* turns, unsigned number) {
  TESSERA_ASSERT(own_fiber().additions.empty(), "who passes a turn has added");
  *turns = number + 1;
  block.moved = true;
}
void meet_threads(int count) { meet(block.of_some, count); }

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

}  // namespace tessera::device::emulator
