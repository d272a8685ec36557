// SPDX-License-Identifier: Apache-2.0
// One copy has one route: what moves between different kinds of memory becomes several.
#pragma once

#include <utility>
#include <vector>

#include "tessera/op.h"

namespace tessera {

struct RoutedBlocks {
  CopyRoute route = CopyRoute::on_device;
  CopyBlocks blocks;
};

/// At most one per route, in the order of CopyRoute.
inline std::vector<Copy> copies_by_route(CommunicatorId index_in,
                                         const std::vector<RoutedBlocks>& pieces) {
  std::vector<Copy> copies;
  using enum CopyRoute;
  for (const CopyRoute route : {on_device, to_host, to_device, on_host, to_nvme, from_nvme,
                                device_to_nvme, nvme_to_device}) {
    Copy copy{.index_in = index_in, .pieces = {}, .route = route};
    for (const RoutedBlocks& piece : pieces) {
      if (piece.route == route) copy.pieces.push_back(piece.blocks);
    }
    if (!copy.pieces.empty()) copies.push_back(std::move(copy));
  }
  return copies;
}

}  // namespace tessera
