// SPDX-License-Identifier: Apache-2.0
// The flat parameter of FSDP1: all parameters of a unit in one range, cut like torch.chunk.
//
// The idea: one buffer per unit, so that a unit is one all_gather without copies. The price is that
// shards cut through parameters, that trailing ranks may hold little or nothing, and padding.
// Rule: torch FlatParamHandle._init_flat_param_and_metadata, _get_shard, _get_shard_metadata.
#pragma once

#include <optional>
#include <vector>

#include "engine/base/shard_map.h"
#include "tessera/model.h"

namespace tessera {

/// The place of one parameter in one rank's shard (torch _ShardParamInfo).
struct ShardParamInfo {
  bool in_shard = false;
  Numel offset_in_shard{};
  Numel numel_in_shard{};
  Numel intra_param_start{};  // first and last element of the parameter, inclusive
  Numel intra_param_end{};
};

struct FlatLayout {
  struct Entry {
    ParameterId parameter;  // none: alignment padding
    Numel begin{};
    Numel numel{};
  };
  std::vector<Entry> entries;
  Index group_size = 1;
  Numel numel{};  // parameters only
  Numel total{};  // with alignment padding: torch's _unpadded_unsharded_size
  Numel shard{};  // ceil(total / group_size), the same on all ranks
  Numel padded() const { return shard * group_size; }
  /// Elements that are no parameter: alignment and the tail of the last shards.
  Numel padding() const { return padded() - numel; }
  /// Zeros at the end of the shard of `index`.
  Numel shard_padding(Index index) const;
  ShardParamInfo info(std::size_t entry, Index index) const;
};

/// `align`: elements to which every parameter and the whole are aligned (16 bytes / size of the
/// forward dtype with use_orig_params); 0: plain concatenation.
/// `multiple_of`: of the whole if it is aligned; 0: group_size. With NO_SHARD nobody has a part,
/// but torch still pads for all ranks. `parameters` in the order they are to lie, pre-order for
/// FSDP1.
FlatLayout flat_layout(const Model& model, const std::vector<ParameterId>& parameters,
                       Index group_size, Numel align = {}, Index multiple_of = 0);

/// The same as segments of a ShardMap.
ShardMap shard_map(const Model& model, const FlatLayout& layout);

}  // namespace tessera
