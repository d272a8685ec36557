// SPDX-License-Identifier: Apache-2.0
#include "training/data/token_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

#include "engine/text/text_file.h"
#include "tessera/documents.h"
#include "training/data/megatron_index.h"
#include "training/data/token_formats.h"

namespace tessera {
namespace {

Status unreadable(const std::string& path, const std::string& why) {
  return Status(Code::io_error, fmt::format("{}: cannot be read{}: name a text file or a file of "
                                            "tokens",
                                            path, why));
}

// Little endian, as files have them.
std::string bytes_of(std::span<const std::int32_t> tokens) {
  std::string bytes;
  bytes.reserve(4 * tokens.size());
  for (const std::int32_t token : tokens) {
    const auto number = static_cast<std::uint32_t>(token);
    for (int k = 0; k < 4; ++k) bytes += static_cast<char>(number >> (8 * k) & 0xFF);
  }
  return bytes;
}

// What a file is by its name, if it has to be encoded.
TokenFormat format_of(const std::string& path, const CorpusOptions& options) {
  if (options.format != TokenFormat::by_name) return options.format;
  const auto extension = std::filesystem::path(path).extension();
  if (extension == ".jsonl") return TokenFormat::json_lines;
  if (extension == ".bin" || extension == ".idx") return TokenFormat::by_name;
  return TokenFormat::bytes;
}

constexpr std::int64_t probed = 1 << 16;  // bytes of a file that is not what its name says

// What a name promises and the content does not keep would be trained on without a word.
Status check_text(const std::string& path, std::string_view beginning) {
  const std::string other = other_than_text(path, beginning);
  if (other.empty()) return {};
  return Status(Code::invalid_argument,
                fmt::format("{}: {}: convert it, or say --data-format bytes if it is to be learned "
                            "as it stands, jsonl if each line is a document",
                            path, other));
}

Result<std::string> whole_text(const std::string& path) {
  std::error_code error;
  std::ifstream file(path, std::ios::binary);
  if (!file || std::filesystem::is_directory(path, error)) {
    return unreadable(path,
                      std::filesystem::is_directory(path, error) ? ", as it is a folder" : "");
  }
  return std::string(std::istreambuf_iterator<char>(file), {});
}

}  // namespace

TokenFile::~TokenFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

Result<std::shared_ptr<const TokenFile>> TokenFile::open(const std::string& path,
                                                         const CorpusOptions& options) {
  TESSERA_TRY(check_no_stream(path));
  const TokenFormat asked = format_of(path, options);
  if (asked == TokenFormat::json_lines) {
    DocumentNotes notes;
    TESSERA_ASSIGN(const auto documents, read_documents(path, options.documents, &notes));
    std::vector<std::string> warnings = warnings_of(notes, path);
    if (options.documents.chat != ChatTemplate::none && notes.chats == 0) {
      warnings.push_back(path + ": has no chats, so none of it is written by the chat template");
    }
    if (options.documents.key != DocumentOptions().key && notes.texts == 0) {
      warnings.push_back(
          fmt::format("{}: no line is a text with the key {}", path, options.documents.key));
    }
    return of_documents(documents, path, std::move(warnings));
  }
  if (asked == TokenFormat::bytes && options.documents.tokenizer) {
    TESSERA_ASSIGN(const std::string text, whole_text(path));
    std::string_view plain = text;
    if (options.format == TokenFormat::by_name) {
      TESSERA_TRY(check_text(path, plain.substr(0, probed)));
      plain.remove_prefix(utf8_mark(plain));
    }
    const auto tokens = options.documents.tokenizer->encode(plain, SpecialTokens::left_out);
    if (!tokens.ok()) {
      return Status(tokens.status().code(), fmt::format("{}: {}", path, tokens.status().message()));
    }
    DocumentNotes notes;
    note_tokens(*tokens, *options.documents.tokenizer, notes);
    return of(bytes_of(*tokens), path, TokenFormat::uint32, warnings_of(notes, path));
  }
  const std::string of_tokens = is_megatron(path, asked) ? megatron_bin(path) : path;
  auto file = std::shared_ptr<TokenFile>(new TokenFile);
  file->source_ = of_tokens;
  file->descriptor_ = ::open(of_tokens.c_str(), O_RDONLY | O_CLOEXEC);
  struct stat what = {};
  if (file->descriptor_ < 0 || ::fstat(file->descriptor_, &what) != 0) {
    return unreadable(of_tokens, fmt::format(" ({})", std::strerror(errno)));
  }
  if (S_ISDIR(what.st_mode)) {
    return Status(Code::io_error,
                  fmt::format("{}: is a folder: name a file to train on", of_tokens));
  }
  if (is_megatron(path, asked)) {
    TESSERA_ASSIGN(file->layout_, megatron_layout(megatron_idx(path), what.st_size));
  } else {
    TESSERA_TRY(file->find_layout(asked, what.st_size));
    TESSERA_TRY(file->check_tokens());
    if (options.format == TokenFormat::by_name) TESSERA_TRY(file->check_guess());
  }
  return std::shared_ptr<const TokenFile>(std::move(file));
}

Result<std::shared_ptr<const TokenFile>> TokenFile::of(std::string bytes, const std::string& source,
                                                       TokenFormat format,
                                                       std::vector<std::string> warnings) {
  auto file = std::shared_ptr<TokenFile>(new TokenFile);
  file->source_ = source;
  file->warnings_ = std::move(warnings);
  file->memory_ = std::move(bytes);
  TESSERA_TRY(file->find_layout(format, static_cast<std::int64_t>(file->memory_.size())));
  return std::shared_ptr<const TokenFile>(std::move(file));
}

Result<std::shared_ptr<const TokenFile>> TokenFile::of_documents(
    const std::vector<Document>& documents, const std::string& source,
    std::vector<std::string> warnings) {
  auto file = std::shared_ptr<TokenFile>(new TokenFile);
  file->source_ = source;
  file->warnings_ = std::move(warnings);
  DocumentTable& table = file->documents_.emplace();
  for (const Document& document : documents) {
    table.begins.push_back(static_cast<std::int64_t>(table.learned.size()));
    file->memory_ += bytes_of(document.tokens);
    table.learned.insert(table.learned.end(), document.learned.begin(), document.learned.end());
  }
  table.begins.push_back(static_cast<std::int64_t>(table.learned.size()));
  TESSERA_TRY(
      file->find_layout(TokenFormat::uint32, static_cast<std::int64_t>(file->memory_.size())));
  file->layout_.documents = static_cast<std::int64_t>(documents.size());
  return std::shared_ptr<const TokenFile>(std::move(file));
}

Status TokenFile::find_layout(TokenFormat asked, std::int64_t size) {
  if (size == 0) {
    return Status(Code::invalid_argument,
                  fmt::format("{}: is empty: nothing to train on", source_));
  }
  std::array<std::byte, llm_c_header> header{};
  if (size >= llm_c_header) {
    layout_ = {.begins = 0, .width = 1, .tokens = size};
    TESSERA_TRY(read_bytes(0, header));
  }
  const bool bin = std::filesystem::path(source_).extension() == ".bin";
  const bool looks = size >= llm_c_header && begins_as_llm_c(header);
  if (asked == TokenFormat::llm_c || (asked == TokenFormat::by_name && bin && looks)) {
    TESSERA_ASSIGN(layout_, llm_c_layout(source_, header, size));
    return {};
  }
  TokenFormat format = asked;
  if (asked == TokenFormat::by_name) format = bin ? TokenFormat::uint16 : TokenFormat::bytes;
  const std::int64_t width = format == TokenFormat::uint32   ? 4
                             : format == TokenFormat::uint16 ? 2
                                                             : 1;
  if (size % width != 0) {
    return Status(Code::invalid_argument,
                  fmt::format("{}: {} bytes are no whole number of {}-byte tokens: choose the "
                              "format in which it was written",
                              source_, size, width));
  }
  layout_ = {.begins = 0, .width = width, .tokens = size / width};
  return {};
}

Status TokenFile::check_tokens() const {
  if (layout_.width == 1 || layout_.begins > 0) return {};
  std::vector<std::byte> bytes(
      static_cast<std::size_t>(std::min(probed, layout_.tokens * layout_.width)));
  TESSERA_TRY(read_bytes(0, bytes));
  const std::string other =
      other_than_tokens({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  if (other.empty()) return {};
  return Status(Code::invalid_argument,
                fmt::format("{}: {}, no tokens of {} bytes: write their numbers alone, or say "
                            "--data-format bytes or jsonl if it is text",
                            source_, other, layout_.width));
}

Status TokenFile::check_guess() {
  std::vector<std::byte> bytes(
      static_cast<std::size_t>(std::min(probed, layout_.tokens * layout_.width)));
  TESSERA_TRY(read_bytes(0, bytes));
  if (layout_.width == 2 && has_wide_tokens(bytes)) {
    return Status(
        Code::invalid_argument,
        fmt::format("{}: every second number of 2 bytes is 0, so its tokens have 4 or 8: say "
                    "--data-format uint32 (8 bytes have to be converted), or uint16 if they are "
                    "of 2",
                    source_));
  }
  if (layout_.width != 1) return {};
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  TESSERA_TRY(check_text(source_, text));
  const auto mark = static_cast<std::int64_t>(utf8_mark(text));
  layout_.begins += mark;
  layout_.tokens -= mark;
  if (layout_.tokens > 0) return {};
  return Status(Code::invalid_argument, fmt::format("{}: is empty: nothing to train on", source_));
}

Status TokenFile::read_bytes(std::int64_t first, std::span<std::byte> into) const {
  const std::int64_t at = layout_.begins + first;
  if (descriptor_ < 0) {
    std::memcpy(into.data(), memory_.data() + at, into.size());
    return {};
  }
  std::size_t done = 0;
  while (done < into.size()) {
    const ssize_t got = ::pread(descriptor_, into.data() + done, into.size() - done,
                                at + static_cast<std::int64_t>(done));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) {
      return Status(Code::io_error,
                    fmt::format("{}: cannot be read at byte {}: {}", source_,
                                at + static_cast<std::int64_t>(done),
                                got == 0 ? "it has become shorter" : std::strerror(errno)));
    }
    done += static_cast<std::size_t>(got);
  }
  return {};
}

Status TokenFile::read(std::int64_t first, std::span<std::uint32_t> into) const {
  const auto width = static_cast<std::size_t>(layout_.width);
  // The bytes lie at the end of the numbers they become, so none is overwritten before it is read.
  const auto bytes = std::as_writable_bytes(into).last(into.size() * width);
  TESSERA_TRY(read_bytes(first * layout_.width, bytes));
  for (std::size_t k = 0; k < into.size(); ++k) {
    std::uint32_t token = 0;
    for (std::size_t b = width; b-- > 0;) {
      token = token * 256 + std::to_integer<std::uint32_t>(bytes[k * width + b]);
    }
    into[k] = token;
  }
  return {};
}

}  // namespace tessera
