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
  for (const CopyRoute route : {CopyRoute::on_device, CopyRoute::to_host, CopyRoute::to_device,
                                CopyRoute::on_host, CopyRoute::to_nvme, CopyRoute::from_nvme}) {
    Copy copy{.index_in = index_in, .pieces = {}, .route = route};
    for (const RoutedBlocks& piece : pieces) {
      if (piece.route == route) copy.pieces.push_back(piece.blocks);
    }
    if (!copy.pieces.empty()) copies.push_back(std::move(copy));
  }
  return copies;
}

}  // namespace tessera
