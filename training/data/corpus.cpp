// SPDX-License-Identifier: Apache-2.0
#include "tessera/corpus.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <limits>

#include "engine/files/block_sum.h"
#include "training/data/token_file.h"

namespace tessera {
namespace {

constexpr std::int64_t looked_at = 1 << 20;        // bytes, when a file is opened
constexpr std::int64_t byte_vocabulary_max = 384;  // ByT5's: bytes and a few tokens besides

Status check_vocabulary(const std::string& source, std::int64_t vocabulary, std::int64_t first,
                        std::span<const std::uint32_t> tokens) {
  for (std::size_t k = 0; k < tokens.size(); ++k) {
    if (tokens[k] < vocabulary) continue;
    return Status(Code::invalid_argument,
                  fmt::format("{}: token {} at place {} is beyond the model's vocabulary of {}: "
                              "choose another model or another format",
                              source, tokens[k], first + static_cast<std::int64_t>(k), vocabulary));
  }
  return {};
}

// A wrong format shows at once, and no file is read as a whole for it; documents are in memory.
// Returns the tokens.
Result<std::vector<std::uint32_t>> check_begin(const TokenFile& file, std::int64_t vocabulary) {
  const TokenLayout& layout = file.layout();
  const bool all = file.documents() != nullptr;
  std::vector<std::uint32_t> tokens(static_cast<std::size_t>(
      all ? layout.tokens : std::min(layout.tokens, looked_at / layout.width)));
  TESSERA_TRY(file.read(0, tokens));
  TESSERA_TRY(check_vocabulary(file.source(), vocabulary, 0, tokens));
  return tokens;
}

std::string without_border(const TokenFile& file, std::int32_t border, std::size_t tokens) {
  const bool all = static_cast<std::int64_t>(tokens) == file.layout().tokens;
  return fmt::format(
      "{}: token {}, which would begin documents, is none of its {}{} tokens: attention looks "
      "across all of them",
      file.source(), border, all ? "" : "first ", tokens);
}

std::uint64_t fingerprint_of(const TokenFile& file) {
  constexpr std::int64_t places = 16;
  constexpr std::int64_t piece = 4096;
  const std::int64_t size = file.bytes();
  std::uint64_t sum =
      mixed_word(static_cast<std::uint64_t>(size), static_cast<std::uint64_t>(file.layout().width));
  std::vector<std::byte> bytes;
  for (std::int64_t k = 0; k < places; ++k) {
    const std::int64_t first = size / places * k;
    bytes.resize(static_cast<std::size_t>(std::min(piece, size - first)));
    // What cannot be read fails when a step reads it; until then it differs from what can.
    if (!file.read_bytes(first, bytes).ok()) return ~sum;
    sum += mixed_word(block_sum(bytes), static_cast<std::uint64_t>(k + 1));
  }
  return sum;
}

// Borders, and what is learned, besides the tokens themselves.
std::uint64_t fingerprint_of(const DocumentTable& table) {
  std::uint64_t sum = 0;
  for (std::size_t k = 0; k < table.begins.size(); ++k) {
    sum += mixed_word(static_cast<std::uint64_t>(table.begins[k]), k);
  }
  for (std::size_t k = 0; k < table.learned.size(); ++k) {
    if (table.learned[k]) sum += mixed_word(k, 1);
  }
  return sum;
}

// What of a tokenizer is not followed; tokens and models that were hardly made for each other.
std::vector<std::string> token_warnings(const TokenFile& file, const CorpusOptions& options) {
  const auto& tokenizer = options.documents.tokenizer;
  if (tokenizer) {
    std::vector<std::string> all = tokenizer->warnings();
    if (tokenizer->size() <= options.vocabulary) return all;
    all.push_back(
        fmt::format("{}: the tokenizer has tokens up to {}, the model up to {}: is it of "
                    "another model, or were tokens added to it?",
                    file.source(), tokenizer->size() - 1, options.vocabulary - 1));
    return all;
  }
  const bool documents = file.documents() != nullptr;
  const bool text = options.format == TokenFormat::by_name && file.layout().width == 1;
  if (!(documents || text) || options.vocabulary <= byte_vocabulary_max) return {};
  return {
      fmt::format("{}: its bytes are its tokens, of which there are 256, but the model has {}: "
                  "name its tokenizer with --tokenizer{}",
                  file.source(), options.vocabulary,
                  text ? ", or say --data-format bytes if they are meant" : "")};
}

Status check_kinds(const std::vector<std::shared_ptr<const TokenFile>>& files,
                   const std::vector<double>& weights) {
  const TokenFile& first = *files.front();
  for (std::size_t k = 0; k < files.size(); ++k) {
    const bool documents = files[k]->documents() != nullptr;
    if (documents != (first.documents() != nullptr)) {
      return Status(Code::invalid_argument,
                    fmt::format("{} holds {}, {} does not: train on one kind of data, such as a "
                                "file of tokens that tessera tokenize makes of both",
                                files[k]->source(), documents ? "documents" : "a row of tokens",
                                first.source()));
    }
    if (!documents || weights[k] == 1) continue;
    return Status(Code::invalid_argument,
                  fmt::format("{}: documents have no weight: name the file several times",
                              files[k]->source()));
  }
  return {};
}

}  // namespace

Result<Corpus> Corpus::of(std::vector<std::shared_ptr<const TokenFile>> files,
                          const std::vector<double>& weights, const CorpusOptions& options) {
  TESSERA_TRY(check_kinds(files, weights));
  Corpus corpus;
  corpus.vocabulary_ =
      std::min<std::int64_t>(options.vocabulary, std::numeric_limits<std::int32_t>::max());
  if (files.front()->documents() == nullptr) corpus.border_ = options.documents.end_of_text;
  corpus.warnings_ = token_warnings(*files.front(), options);
  std::int64_t first = 0;
  for (std::size_t k = 0; k < files.size(); ++k) {
    TESSERA_ASSIGN(const auto begin, check_begin(*files[k], corpus.vocabulary_));
    const auto border = static_cast<std::uint32_t>(corpus.border_);
    if (corpus.border_ >= 0 && std::find(begin.begin(), begin.end(), border) == begin.end()) {
      corpus.warnings_.push_back(without_border(*files[k], corpus.border_, begin.size()));
    }
    const std::int64_t tokens = files[k]->layout().tokens;
    corpus.parts_.push_back({std::move(files[k]), first, weights[k]});
    first += tokens;
  }
  return corpus;
}

Result<Corpus> Corpus::open(const std::string& path, const CorpusOptions& options) {
  return open(std::vector<CorpusFile>{{path, 1}}, options);
}

Result<Corpus> Corpus::open(const std::vector<CorpusFile>& files, const CorpusOptions& options) {
  if (files.empty()) return Status(Code::invalid_argument, "a corpus needs at least one file");
  std::vector<std::shared_ptr<const TokenFile>> opened;
  std::vector<double> weights;
  for (const CorpusFile& file : files) {
    if (!(file.weight > 0 && file.weight <= 1e6)) {
      return Status(Code::invalid_argument,
                    fmt::format("{}: its weight is {}, but must be above 0 and at most 1000000",
                                file.path, file.weight));
    }
    TESSERA_ASSIGN(opened.emplace_back(), TokenFile::open(file.path, options));
    weights.push_back(file.weight);
  }
  return of(std::move(opened), weights, options);
}

Result<Corpus> Corpus::from_bytes(std::string bytes, const std::string& source,
                                  const CorpusOptions& options) {
  TESSERA_ASSIGN(auto file, TokenFile::of(std::move(bytes), source, options.format));
  return of({std::move(file)}, {1}, options);
}

Result<Corpus> Corpus::from_documents(const std::vector<Document>& documents,
                                      const std::string& source, const CorpusOptions& options) {
  TESSERA_ASSIGN(auto file, TokenFile::of_documents(documents, source));
  return of({std::move(file)}, {1}, options);
}

const std::string& Corpus::source() const { return source(0); }

const std::string& Corpus::source(std::size_t file) const {
  TESSERA_ASSERT(file < parts_.size(), "a file of the corpus");
  return parts_[file].file->source();
}

std::int64_t Corpus::tokens() const {
  return parts_.back().first + parts_.back().file->layout().tokens;
}

std::vector<std::string> Corpus::warnings() const {
  std::vector<std::string> all = warnings_;
  for (const Part& part : parts_) {
    all.insert(all.end(), part.file->warnings().begin(), part.file->warnings().end());
  }
  return all;
}

std::int64_t Corpus::documents() const {
  std::int64_t sum = 0;
  for (const Part& part : parts_) sum += part.file->layout().documents;
  return sum;
}

std::vector<SampledRange> Corpus::ranges() const { return split(0).first; }

std::pair<std::vector<SampledRange>, std::vector<SampledRange>> Corpus::split(
    double fraction) const {
  std::pair<std::vector<SampledRange>, std::vector<SampledRange>> out;
  for (const Part& part : parts_) {
    auto [training, held_out] = tessera::split(part.file->layout().tokens, fraction);
    if (const DocumentTable* table = part.file->documents(); table != nullptr) {
      // A document that the cut would go through is held out.
      const auto& begins = table->begins;
      const std::int64_t cut =
          *(std::upper_bound(begins.begin(), begins.end(), training.count) - 1);
      held_out = {cut, held_out.first + held_out.count - cut};
      training.count = cut;
    }
    training.first += part.first;
    held_out.first += part.first;
    const std::string& source = part.file->source();
    out.first.push_back({training, part.weight, source});
    if (held_out.count > 0) out.second.push_back({held_out, 1, source});
  }
  return out;
}

std::uint64_t Corpus::fingerprint() const {
  std::uint64_t sum = 0;
  for (std::size_t k = 0; k < parts_.size(); ++k) {
    std::uint64_t own = fingerprint_of(*parts_[k].file);
    if (const auto* table = parts_[k].file->documents()) own += fingerprint_of(*table);
    sum += k == 0 ? own : mixed_word(own, k);
    // Another weight is another order of samples.
    const double weight = parts_[k].weight;
    if (weight != 1) sum += mixed_word(std::bit_cast<std::uint64_t>(weight), k + 1);
  }
  if (border_ >= 0) sum += mixed_word(static_cast<std::uint64_t>(border_), 2);
  return sum;
}

std::size_t Corpus::file_of(std::int64_t token) const {
  const auto after =
      std::upper_bound(parts_.begin(), parts_.end(), token,
                       [](std::int64_t place, const Part& part) { return place < part.first; });
  TESSERA_ASSERT(token >= 0 && after != parts_.begin(), "tokens beyond the corpus");
  return static_cast<std::size_t>(after - parts_.begin()) - 1;
}

bool Corpus::has_documents() const { return parts_.front().file->documents() != nullptr; }

std::vector<TokenRange> Corpus::documents_in(const TokenRange& range) const {
  TESSERA_ASSERT(has_documents(), "a corpus of documents");
  std::vector<TokenRange> out;
  for (const Part& part : parts_) {
    const auto& begins = part.file->documents()->begins;
    for (std::size_t d = 0; d + 1 < begins.size(); ++d) {
      const TokenRange own{part.first + begins[d], begins[d + 1] - begins[d]};
      if (own.first < range.first || own.first + own.count > range.first + range.count) continue;
      out.push_back(own);
    }
  }
  return out;
}

bool Corpus::learned(std::int64_t token) const {
  const Part& part = part_of(token);
  const DocumentTable* const table = part.file->documents();
  return table == nullptr || table->learned[static_cast<std::size_t>(token - part.first)];
}

Status Corpus::read(std::int64_t first, std::span<std::int32_t> into) const {
  const Part& part = part_of(first);
  const std::int64_t place = first - part.first;
  TESSERA_ASSERT(place + static_cast<std::int64_t>(into.size()) <= part.file->layout().tokens,
                 "tokens of one file of the corpus");
  // Unsigned numbers and signed ones of the same width may share memory.
  const std::span tokens(reinterpret_cast<std::uint32_t*>(into.data()), into.size());
  TESSERA_TRY(part.file->read(place, tokens));
  return check_vocabulary(part.file->source(), vocabulary_, place, tokens);
}

std::pair<TokenRange, TokenRange> split(std::int64_t tokens, double fraction) {
  const auto held_out = static_cast<std::int64_t>(static_cast<double>(tokens) * fraction);
  return {{0, tokens - held_out}, {tokens - held_out, held_out}};
}

}  // namespace tessera
