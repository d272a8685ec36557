// SPDX-License-Identifier: Apache-2.0
// Neighbouring numbers that one instruction loads or stores.
#pragma once

#include "engine/backends/cuda/module/device.h"

namespace tessera::device {

template <class T, int n>
struct alignas(sizeof(T) * n) Pack {
  T at[n];
};

/// Numbers of 16 bytes, the most that a thread loads at once.
template <class T>
inline constexpr int widest_pack = static_cast<int>(16 / sizeof(T));

#ifdef __CUDACC__
template <class T, int n>
__device__ Pack<T, n> load_pack(const T* from) {
  return *reinterpret_cast<const Pack<T, n>*>(from);
}
template <class T, int n>
__device__ void store_pack(T* to, const Pack<T, n>& pack) {
  *reinterpret_cast<Pack<T, n>*>(to) = pack;
}
#else
template <class T, int n>
Pack<T, n> load_pack(const T* from) {
  Pack<T, n> pack;
  emulator::access(&pack, from, from, sizeof pack);
  return pack;
}
template <class T, int n>
void store_pack(T* to, const Pack<T, n>& pack) {
  emulator::access(to, &pack, to, sizeof pack);
}
#endif

/// Whether packs of n can be loaded from here on; null: from nowhere.
template <class T>
bool is_aligned(const T* at, int n) {
  return reinterpret_cast<std::uintptr_t>(at) % (sizeof(T) * static_cast<std::size_t>(n)) == 0;
}

}  // namespace tessera::device
