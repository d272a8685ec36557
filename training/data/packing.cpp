// SPDX-License-Identifier: Apache-2.0
#include "training/data/packing.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

namespace tessera {
namespace {

std::int64_t learned_of(const Corpus& corpus, const PackedPiece& piece) {
  if (!corpus.has_documents()) return piece.places;
  std::int64_t count = 0;
  for (std::int64_t k = 1; k <= piece.places; ++k) count += corpus.learned(piece.first + k) ? 1 : 0;
  return count;
}

}  // namespace

void Packing::cut(const Corpus& corpus, const TokenRange& document, std::int64_t length,
                  std::vector<Sized>& pieces) {
  const std::size_t before = pieces.size();
  std::int64_t made = 0;
  for (std::int64_t at = 0; at + 1 < document.count; at += length, ++made) {
    const PackedPiece piece{document.first + at, std::min(length, document.count - 1 - at)};
    const std::int64_t targets = learned_of(corpus, piece);
    if (targets > 0) pieces.push_back({piece, targets});
  }
  cut_ += made > 1 ? 1 : 0;
  left_out_ += pieces.size() == before ? 1 : 0;
}

void Packing::add_sample(std::span<const Sized> pieces) {
  std::int64_t targets = 0;
  for (const Sized& one : pieces) {
    pieces_.push_back(one.piece);
    targets += one.targets;
  }
  begins_.push_back(pieces_.size());
  targets_.push_back(targets);
}

void Packing::pack(std::vector<Sized> pieces, std::int64_t length) {
  std::stable_sort(pieces.begin(), pieces.end(),
                   [](const Sized& a, const Sized& b) { return a.piece.places > b.piece.places; });
  std::vector<std::vector<Sized>> samples;
  std::map<std::int64_t, std::vector<std::size_t>> by_room;
  for (const Sized& one : pieces) {
    const auto fits = by_room.lower_bound(one.piece.places);
    std::int64_t room = length;
    std::size_t sample = samples.size();
    if (fits == by_room.end()) {
      samples.emplace_back();
    } else {
      room = fits->first;
      sample = fits->second.back();
      fits->second.pop_back();
      if (fits->second.empty()) by_room.erase(fits);
    }
    samples[sample].push_back(one);
    by_room[room - one.piece.places].push_back(sample);
  }
  for (const auto& sample : samples) add_sample(sample);
}

Result<Packing> Packing::of(const Corpus& corpus, const std::vector<SampledRange>& ranges,
                            std::int64_t length) {
  Packing packing;
  std::vector<Sized> pieces;
  for (const SampledRange& range : ranges) {
    for (const TokenRange& document : corpus.documents_in(range.tokens)) {
      packing.cut(corpus, document, length, pieces);
    }
  }
  packing.pack(std::move(pieces), length);
  if (packing.samples() > 0) return packing;
  if (packing.left_out_ == 0) {
    return Status(Code::invalid_argument,
                  fmt::format("{}: no document is left, as parts are held back by whole documents: "
                              "hold back less, or use more documents",
                              corpus.source()));
  }
  return Status(Code::invalid_argument,
                fmt::format("{}: none of its documents has anything to learn", corpus.source()));
}

Result<Packing> Packing::in_order(const Corpus& corpus, const std::vector<SampledRange>& ranges,
                                  std::int64_t length) {
  if (corpus.has_documents()) return of(corpus, ranges, length);
  Packing packing;
  std::vector<Sized> pieces;
  for (const SampledRange& range : ranges) packing.cut(corpus, range.tokens, length, pieces);
  for (const Sized& one : pieces) packing.add_sample(std::span(&one, 1));
  if (packing.samples() > 0) return packing;
  return Status(Code::invalid_argument,
                fmt::format("{}: has one token only, so none can be foretold", corpus.source()));
}

std::span<const PackedPiece> Packing::pieces(std::int64_t sample) const {
  const auto at = static_cast<std::size_t>(sample);
  return std::span(pieces_).subspan(begins_[at], begins_[at + 1] - begins_[at]);
}

}  // namespace tessera
