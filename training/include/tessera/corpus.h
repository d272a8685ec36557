// SPDX-License-Identifier: Apache-2.0
// Tokens to train on: a text file, whose bytes are tokens, or a file of token numbers.
//
// The idea: a corpus is one long row of tokens, whole in memory, the same on every rank. Which of
// them a rank trains on is a Sampler's matter (tessera/sampler.h).
//
//   TESSERA_ASSIGN(const Corpus corpus, Corpus::open("book.txt", {.vocabulary = 256}));
//   const auto [training, validation] = split(corpus.tokens(), 0.1);
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tessera/status.h"

namespace tessera {

enum class TokenFormat : std::uint8_t {
  by_name,  // .bin: uint16, anything else: bytes
  bytes,    // a token per byte: 256 of them
  uint16,   // little endian, without a header
  uint32,
};

struct CorpusOptions {
  TokenFormat format = TokenFormat::by_name;
  std::int64_t vocabulary = 256;  // size of the model's vocabulary: tokens must be smaller
};

/// Tokens [first, first + count) of a corpus.
struct TokenRange {
  std::int64_t first = 0;
  std::int64_t count = 0;
};

class Corpus {
 public:
  /// Fails: io_error (no such file, a folder, cannot be read), invalid_argument (empty, half a
  /// token at the end, a token that the vocabulary has not), naming file, token and place.
  static Result<Corpus> open(const std::string& path, const CorpusOptions& options);
  /// As `open`, from bytes in memory; `source` names them in messages.
  static Result<Corpus> from_bytes(std::string bytes, const std::string& source,
                                   const CorpusOptions& options);

  /// The name of the corpus in messages: its file.
  const std::string& source() const { return source_; }
  std::int64_t tokens() const { return static_cast<std::int64_t>(bytes_.size()) / width_; }
  /// Fills `into` with the tokens from `first` on. Several threads may call it at the same time.
  /// REQUIRES: first >= 0, first + into.size() <= tokens().
  void read(std::int64_t first, std::span<std::int32_t> into) const;

 private:
  Corpus() = default;

  std::string source_;
  std::string bytes_;
  std::int64_t width_ = 1;  // of a token, in bytes
};

/// Cuts `tokens` tokens into a range for training and, behind it, the last `fraction` of them for
/// validation.
/// REQUIRES: 0 <= fraction <= 1.
std::pair<TokenRange, TokenRange> split(std::int64_t tokens, double fraction);

}  // namespace tessera
