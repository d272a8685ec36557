// SPDX-License-Identifier: Apache-2.0
#include "engine/swap/swap_store.h"

#include <fmt/format.h>

#include <algorithm>

#include "tessera/assert.h"

namespace tessera {

SwapFileOptions SwapStore::options() const {
  SwapFileOptions options{.block_size = aio_.block_size,
                          .queue_depth = static_cast<int>(aio_.queue_depth),
                          .threads = static_cast<int>(aio_.thread_count),
                          .for_cufile = aio_.use_gds,
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
  TESSERA_ASSERT(!holds(buffer) || !slots_.at(buffer).contains(rank),
                 "a buffer gets its slot once");
  slots_[buffer][rank] = {file.get(), file->add(std::string(request.name), request.bytes)};
  return {};
}

void SwapStore::release(BufferId buffer, Rank rank) {
  const auto found = slots_.find(buffer);
  if (found == slots_.end()) return;
  const SwapSlot slot = found->second.at(rank);
  slot.file->remove(slot.id);
  found->second.erase(rank);
  if (found->second.empty()) slots_.erase(found);
}

SwapMove SwapStore::start(const CopyBlocks& blocks, CopyRoute route, Rank rank,
                          std::span<std::byte> host) {
  const bool writes = writes_files(route);
  const SwapSlot slot = slot_of(writes ? blocks.to.buffer : blocks.from.buffer, rank);
  return {slot.file,
          writes ? slot.file->start_write(slot.id, host) : slot.file->start_read(slot.id, host)};
}

Status SwapStore::move(const CopyBlocks& blocks, CopyRoute route, Rank rank,
                       std::span<std::byte> host) {
  const SwapMove move = start(blocks, route, rank, host);
  return move.file->finish(move.transfer);
}

bool SwapStore::abandon_moving() {
  // The list is never destroyed but stays reachable, so leak checkers do not report it.
  static auto& abandoned = *new std::vector<std::unique_ptr<SwapFile>>;
  const std::size_t before = abandoned.size();
  for (auto& [place, file] : files_) {
    if (file->moving()) abandoned.push_back(std::move(file));
  }
  std::erase_if(files_, [](auto& file) { return file.second == nullptr; });
  return abandoned.size() > before;
}

bool SwapStore::wait() {
  return std::any_of(files_.begin(), files_.end(), [](auto& file) { return file.second->wait(); });
}

}  // namespace tessera
