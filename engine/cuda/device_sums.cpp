// SPDX-License-Identifier: Apache-2.0
#include "engine/cuda/device_sums.h"

#include "engine/cuda/calls.h"

namespace tessera {

DeviceSums::~DeviceSums() {
  if (done_ != nullptr) events_.give_back(done_);
  if (stream_ != nullptr) api_.stream_destroy(stream_);
}

Status DeviceSums::make_room(std::size_t blocks) {
  TESSERA_ASSERT(!busy(), "nobody writes to the place that is given up");
  return sums_.allocate(Bytes{static_cast<std::int64_t>(blocks * sizeof(std::uint64_t))});
}

Status DeviceSums::start(std::span<const std::byte> data, std::size_t block) {
  count_ = (data.size() + block - 1) / block;
  TESSERA_ASSERT(!busy() && !lacks(count_), "it has its turn and room");
  if (stream_ == nullptr) {
    TESSERA_TRY(cuda_status(api_, api_.stream_create(&stream_, 0), "cudaStreamCreate"));
  }
  auto* const sums = reinterpret_cast<std::uint64_t*>(sums_.base());
  const int code = kernels_.block_sums(data.data(), data.size(), block, sums, stream_);
  TESSERA_TRY(cuda_status(api_, code, "the kernel of checksums"));
  TESSERA_ASSIGN(done_, events_.record(stream_));
  return {};
}

Result<bool> DeviceSums::ready() {
  TESSERA_ASSIGN(const bool over, has_happened(api_, done_));
  if (over) events_.give_back(std::exchange(done_, nullptr));
  return over;
}

}  // namespace tessera
