// SPDX-License-Identifier: Apache-2.0
// Tokens to train on: texts, files of token numbers, or documents, a line of JSON each.
//
// The idea: a corpus is one long row of tokens, the same on every rank, of one file or of several.
// It stays in its files: a window of it is read when a step wants it, so files may be larger than
// memory and opening one takes no time. The system keeps what was read, once for all ranks of a
// machine. Which windows a rank trains on is a Sampler's matter (tessera/sampler.h). Only texts
// that have to be encoded first, and documents, lie in memory, four bytes a token in every process.
//
//   TESSERA_ASSIGN(const Corpus corpus, Corpus::open("book.txt", {.vocabulary = 256}));
//   TESSERA_ASSIGN(const Corpus mixed, Corpus::open({{"web.bin"}, {"code.bin", 2.5}}, options));
//   TESSERA_TRY(corpus.read(5000, tokens));
//   const auto [training, validation] = corpus.split(0.1);
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tessera/documents.h"
#include "tessera/status.h"

namespace tessera {

enum class TokenFormat : std::uint8_t {
  by_name,  // .bin: llm.c if it begins so, Megatron if there is an .idx beside it, else uint16;
            // .idx: megatron; .jsonl: json_lines; anything else: bytes
  bytes,    // a token per byte: 256 of them; with a tokenizer a text
  uint16,   // little endian, without a header (nanoGPT's)
  uint32,
  llm_c,       // a header of 256 int32 (magic, version, number of tokens), then uint16 or uint32
  megatron,    // tokens in NAME.bin, their type and documents in NAME.idx
  json_lines,  // a document per line (tessera/documents.h)
};

struct CorpusOptions {
  TokenFormat format = TokenFormat::by_name;
  std::int64_t vocabulary = 256;  // size of the model's vocabulary: tokens must be smaller
  /// How texts and documents are encoded. In other files each `end_of_text`, if it is given, is the
  /// first token of a document.
  DocumentOptions documents = {};
};

struct CorpusFile {
  std::string path = {};
  /// How often its samples come in an epoch: 0.5 takes every other one, others in another epoch.
  double weight = 1;
};

/// Tokens [first, first + count) of a corpus.
struct TokenRange {
  std::int64_t first = 0;
  std::int64_t count = 0;
};

/// A range within one file, with that file's weight.
struct SampledRange {
  TokenRange tokens = {};
  double weight = 1;
  std::string source = {};  // its name in messages
};

class TokenFile;

class Corpus {
 public:
  /// Fails: io_error (no such file, a folder, cannot be read), invalid_argument (empty, half a
  /// token at the end, a header that does not fit, a weight that is not above 0; a token that the
  /// vocabulary has not among the first MiB; documents beside other files, or with a weight),
  /// naming file, token and place; what read_documents fails with.
  static Result<Corpus> open(const std::string& path, const CorpusOptions& options);
  static Result<Corpus> open(const std::vector<CorpusFile>& files, const CorpusOptions& options);
  /// As `open`, from bytes in memory; `source` names them in messages.
  static Result<Corpus> from_bytes(std::string bytes, const std::string& source,
                                   const CorpusOptions& options);
  /// Of documents in memory.
  static Result<Corpus> from_documents(const std::vector<Document>& documents,
                                       const std::string& source, const CorpusOptions& options);

  /// The name of the corpus in messages: its file, or the first of them.
  const std::string& source() const;
  std::size_t files() const { return parts_.size(); }
  /// REQUIRES: file < files().
  const std::string& source(std::size_t file) const;
  /// REQUIRES: a token of the corpus.
  std::size_t file_of(std::int64_t token) const;
  std::int64_t tokens() const;
  /// What of its files is not read as one may expect, a sentence each, with the file's name.
  std::vector<std::string> warnings() const;
  /// The number of documents that its files name, 0 if they name none.
  std::int64_t documents() const;
  /// All of it, by file.
  std::vector<SampledRange> ranges() const;
  /// Cuts every file into a range for training and, behind it, the last `fraction` of it for
  /// validation, which has no weights. Documents are not cut. REQUIRES: 0 <= fraction <= 1.
  std::pair<std::vector<SampledRange>, std::vector<SampledRange>> split(double fraction) const;
  /// A checksum of its length and of samples of its content, 64 KiB from 16 places of each file,
  /// and of weights: corpora that differ in it are different.
  std::uint64_t fingerprint() const;
  /// Fills `into` with the tokens from `first` on. Several threads may call it at the same time.
  /// Fails: io_error (the file is shorter than it was), invalid_argument (a token beyond the
  /// vocabulary), naming file and place. REQUIRES: first >= 0, first + into.size() within one file.
  Status read(std::int64_t first, std::span<std::int32_t> into) const;

  /// It consists of documents, which are trained on as such; else of windows of tokens.
  bool has_documents() const;
  /// The documents that lie in `range`. REQUIRES: has_documents().
  std::vector<TokenRange> documents_in(const TokenRange& range) const;
  /// Whether that token is learned. REQUIRES: a token of the corpus.
  bool learned(std::int64_t token) const;
  /// The token with which documents begin in files of tokens; -1: they have no borders.
  std::int32_t border() const { return border_; }

 private:
  Corpus() = default;
  static Result<Corpus> of(std::vector<std::shared_ptr<const TokenFile>> files,
                           const std::vector<double>& weights, const CorpusOptions& options);

  struct Part {
    std::shared_ptr<const TokenFile> file;
    std::int64_t first = 0;  // of the corpus
    double weight = 1;
  };
  const Part& part_of(std::int64_t token) const { return parts_[file_of(token)]; }

  std::vector<Part> parts_;
  std::vector<std::string> warnings_;
  std::int64_t vocabulary_ = 0;
  std::int32_t border_ = -1;
};

/// Cuts `tokens` tokens into a range for training and, behind it, the last `fraction` of them for
/// validation.
/// REQUIRES: 0 <= fraction <= 1.
std::pair<TokenRange, TokenRange> split(std::int64_t tokens, double fraction);

}  // namespace tessera
