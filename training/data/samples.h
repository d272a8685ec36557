// SPDX-License-Identifier: Apache-2.0
// The samples of a corpus, in the order of an epoch: windows of tokens, or packed documents.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "tessera/sampler.h"
#include "tessera/token_batch.h"
#include "training/data/packing.h"

namespace tessera {

class Samples {
 public:
  /// Shuffled in each epoch by the seed. The corpus must outlive them. Fails: what Sampler::create
  /// and Packing::of fail with.
  static Result<Samples> create(const Corpus& corpus, const std::vector<SampledRange>& ranges,
                                std::int64_t length, std::uint64_t seed);
  /// Each token once, in an order that is not shuffled.
  static Result<Samples> in_order(const Corpus& corpus, std::int64_t length);

  /// Whether some place may have no target, or a document that began after the first one.
  bool has_documents() const { return packing_ || corpus_->border() >= 0; }
  const Sampler& order() const { return *sampler_; }
  std::int64_t samples() const { return packing_ ? packing_->samples() : sampler_->samples(); }
  const std::optional<Packing>& packing() const { return packing_; }

  /// Fills one sequence. Fails: as Corpus::read, and then fills it with what is no document.
  Status read(const SamplerState& at, const TokenBatch& into) const;
  /// The number of places of that sample that have a target.
  std::int64_t targets(const SamplerState& at) const;

  /// What `count` samples from `from` on do not do as the files and weights of the corpus may
  /// promise, a sentence each. REQUIRES: shuffled ones.
  std::vector<std::string> warnings(const SamplerState& from, std::int64_t count) const;

  /// A sequence in which nothing is learned.
  static void clear(const TokenBatch& into);

 private:
  Samples(const Corpus& corpus, std::int64_t length) : corpus_(&corpus), length_(length) {}
  std::int64_t packed(const SamplerState& at) const;
  /// Adds the files of the corpus that the sample is of.
  void add_files_of(const SamplerState& at, std::set<std::size_t>& files) const;
  Status read_piece(const PackedPiece& piece, const TokenBatch& all, std::size_t at) const;

  const Corpus* corpus_;
  std::int64_t length_;
  std::optional<Sampler>
      sampler_;  // of windows, or of the numbers of packed samples; none: in order
  std::optional<Packing> packing_;
};

}  // namespace tessera
