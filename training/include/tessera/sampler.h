// SPDX-License-Identifier: Apache-2.0
// Which sequences of a corpus a step trains on.
//
// The idea: a sample is a window of sequence_length + 1 tokens. Each epoch has an order of its own,
// a permutation that is computed, not stored: sample k of epoch e is a pure function of (seed, e,
// k). So nothing but a place in that order is needed to go on, and ranks share one order: where a
// step begins depends on how many samples were used before, not on who used them.
//
//   TESSERA_ASSIGN(const Sampler sampler, Sampler::create("book.txt", training, 128, seed));
//   SamplerState state;                                  // or that of a checkpoint
//   corpus.read(sampler.first_token(sampler.after(state, 5)), tokens);   // the sixth sample
//   state = sampler.after(state, samples_per_step);
#pragma once

#include <cstdint>
#include <vector>

#include "tessera/corpus.h"

namespace tessera {

/// The place of the next sample, which a checkpoint keeps.
struct SamplerState {
  std::int64_t epoch = 0;
  std::int64_t position = 0;  // in the epoch's order
  friend bool operator==(const SamplerState&, const SamplerState&) = default;
};

class Sampler {
 public:
  /// `source` names the tokens in messages.
  /// Fails: invalid_argument, if the range is shorter than one sample, naming both lengths.
  static Result<Sampler> create(const std::string& source, TokenRange range,
                                std::int64_t sequence_length, std::uint64_t seed);
  /// Of several ranges, such as Corpus::ranges, which name themselves. Samples stay within a range,
  /// and a range's share of an epoch is its weight times its own samples, rounded down, at least 1;
  /// one of a weight of 0.5 takes other windows in another epoch. Fails: as above, for each range.
  static Result<Sampler> create(const std::vector<SampledRange>& ranges,
                                std::int64_t sequence_length, std::uint64_t seed);

  /// Samples of an epoch: windows that follow each other, beginning at another token every epoch.
  std::int64_t samples() const { return samples_; }
  /// Where the window of that sample begins; it has sequence_length + 1 tokens.
  /// REQUIRES: 0 <= state.position < samples().
  std::int64_t first_token(const SamplerState& state) const;
  /// The state `count` samples later, perhaps in a later epoch.
  SamplerState after(const SamplerState& state, std::int64_t count) const;
  /// Fails: invalid_argument, for a state of other data or another sequence length.
  Status check(const SamplerState& state) const;
  /// Ranges whose weight an epoch's whole number of samples misses by more than a tenth, a sentence
  /// each.
  std::vector<std::string> warnings() const;

 private:
  Sampler() = default;

  struct Part {
    TokenRange range;
    std::int64_t windows = 0;  // that the range has
    std::int64_t samples = 0;  // of them in an epoch
    std::int64_t before = 0;   // samples of the parts before
    bool whole = true;         // each window once
    double weight = 1;
    std::string source;
  };
  std::int64_t window_of(const Part& part, std::int64_t sample, std::int64_t epoch,
                         std::uint64_t number) const;

  std::vector<Part> parts_;
  std::int64_t sequence_length_ = 1;
  std::int64_t samples_ = 0;
  std::uint64_t seed_ = 0;
};

/// The place of `index` in permutation `key` of 0 ... count - 1. REQUIRES: 0 <= index < count.
/// A Feistel network over the next power of four, walked until it is back in range (Black and
/// Rogaway, "Ciphers with Arbitrary Finite Domains", 2002).
std::int64_t permuted(std::int64_t index, std::int64_t count, std::uint64_t key);

}  // namespace tessera
