// SPDX-License-Identifier: Apache-2.0
// Documents packed into sequences of one length, so that little of a batch is empty.
//
// The idea: a document longer than a sequence is cut, and a piece goes where the room left is
// smallest (best fit, the longest first). It is worked out once, without chance, so every rank
// finds the same sequences, and only their order changes from epoch to epoch.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tessera/corpus.h"

namespace tessera {

/// The tokens [first, first + places] of a corpus: all but the last are inputs, all but the first
/// may be targets.
struct PackedPiece {
  std::int64_t first = 0;
  std::int64_t places = 0;
};

class Packing {
 public:
  /// Documents in `ranges`. Pieces without anything to learn are left out. Fails: invalid_argument,
  /// if nothing is left, naming the corpus.
  static Result<Packing> of(const Corpus& corpus, const std::vector<SampledRange>& ranges,
                            std::int64_t length);
  /// Each token of `ranges` once, in the order of the corpus; documents are packed.
  static Result<Packing> in_order(const Corpus& corpus, const std::vector<SampledRange>& ranges,
                                  std::int64_t length);

  std::int64_t samples() const { return static_cast<std::int64_t>(targets_.size()); }
  std::span<const PackedPiece> pieces(std::int64_t sample) const;
  /// Tokens that are learned.
  std::int64_t targets(std::int64_t sample) const {
    return targets_[static_cast<std::size_t>(sample)];
  }
  std::int64_t cut_documents() const { return cut_; }
  std::int64_t left_out_documents() const { return left_out_; }

 private:
  struct Sized {
    PackedPiece piece;
    std::int64_t targets;
  };
  void cut(const Corpus& corpus, const TokenRange& document, std::int64_t length,
           std::vector<Sized>& pieces);
  void pack(std::vector<Sized> pieces, std::int64_t length);
  void add_sample(std::span<const Sized> pieces);

  std::vector<PackedPiece> pieces_;
  std::vector<std::size_t> begins_ = {0};  // of each sample's pieces, and the end
  std::vector<std::int64_t> targets_;
  std::int64_t cut_ = 0, left_out_ = 0;
};

}  // namespace tessera
