// SPDX-License-Identifier: Apache-2.0
#include "engine/swap/swap_store.h"

#include <fmt/format.h>

#include <algorithm>

namespace tessera {

SwapFileOptions SwapStore::options() const {
  SwapFileOptions options{.block_size = aio_.block_size,
                          .queue_depth = static_cast<int>(aio_.queue_depth),
                          .threads = static_cast<int>(aio_.thread_count),
                          .clock = clock_};
  if (io_) options.io = io_();
  return options;
}

Status SwapStore::allocate(BufferId buffer, const Allocation& request, Rank rank) {
  if (request.directory.empty()) {
    return Status(
        Code::invalid_argument,
        fmt::format("{} is to live on NVMe, but no folder is named: set nvme_path", request.name));
  }
  std::unique_ptr<SwapFile>& file = files_[{std::string(request.directory), rank}];
  if (!file) {
    TESSERA_ASSIGN(file, SwapFile::open(std::string(request.directory),
                                        fmt::format("rank {}", rank), options()));
  }
  slots_[buffer][rank] = {file.get(), file->add(std::string(request.name), request.bytes)};
  return {};
}

void SwapStore::release(BufferId buffer, Rank rank) {
  const auto found = slots_.find(buffer);
  if (found == slots_.end()) return;
  const Place place = found->second.at(rank);
  place.file->remove(place.slot);
  found->second.erase(rank);
  if (found->second.empty()) slots_.erase(found);
}

SwapMove SwapStore::start(const CopyBlocks& blocks, CopyRoute route, Rank rank,
                          std::span<std::byte> host) {
  const bool writes = route == CopyRoute::to_nvme;
  const Place place = slots_.at(writes ? blocks.to.buffer : blocks.from.buffer).at(rank);
  return {place.file, writes ? place.file->start_write(place.slot, host)
                             : place.file->start_read(place.slot, host)};
}

Status SwapStore::move(const CopyBlocks& blocks, CopyRoute route, Rank rank,
                       std::span<std::byte> host) {
  const SwapMove move = start(blocks, route, rank, host);
  return move.file->finish(move.transfer);
}

bool SwapStore::wait() {
  return std::any_of(files_.begin(), files_.end(), [](auto& file) { return file.second->wait(); });
}

}  // namespace tessera
