// SPDX-License-Identifier: Apache-2.0
// Assembles a parameter from a full copy, and writes it back into the copy.
#include <numeric>

#include "engine/summon/summon_ops.h"
#include "tessera/assert.h"

namespace tessera {
namespace {

// Elements of one parameter that are contiguous in a full copy.
struct Run {
  std::size_t in_copy;
  std::size_t in_parameter;
  std::size_t count;
};

std::vector<Run> runs_of(const FullCopy& copy, const FullCopySource& source,
                         ParameterId parameter) {
  std::vector<Run> runs;
  for (Index i = 0; i < copy.groups.size; ++i) {
    for (const ShardPiece& piece : source.map.pieces(i)) {
      if (piece.parameter != parameter) continue;
      const Numel at = copy.rank_part * i + source.offset + piece.offset;
      runs.push_back({static_cast<std::size_t>(at.value),
                      static_cast<std::size_t>(piece.first.value),
                      static_cast<std::size_t>(piece.numel.value)});
    }
  }
  return runs;
}

}  // namespace

Status SummonOps::visit(const FullCopy& copy, const FullCopySource& source, ParameterId parameter,
                        bool writes, const std::function<void(Rank, std::span<float>)>& body) {
  const Numel count = model().parameter(parameter).numel();
  TESSERA_ASSERT(copy.buffer.valid(), "only what is open is looked at");
  const std::vector<Run> runs = runs_of(copy, source, parameter);
  TESSERA_ASSERT(std::accumulate(runs.begin(), runs.end(), std::size_t{0},
                                 [](std::size_t sum, const Run& run) { return sum + run.count; }) ==
                     static_cast<std::size_t>(count.value),
                 "every element of a parameter is in its full copy");
  Compute work{.reads = {whole(copy)}, .writes = {}, .body = {}};
  if (writes) work.writes.push_back(whole(copy));
  work.cost.elementwise_bytes =
      static_cast<double>((writes ? 2 : 1) * bytes_of(count, copy.dtype).value);
  work.body = [=, dtype = copy.dtype](const BodyContext& context) {
    std::vector<float> values(static_cast<std::size_t>(count.value));
    const ConstElements all{context.read(0), dtype};
    for (const Run& run : runs) {
      context.kernels().read(all.part(run.in_copy, run.count),
                             std::span(values).subspan(run.in_parameter, run.count));
    }
    body(context.rank(), values);
    if (!writes) return;
    for (const Run& run : runs) {
      context.kernels().write(std::span<const float>(values).subspan(run.in_parameter, run.count),
                              Elements{context.write(0), dtype}.part(run.in_copy, run.count));
    }
  };
  TESSERA_ASSIGN(const EventId done, submit(copy, std::move(work), holders_));
  return issuer_.runtime().wait(done);
}

}  // namespace tessera
