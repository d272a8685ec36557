// SPDX-License-Identifier: Apache-2.0
#include "engine/schemes/fsdp1/flat_layout.h"

#include <algorithm>

namespace tessera {

FlatLayout flat_layout(const Model& model, const std::vector<ParameterId>& parameters,
                       Index group_size, Numel align, Index multiple_of) {
  FlatLayout layout;
  layout.group_size = group_size;
  auto pad_to_multiple_of = [&](std::int64_t multiple) {
    const Numel pad{(multiple - layout.total.value % multiple) % multiple};
    if (pad == Numel{0}) return;
    layout.entries.push_back({ParameterId{}, layout.total, pad});
    layout.total += pad;
  };
  for (ParameterId id : parameters) {
    if (align > Numel{0}) pad_to_multiple_of(align.value);
    const Numel numel = model.parameter(id).numel();
    layout.entries.push_back({id, layout.total, numel});
    layout.total += numel;
    layout.numel += numel;
  }
  if (align > Numel{0}) pad_to_multiple_of(multiple_of == 0 ? group_size : multiple_of);
  layout.shard = Numel{(layout.total.value + group_size - 1) / group_size};
  return layout;
}

Numel FlatLayout::shard_padding(Index index) const {
  const Numel begin = std::min(shard * index, total);
  return shard - (std::min(begin + shard, total) - begin);
}

ShardParamInfo FlatLayout::info(std::size_t entry, Index index) const {
  const Entry& e = entries[entry];
  const Numel from = std::max(e.begin, shard * index);
  const Numel to = std::min(e.begin + e.numel, shard * (index + 1));
  if (from >= to) return {};
  return {.in_shard = true,
          .offset_in_shard = from - shard * index,
          .numel_in_shard = to - from,
          .intra_param_start = from - e.begin,
          .intra_param_end = to - e.begin - Numel{1}};
}

ShardMap shard_map(const Model& model, const FlatLayout& layout) {
  std::vector<ShardMap::Segment> segments;
  for (const auto& e : layout.entries) {
    if (!e.parameter.valid()) continue;
    segments.push_back({e.parameter, e.begin, e.numel, model.parameter(e.parameter).requires_grad});
  }
  return {std::move(segments), layout.shard};
}

}  // namespace tessera
