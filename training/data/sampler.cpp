// SPDX-License-Identifier: Apache-2.0
#include "tessera/sampler.h"

#include <fmt/format.h>

namespace tessera {
namespace {

std::uint64_t mixed(std::uint64_t hash, std::uint64_t value) {  // splitmix64's finaliser
  std::uint64_t z = hash + 0x9E3779B97F4A7C15ULL * (value + 1);
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
  return z ^ (z >> 31);
}

// The purpose for which a number is drawn; different ones give independent numbers.
enum class Purpose : std::uint64_t { order = 1, shift = 2 };

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
  if (sequence_length < 1 || range.count <= sequence_length) {
    return Status(
        Code::invalid_argument,
        fmt::format("{}: {} tokens are too few: a sequence of {} needs {}, the last one as "
                    "its target: use more data or shorter sequences",
                    source, range.count, sequence_length, sequence_length + 1));
  }
  Sampler sampler;
  sampler.range_ = range;
  sampler.sequence_length_ = sequence_length;
  sampler.samples_ = (range.count - 1) / sequence_length;
  sampler.seed_ = seed;
  return sampler;
}

std::int64_t Sampler::first_token(const SamplerState& state) const {
  TESSERA_ASSERT(check(state).ok(), "a sampler's state of other data");
  const std::int64_t window =
      permuted(state.position, samples_, key_of(seed_, state.epoch, Purpose::order));
  // Windows are shifted along a ring of all possible beginnings, by another distance every epoch,
  // so that no token is left out in all of them.
  const std::int64_t beginnings = range_.count - sequence_length_;
  const auto shift = static_cast<std::int64_t>(key_of(seed_, state.epoch, Purpose::shift) %
                                               static_cast<std::uint64_t>(beginnings));
  return range_.first + (shift + window * sequence_length_) % beginnings;
}

SamplerState Sampler::after(const SamplerState& state, std::int64_t count) const {
  TESSERA_ASSERT(count >= 0 && samples_ > 0, "a sampler only goes forward");
  const std::int64_t position = state.position + count;
  return {state.epoch + position / samples_, position % samples_};
}

Status Sampler::check(const SamplerState& state) const {
  if (state.epoch >= 0 && state.position >= 0 && state.position < samples_) return {};
  return Status(Code::invalid_argument,
                fmt::format("epoch {}, sample {} is no place in these data, whose epochs have {} "
                            "samples: resume with the same data and sequence length",
                            state.epoch, state.position, samples_));
}

}  // namespace tessera
