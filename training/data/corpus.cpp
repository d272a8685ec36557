// SPDX-License-Identifier: Apache-2.0
#include "tessera/corpus.h"

#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <iterator>

namespace tessera {
namespace {

std::int64_t width_of(TokenFormat format) {
  if (format == TokenFormat::uint32) return 4;
  return format == TokenFormat::uint16 ? 2 : 1;
}

std::int64_t token_at(const std::string& bytes, std::int64_t width, std::int64_t place) {
  std::int64_t token = 0;
  for (std::int64_t k = width; k-- > 0;) {
    token = token * 256 +
            static_cast<unsigned char>(bytes[static_cast<std::size_t>(place * width + k)]);
  }
  return token;
}

TokenFormat format_of(const std::string& path, TokenFormat asked) {
  if (asked != TokenFormat::by_name) return asked;
  return std::filesystem::path(path).extension() == ".bin" ? TokenFormat::uint16
                                                           : TokenFormat::bytes;
}

}  // namespace

Result<Corpus> Corpus::open(const std::string& path, const CorpusOptions& options) {
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) {
    return Status(Code::io_error, fmt::format("{}: is a folder: name a file to train on", path));
  }
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    return Status(Code::io_error,
                  fmt::format("{}: cannot be read: name a text file or a file of tokens", path));
  }
  std::string bytes(std::istreambuf_iterator<char>(file), {});
  if (file.bad()) return Status(Code::io_error, fmt::format("{}: reading failed", path));
  CorpusOptions of_file = options;
  of_file.format = format_of(path, options.format);
  return from_bytes(std::move(bytes), path, of_file);
}

Result<Corpus> Corpus::from_bytes(std::string bytes, const std::string& source,
                                  const CorpusOptions& options) {
  Corpus corpus;
  corpus.width_ = width_of(format_of(source, options.format));
  if (bytes.empty()) {
    return Status(Code::invalid_argument, fmt::format("{}: is empty: nothing to train on", source));
  }
  if (static_cast<std::int64_t>(bytes.size()) % corpus.width_ != 0) {
    return Status(Code::invalid_argument,
                  fmt::format("{}: {} bytes are no whole number of {}-byte tokens: choose the "
                              "format in which it was written",
                              source, bytes.size(), corpus.width_));
  }
  corpus.source_ = source;
  corpus.bytes_ = std::move(bytes);
  for (std::int64_t k = 0; k < corpus.tokens(); ++k) {
    const std::int64_t token = token_at(corpus.bytes_, corpus.width_, k);
    if (token < options.vocabulary) continue;
    return Status(Code::invalid_argument,
                  fmt::format("{}: token {} at place {} is beyond the model's vocabulary of {}: "
                              "choose another model or another format",
                              source, token, k, options.vocabulary));
  }
  return corpus;
}

void Corpus::read(std::int64_t first, std::span<std::int32_t> into) const {
  TESSERA_ASSERT(first >= 0 && first + static_cast<std::int64_t>(into.size()) <= tokens(),
                 "tokens beyond the corpus");
  for (std::size_t k = 0; k < into.size(); ++k) {
    into[k] =
        static_cast<std::int32_t>(token_at(bytes_, width_, first + static_cast<std::int64_t>(k)));
  }
}

std::pair<TokenRange, TokenRange> split(std::int64_t tokens, double fraction) {
  const auto held_out = static_cast<std::int64_t>(static_cast<double>(tokens) * fraction);
  return {{0, tokens - held_out}, {tokens - held_out, held_out}};
}

}  // namespace tessera
