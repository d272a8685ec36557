// SPDX-License-Identifier: Apache-2.0
#include "training/data/samples.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>

namespace tessera {
namespace {

constexpr std::int64_t looked_at_most = 1 << 20;  // samples, when a run begins

}  // namespace

Result<Samples> Samples::create(const Corpus& corpus, const std::vector<SampledRange>& ranges,
                                std::int64_t length, std::uint64_t seed) {
  Samples samples(corpus, length);
  if (!corpus.has_documents()) {
    TESSERA_ASSIGN(samples.sampler_, Sampler::create(ranges, length, seed));
    return samples;
  }
  TESSERA_ASSIGN(samples.packing_, Packing::of(corpus, ranges, length));
  // Windows of one token: their order is a permutation of the packed samples.
  const TokenRange numbers{0, samples.packing_->samples() + 1};
  TESSERA_ASSIGN(samples.sampler_, Sampler::create(corpus.source(), numbers, 1, seed));
  return samples;
}

Result<Samples> Samples::in_order(const Corpus& corpus, std::int64_t length) {
  Samples samples(corpus, length);
  TESSERA_ASSIGN(samples.packing_, Packing::in_order(corpus, corpus.ranges(), length));
  return samples;
}

std::int64_t Samples::packed(const SamplerState& at) const {
  return sampler_ ? sampler_->first_token(at) : at.position;
}

std::int64_t Samples::targets(const SamplerState& at) const {
  return packing_ ? packing_->targets(packed(at)) : length_;
}

void Samples::add_files_of(const SamplerState& at, std::set<std::size_t>& files) const {
  if (!packing_) {
    files.insert(corpus_->file_of(sampler_->first_token(at)));
    return;
  }
  for (const PackedPiece& piece : packing_->pieces(packed(at))) {
    files.insert(corpus_->file_of(piece.first));
  }
}

std::vector<std::string> Samples::warnings(const SamplerState& from, std::int64_t count) const {
  std::vector<std::string> sentences = sampler_->warnings();
  const std::int64_t looked_at = std::min(count, looked_at_most);
  std::set<std::size_t> seen;
  for (std::int64_t n = 0; n < looked_at && seen.size() < corpus_->files(); ++n) {
    add_files_of(sampler_->after(from, n), seen);
  }
  std::vector<std::string> never;
  for (std::size_t file = 0; looked_at > 0 && file < corpus_->files(); ++file) {
    if (!seen.contains(file)) never.push_back(corpus_->source(file));
  }
  if (never.empty()) return sentences;
  sentences.push_back(fmt::format(
      "{}: none of the {}{} samples of this run is of {}: train for more steps, or give {} more "
      "weight",
      fmt::join(never, ", "), looked_at < count ? "first " : "", looked_at,
      never.size() == 1 ? "it" : "them", never.size() == 1 ? "it" : "them"));
  return sentences;
}

void Samples::clear(const TokenBatch& into) {
  std::fill(into.inputs.begin(), into.inputs.end(), 0);
  std::fill(into.targets.begin(), into.targets.end(), no_target);
  std::fill(into.begins.begin(), into.begins.end(), 0);
}

Status Samples::read(const SamplerState& at, const TokenBatch& into) const {
  if (!packing_) return read_piece({sampler_->first_token(at), length_}, into, 0);
  clear(into);
  std::size_t place = 0;
  for (const PackedPiece& piece : packing_->pieces(packed(at))) {
    TESSERA_TRY(read_piece(piece, into, place));
    place += static_cast<std::size_t>(piece.places);
  }
  // What is empty is a document of its own, which nobody sees.
  for (std::size_t k = place; k < into.begins.size(); ++k) {
    into.begins[k] = static_cast<std::int32_t>(place);
  }
  return {};
}

Status Samples::read_piece(const PackedPiece& piece, const TokenBatch& all, std::size_t at) const {
  const auto count = static_cast<std::size_t>(piece.places);
  std::vector<std::int32_t> tokens(count + 1);
  TESSERA_TRY(corpus_->read(piece.first, tokens));
  auto begin = static_cast<std::int32_t>(at);
  for (std::size_t k = 0; k < count; ++k) {
    // A border is the first token of a document: the one before foretells it.
    if (tokens[k] == corpus_->border()) begin = static_cast<std::int32_t>(at + k);
    all.inputs[at + k] = tokens[k];
    const bool learned = corpus_->learned(piece.first + static_cast<std::int64_t>(k) + 1);
    all.targets[at + k] = learned ? tokens[k + 1] : no_target;
    all.begins[at + k] = begin;
  }
  return {};
}

}  // namespace tessera
