// SPDX-License-Identifier: Apache-2.0
#include "engine/checkpoint/checkpoint_reader.h"

#include <fmt/format.h>

#include <algorithm>

namespace tessera {
namespace {

constexpr StateTensor tensors[] = {StateTensor::value, StateTensor::exp_avg,
                                   StateTensor::exp_avg_sq};

}  // namespace

Result<CheckpointReader> CheckpointReader::open(FileSystem& files, std::string path) {
  CheckpointReader reader;
  TESSERA_ASSIGN(reader.manifest_, read_manifest(files, path));
  reader.path_ = path;
  for (const CheckpointParameter& p : reader.manifest_.parameters) {
    if (reader.parameters_.emplace(p.name, &p).second) continue;
    return Status(Code::corrupt,
                  fmt::format("{}/{}: there are two parameters {}", path, manifest_name, p.name));
  }
  for (std::size_t k = 0; k < reader.manifest_.files.size(); ++k) TESSERA_TRY(reader.add(k, files));
  return reader;
}

Status CheckpointReader::add(std::size_t k, FileSystem& files) {
  const Manifest::File& named = manifest_.files[k];
  const std::string path = fmt::format("{}/{}", path_, named.name);
  auto bad = [&](const std::string& what) {
    return Status(Code::corrupt, fmt::format("{}: {}: load another checkpoint", path, what));
  };
  if (!files.exists(path)) return bad("is missing");
  TESSERA_ASSIGN(PieceFile file, PieceFile::open(files, path, named.header_sum));
  if (file.size() != named.bytes) {
    return bad(
        fmt::format("has {} bytes, the manifest says {}", file.size().value, named.bytes.value));
  }
  for (const StoredPiece& stored : file.pieces()) {
    const Piece& piece = stored.piece;
    const CheckpointParameter* const parameter = find(piece.parameter);
    const bool fits = parameter != nullptr && piece.first <= numel_of(*parameter) &&
                      piece.numel <= numel_of(*parameter) - piece.first;
    if (!fits) return bad(fmt::format("{} belongs to no parameter", name_of(piece)));
    if (piece.numel == Numel{0}) continue;
    auto& places = places_[{piece.parameter, piece.tensor, piece.rank}];
    if (places.emplace(piece.first, Place{k, stored}).second) continue;
    return bad(fmt::format("{} is there twice", name_of(piece)));
  }
  files_.push_back(std::move(file));
  return {};
}

const CheckpointParameter* CheckpointReader::find(const std::string& name) const {
  const auto found = parameters_.find(name);
  return found == parameters_.end() ? nullptr : found->second;
}

// A tensor is stored once for all ranks, or once per rank where their values differ. A checkpoint
// of fewer ranks has no copy for a new rank, which then starts from rank 0's.
const CheckpointReader::Places* CheckpointReader::places_of(const std::string& parameter,
                                                            StateTensor tensor, Rank rank) const {
  for (const Rank copy : {rank, all_ranks, Rank{0}}) {
    const auto found = places_.find({parameter, tensor, copy});
    if (found != places_.end()) return &found->second;
  }
  return nullptr;
}

Status CheckpointReader::missing(const std::string& parameter, StateTensor tensor,
                                 Numel first) const {
  return Status(Code::corrupt,
                fmt::format("{}: {} of {} from element {} on is in no file: load another "
                            "checkpoint",
                            path_, name_of(tensor), parameter, first.value));
}

Status CheckpointReader::load(const Place& place) {
  const std::pair wanted{place.file, place.stored.offset};
  if (wanted == loaded_) return {};
  TESSERA_ASSERT(place.file < files_.size(), "a place lies in a file that was opened");
  loaded_.first = ~std::size_t{0};  // until it has succeeded, `values_` are those of no piece
  TESSERA_TRY(files_[place.file].read(place.stored, values_));
  loaded_ = wanted;
  return {};
}

Status CheckpointReader::read(const std::string& parameter, StateTensor tensor, Rank rank,
                              Numel first, std::span<float> into) {
  const Places* const places = places_of(parameter, tensor, rank);
  // The pieces were cut by other ranks than those that read, so a range may begin inside of one and
  // span several. `next` is the first piece that begins behind `first`; the one before it must
  // contain `first`, or the element is in no file.
  while (!into.empty()) {
    if (places == nullptr) return missing(parameter, tensor, first);
    auto next = places->upper_bound(first);
    if (next == places->begin()) return missing(parameter, tensor, first);
    const Place& place = std::prev(next)->second;
    const Piece& piece = place.stored.piece;
    const Numel left = piece.first + piece.numel - first;
    if (left <= Numel{0}) return missing(parameter, tensor, first);
    TESSERA_TRY(load(place));
    TESSERA_ASSERT(std::ssize(values_) == piece.numel.value, "a piece was read as a whole");
    const auto begin = static_cast<std::size_t>((first - piece.first).value);
    const std::size_t count = std::min(into.size(), static_cast<std::size_t>(left.value));
    std::copy_n(values_.begin() + static_cast<std::ptrdiff_t>(begin), count, into.begin());
    into = into.subspan(count);
    first += Numel{static_cast<std::int64_t>(count)};
  }
  return {};
}

// Pieces must follow each other without a gap or an overlap from the first element to the last.
Status CheckpointReader::check_whole(const CheckpointParameter& parameter, StateTensor tensor,
                                     const Places& places) const {
  Numel at{};
  for (const auto& [first, place] : places) {
    if (first > at) return missing(parameter.name, tensor, at);
    if (first < at) {
      return Status(Code::corrupt, fmt::format("{}: elements of {} are there twice: load another "
                                               "checkpoint",
                                               path_, name_of(place.stored.piece)));
    }
    at += place.stored.piece.numel;
  }
  return at == numel_of(parameter) ? Status{} : missing(parameter.name, tensor, at);
}

Status CheckpointReader::verify() {
  for (const CheckpointParameter& parameter : manifest_.parameters) {
    for (const StateTensor tensor : tensors) {
      const bool wanted = tensor == StateTensor::value || parameter.steps > 0;
      const bool any = numel_of(parameter) > Numel{0};
      if (wanted && any && places_of(parameter.name, tensor, 0) == nullptr) {
        return missing(parameter.name, tensor, Numel{0});
      }
    }
  }
  for (const auto& [key, places] : places_) {
    const auto& [name, tensor, rank] = key;
    const CheckpointParameter* const parameter = find(name);
    TESSERA_ASSERT(parameter != nullptr, "pieces of no parameter were refused");
    TESSERA_TRY(check_whole(*parameter, tensor, places));
    for (const auto& [first, place] : places) TESSERA_TRY(load(place));
  }
  return {};
}

}  // namespace tessera
