// SPDX-License-Identifier: Apache-2.0
#include "engine/checkpoint/checkpoint_writer.h"

#include <algorithm>
#include <span>

namespace tessera {
namespace {

constexpr Bytes file_bytes{256LL << 20};  // what is kept in memory until it is written

}  // namespace

Result<CheckpointWriter> CheckpointWriter::create(FileSystem& files, const std::string& directory,
                                                  Manifest about) {
  TESSERA_TRY(files.make_folder(directory));
  CheckpointWriter made(files, directory, std::move(about));
  TESSERA_ASSIGN(made.generation_, made.folder_.prepare(made.manifest_.step));
  return made;
}

Status CheckpointWriter::add(const std::string& parameter, StateTensor tensor,
                             std::vector<float> values) {
  waiting_bytes_ += Bytes{static_cast<std::int64_t>(values.size() * sizeof(float))};
  waiting_.push_back({parameter, tensor, std::move(values)});
  return waiting_bytes_ >= file_bytes ? write_file() : Status{};
}

Status CheckpointWriter::write_file() {
  std::vector<PieceData> pieces;
  for (const Waiting& tensor : waiting_) {
    const Numel numel{static_cast<std::int64_t>(tensor.values.size())};
    for (Numel first{}; first < numel; first += piece_numel_max) {
      const Numel count = std::min(piece_numel_max, numel - first);
      pieces.push_back({{.parameter = tensor.parameter,
                         .tensor = tensor.tensor,
                         .first = first,
                         .numel = count,
                         .rank = all_ranks},
                        std::span(tensor.values)
                            .subspan(static_cast<std::size_t>(first.value),
                                     static_cast<std::size_t>(count.value))});
    }
  }
  const auto place = static_cast<Rank>(manifest_.files.size());
  const std::string name = CheckpointFolder::rank_file(place, generation_);
  TESSERA_ASSIGN(
      const std::uint64_t sum,
      write_piece_file(files_, folder_.of_step(manifest_.step) + "/" + name, std::move(pieces)));
  manifest_.files.push_back({.name = name, .bytes = {}, .header_sum = sum});
  waiting_.clear();
  waiting_bytes_ = {};
  return {};
}

Status CheckpointWriter::finish() {
  if (!waiting_.empty() || manifest_.files.empty()) TESSERA_TRY(write_file());
  manifest_.world_size = static_cast<Rank>(manifest_.files.size());
  return folder_.complete(manifest_, /*keep=*/0);
}

}  // namespace tessera
