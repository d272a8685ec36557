// SPDX-License-Identifier: Apache-2.0
// block_sum of every block of a file, for what moves between files and device memory.
#include "engine/backends/cuda/module/device.h"
#include "engine/backends/cuda/module/tables.h"
#include "engine/files/block_sum.h"

namespace tessera::device {
namespace {

__device__ std::uint64_t word_at(const unsigned char* data, std::size_t bytes, std::size_t k) {
  const unsigned char* const at = data + 8 * k;
  const bool whole = 8 * k + 8 <= bytes;
  if (whole && reinterpret_cast<std::uintptr_t>(at) % 8 == 0) {
    return *reinterpret_cast<const std::uint64_t*>(at);
  }
  std::uint64_t word = 0;
  for (std::size_t i = 0; i < 8 && 8 * k + i < bytes; ++i) {
    word |= static_cast<std::uint64_t>(at[i]) << (8 * i);
  }
  return word;
}

// A block of threads has a block of the file, whose words are added in any order.
__global__ void block_sums_kernel(const unsigned char* data, std::size_t bytes, std::size_t block,
                                  std::uint64_t* sums) {
  __shared__ std::uint64_t parts[threads];
  const std::size_t begin = blockIdx.x * block;
  const std::size_t size = bytes - begin < block ? bytes - begin : block;
  std::uint64_t own = 0;
  for (std::size_t k = threadIdx.x; k < words_of(size); k += threads) {
    own += mixed_word(word_at(data + begin, size, k), k + 1);
  }
  parts[threadIdx.x] = own;
  __syncthreads();
  for (unsigned half = threads / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) parts[threadIdx.x] += parts[threadIdx.x + half];
    __syncthreads();
  }
  if (threadIdx.x == 0) sums[blockIdx.x] = parts[0] + mixed_word(size, 0);
}

}  // namespace

int block_sums(const void* data, std::size_t bytes, std::size_t block, std::uint64_t* sums,
               CudaStream stream) {
  if (bytes == 0) return 0;
  const auto blocks = static_cast<unsigned>((bytes + block - 1) / block);
  return launch(block_sums_kernel, {dim3(blocks)}, stream, static_cast<const unsigned char*>(data),
                bytes, block, sums);
}

}  // namespace tessera::device
