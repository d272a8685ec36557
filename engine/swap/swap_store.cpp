// SPDX-License-Identifier: Apache-2.0
#include "engine/swap/swap_store.h"

#include <fmt/format.h>

namespace tessera {

Status SwapStore::allocate(BufferId buffer, const Allocation& request, Rank rank) {
  if (request.directory.empty()) {
    return Status(
        Code::invalid_argument,
        fmt::format("{} is to live on NVMe, but no folder is named: set nvme_path", request.name));
  }
  std::unique_ptr<SwapFile>& file = files_[{std::string(request.directory), rank}];
  if (!file) {
    TESSERA_ASSIGN(file,
                   SwapFile::open(std::string(request.directory), fmt::format("rank {}", rank),
                                  options_ ? options_() : SwapFileOptions{}));
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

Status SwapStore::write(BufferId buffer, Rank rank, std::span<const std::byte> data) {
  const Place place = slots_.at(buffer).at(rank);
  return place.file->write(place.slot, data);
}

Status SwapStore::read(BufferId buffer, Rank rank, std::span<std::byte> data) {
  const Place place = slots_.at(buffer).at(rank);
  return place.file->read(place.slot, data);
}

}  // namespace tessera
