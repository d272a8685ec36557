// SPDX-License-Identifier: Apache-2.0
#include "tessera/sampler.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace tessera {
namespace {

std::uint64_t mixed(std::uint64_t hash, std::uint64_t value) {  // splitmix64's finaliser
  std::uint64_t z = hash + 0x9E3779B97F4A7C15ULL * (value + 1);
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
  return z ^ (z >> 31);
}

// The purpose for which a number is drawn; different ones give independent numbers.
enum class Purpose : std::uint64_t { order = 1, shift = 2, part = 3 };

std::uint64_t key_of(std::uint64_t seed, std::int64_t epoch, Purpose purpose) {
  return mixed(mixed(seed, static_cast<std::uint64_t>(epoch)), static_cast<std::uint64_t>(purpose));
}

constexpr std::uint64_t rounds = 4;

}  // namespace

std::int64_t permuted(std::int64_t index, std::int64_t count, std::uint64_t key) {
  TESSERA_ASSERT(index >= 0 && index < count, "an index of the permutation");
  // The network permutes [0, 4^half_bits). Walking on from a value beyond `count` ends at one below
  // it and keeps the map one-to-one; at most three of four values are beyond, so the walk is short.
  int half_bits = 1;
  while ((std::int64_t{1} << (2 * half_bits)) < count) ++half_bits;
  const std::uint64_t half = (std::uint64_t{1} << half_bits) - 1;
  auto value = static_cast<std::uint64_t>(index);
  do {
    std::uint64_t left = value >> half_bits;
    std::uint64_t right = value & half;
    for (std::uint64_t round = 0; round < rounds; ++round) {
      const std::uint64_t next = left ^ (mixed(mixed(key, round), right) & half);
      left = right;
      right = next;
    }
    value = (left << half_bits) | right;
  } while (value >= static_cast<std::uint64_t>(count));
  return static_cast<std::int64_t>(value);
}

Result<Sampler> Sampler::create(const std::string& source, TokenRange range,
                                std::int64_t sequence_length, std::uint64_t seed) {
  return create({{range, 1, source}}, sequence_length, seed);
}

Result<Sampler> Sampler::create(const std::vector<SampledRange>& ranges,
                                std::int64_t sequence_length, std::uint64_t seed) {
  Sampler sampler;
  sampler.sequence_length_ = sequence_length;
  sampler.seed_ = seed;
  for (const SampledRange& sampled : ranges) {
    const TokenRange& range = sampled.tokens;
    if (sequence_length < 1 || range.count <= sequence_length) {
      return Status(
          Code::invalid_argument,
          fmt::format("{}: {} tokens are too few: a sequence of {} needs {}, the last one as "
                      "its target: use more data or shorter sequences",
                      sampled.source, range.count, sequence_length, sequence_length + 1));
    }
    Part part{.range = range, .windows = (range.count - 1) / sequence_length};
    part.whole = sampled.weight == 1;
    part.weight = sampled.weight;
    part.source = sampled.source;
    const double share = static_cast<double>(part.windows) * sampled.weight;
    part.samples = part.whole ? part.windows : static_cast<std::int64_t>(share < 1 ? 1 : share);
    part.before = sampler.samples_;
    sampler.samples_ += part.samples;
    sampler.parts_.push_back(part);
  }
  TESSERA_ASSERT(!sampler.parts_.empty(), "a sampler needs a range");
  return sampler;
}

// A part that is taken once goes in its own order, which the epoch's permutation mixes. Others take
// their windows round by round, each round and epoch in another order.
std::int64_t Sampler::window_of(const Part& part, std::int64_t sample, std::int64_t epoch,
                                std::uint64_t number) const {
  if (part.whole) return sample;
  const auto round = static_cast<std::uint64_t>(sample / part.windows);
  const std::uint64_t key = mixed(mixed(key_of(seed_, epoch, Purpose::part), number), round);
  return permuted(sample % part.windows, part.windows, key);
}

std::int64_t Sampler::first_token(const SamplerState& state) const {
  TESSERA_ASSERT(check(state).ok(), "a sampler's state of other data");
  const std::int64_t sample =
      permuted(state.position, samples_, key_of(seed_, state.epoch, Purpose::order));
  const auto after =
      std::upper_bound(parts_.begin(), parts_.end(), sample,
                       [](std::int64_t place, const Part& part) { return place < part.before; });
  const Part& part = *(after - 1);
  const auto number = static_cast<std::uint64_t>(after - 1 - parts_.begin());
  const std::int64_t window = window_of(part, sample - part.before, state.epoch, number);
  // Windows are shifted along a ring of all possible beginnings, by another distance every epoch,
  // so that no token is left out in all of them.
  const std::uint64_t key = key_of(seed_, state.epoch, Purpose::shift);
  const std::int64_t beginnings = part.range.count - sequence_length_;
  const auto shift = static_cast<std::int64_t>((number == 0 ? key : mixed(key, number)) %
                                               static_cast<std::uint64_t>(beginnings));
  return part.range.first + (shift + window * sequence_length_) % beginnings;
}

SamplerState Sampler::after(const SamplerState& state, std::int64_t count) const {
  TESSERA_ASSERT(count >= 0 && samples_ > 0, "a sampler only goes forward");
  const std::int64_t position = state.position + count;
  return {state.epoch + position / samples_, position % samples_};
}

std::vector<std::string> Sampler::warnings() const {
  constexpr double noticed = 0.1;
  std::vector<std::string> sentences;
  for (const Part& part : parts_) {
    const double wanted = static_cast<double>(part.windows) * part.weight;
    if (std::abs(static_cast<double>(part.samples) - wanted) <= noticed * wanted) continue;
    sentences.push_back(fmt::format(
        "{}: its weight of {} asks for {:.3g} of its {} samples an epoch, {} is taken: use shorter "
        "sequences, or another weight",
        part.source, part.weight, wanted, part.windows, part.samples));
  }
  return sentences;
}

Status Sampler::check(const SamplerState& state) const {
  if (state.epoch >= 0 && state.position >= 0 && state.position < samples_) return {};
  return Status(Code::invalid_argument,
                fmt::format("epoch {}, sample {} is no place in these data, whose epochs have {} "
                            "samples: resume with the same data and sequence length",
                            state.epoch, state.position, samples_));
}

}  // namespace tessera
