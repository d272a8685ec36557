// SPDX-License-Identifier: Apache-2.0
// One file of tokens, or the same in memory: read by place, never as a whole.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tessera/corpus.h"

namespace tessera {

/// The documents of a file: where each begins, and behind them the end of the last; which tokens
/// are learned.
struct DocumentTable {
  std::vector<std::int64_t> begins;
  std::vector<bool> learned;
};

/// The place of the tokens within a file.
struct TokenLayout {
  std::int64_t begins = 0;  // bytes before the first token
  std::int64_t width = 1;   // of a token, in bytes
  std::int64_t tokens = 0;
  std::int64_t documents = 0;  // 0: unknown
};

class TokenFile {
 public:
  /// Fails: io_error, invalid_argument, naming it.
  static Result<std::shared_ptr<const TokenFile>> open(const std::string& path,
                                                       const CorpusOptions& options);
  static Result<std::shared_ptr<const TokenFile>> of(std::string bytes, const std::string& source,
                                                     TokenFormat format,
                                                     std::vector<std::string> warnings = {});
  static Result<std::shared_ptr<const TokenFile>> of_documents(
      const std::vector<Document>& documents, const std::string& source,
      std::vector<std::string> warnings = {});
  ~TokenFile();
  TokenFile(const TokenFile&) = delete;
  TokenFile& operator=(const TokenFile&) = delete;

  const std::string& source() const { return source_; }
  const TokenLayout& layout() const { return layout_; }
  /// What of it is not read as one may expect, a sentence each.
  const std::vector<std::string>& warnings() const { return warnings_; }
  /// Null: tokens without documents.
  const DocumentTable* documents() const { return documents_ ? &*documents_ : nullptr; }

  /// Fails: io_error, if the file has become shorter or cannot be read. REQUIRES: tokens of the
  /// file.
  Status read(std::int64_t first, std::span<std::uint32_t> into) const;
  /// Bytes of its tokens, from byte `first` of them on. Fails: as above.
  Status read_bytes(std::int64_t first, std::span<std::byte> into) const;
  std::int64_t bytes() const { return layout_.tokens * layout_.width; }

 private:
  TokenFile() = default;
  Status find_layout(TokenFormat format, std::int64_t size);
  /// Fails: invalid_argument, if its first bytes are those of something else than tokens.
  Status check_tokens() const;
  /// Of a format that the name told: leaves out a mark before UTF-8. Fails: invalid_argument, if
  /// the content is of another one.
  Status check_guess();

  std::string source_;
  std::vector<std::string> warnings_;
  std::string memory_;
  int descriptor_ = -1;  // -1: in memory
  TokenLayout layout_;
  std::optional<DocumentTable> documents_;
};

}  // namespace tessera
