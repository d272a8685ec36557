// SPDX-License-Identifier: Apache-2.0
#include "training/data/megatron_index.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "training/data/token_formats.h"

namespace tessera {
namespace {

constexpr std::string_view magic("MMIDIDX\0\0", 9);
constexpr std::int64_t header_bytes = 34;

// By the numbers of Megatron-LM's dtypes: uint8, int8, int16, int32, int64, two of floats, uint16.
std::int64_t width_of(std::int64_t dtype) {
  switch (dtype) {
    case 1: return 1;
    case 3:
    case 8: return 2;
    case 4: return 4;
    default: return 0;
  }
}

// Numbers of one of the index's tables, in order.
class Table {
 public:
  Table(const std::string& path, std::int64_t begin, std::int64_t count, std::size_t width)
      : file_(path, std::ios::binary), left_(count), width_(width) {
    file_.seekg(begin);
  }

  // Behind the end, and of a file that cannot be read, -1.
  std::int64_t next() {
    if (at_ == read_) fill();
    if (at_ == read_) return -1;
    const std::int64_t number = number_at(std::as_bytes(std::span(part_)), at_ * width_, width_);
    ++at_;
    return width_ == 4 ? static_cast<std::int32_t>(number) : number;
  }

 private:
  void fill() {
    constexpr std::int64_t at_once = 1 << 16;
    const std::int64_t count = std::min(left_, at_once);
    part_.resize(static_cast<std::size_t>(count) * width_);
    file_.read(part_.data(), static_cast<std::streamsize>(part_.size()));
    read_ = file_ ? static_cast<std::size_t>(count) : 0;
    at_ = 0;
    left_ -= count;
  }

  std::ifstream file_;
  std::string part_;
  std::size_t read_ = 0, at_ = 0;
  std::int64_t left_;
  const std::size_t width_;
};

// Magic, version (8 bytes), dtype (1), numbers of sequences and of document borders (8 each), then
// lengths (4 each) and places (8 each) of sequences, and the sequences that begin documents (8
// each), with the end.
class MegatronIndex {
 public:
  MegatronIndex(const std::string& path, std::int64_t bin_size)
      : path_(path), bin_size_(bin_size) {}

  Result<TokenLayout> layout() {
    TESSERA_TRY(read_header());
    TESSERA_TRY(check_size());
    TESSERA_TRY(check_sequences());
    TESSERA_TRY(check_documents());
    TokenLayout out{.begins = 0, .width = width_};
    out.tokens = bin_size_ / width_;
    out.documents = borders_ - 1;
    return out;
  }

 private:
  Status failed(const std::string& what) const {
    return Status(Code::invalid_argument, fmt::format("{}: {}", path_, what));
  }
  Status damaged(const std::string& what) const {
    return failed(what + ": it is damaged, or of another file of tokens");
  }

  Status read_header() {
    std::ifstream file(path_, std::ios::binary);
    std::string header(header_bytes, '\0');
    if (!file) {
      return Status(
          Code::io_error,
          fmt::format("{}: cannot be read: Megatron's tokens need an index beside them", path_));
    }
    if (!file.read(header.data(), header_bytes) || !header.starts_with(magic)) {
      return failed("is no index of Megatron-LM");
    }
    const auto bytes = std::as_bytes(std::span(header));
    const std::int64_t version = number_at(bytes, 9, 8);
    const std::int64_t dtype = number_at(bytes, 17, 1);
    if (version != 1) return failed(fmt::format("has version {}, read is 1", version));
    width_ = width_of(dtype);
    if (width_ == 0) {
      return failed(
          fmt::format("has tokens of type {}, read are uint8, int16, uint16 and int32", dtype));
    }
    sequences_ = number_at(bytes, 18, 8);
    borders_ = number_at(bytes, 26, 8);
    if (bin_size_ > 0 && bin_size_ % width_ == 0) return {};
    return failed(fmt::format("has tokens of {} bytes, but {} has {} bytes", width_,
                              megatron_bin(path_), bin_size_));
  }

  Status check_size() const {
    std::error_code error;
    const auto size = static_cast<std::int64_t>(std::filesystem::file_size(path_, error));
    const bool possible =
        !error && sequences_ >= 1 && sequences_ <= size && borders_ >= 1 && borders_ <= size;
    const std::int64_t wanted = header_bytes + 12 * sequences_ + 8 * borders_;
    if (possible && size == wanted) return {};
    if (possible && size == wanted + sequences_) {
      return failed("has modes of sequences, as data of several kinds have: not supported");
    }
    return damaged(fmt::format("says that there are {} sequences and {} borders, but has {} bytes",
                               sequences_, borders_, size));
  }

  // Samples are windows of the whole file of tokens, so its order must be that of the index.
  Status check_sequences() const {
    Table lengths(path_, header_bytes, sequences_, 4);
    Table places(path_, header_bytes + 4 * sequences_, sequences_, 8);
    std::int64_t end = 0;
    for (std::int64_t k = 0; k < sequences_; ++k) {
      const std::int64_t length = lengths.next(), place = places.next();
      if (length < 0) return damaged(fmt::format("sequence {} has {} tokens", k, length));
      if (place != end) {
        return damaged(fmt::format("sequence {} begins at byte {} instead of {}", k, place, end));
      }
      end += length * width_;
    }
    if (end == bin_size_) return {};
    return damaged(fmt::format("its sequences end at byte {}, but {} has {} bytes", end,
                               megatron_bin(path_), bin_size_));
  }

  Status check_documents() const {
    Table borders(path_, header_bytes + 12 * sequences_, borders_, 8);
    std::int64_t last = 0;
    for (std::int64_t k = 0; k < borders_; ++k) {
      const std::int64_t border = borders.next();
      const bool fits = k == 0 ? border == 0 : border >= last && border <= sequences_;
      if (!fits) return damaged(fmt::format("document {} begins with sequence {}", k, border));
      last = border;
    }
    return {};
  }

  const std::string& path_;
  const std::int64_t bin_size_;
  std::int64_t width_ = 0, sequences_ = 0, borders_ = 0;
};

}  // namespace

bool is_megatron(const std::string& path, TokenFormat format) {
  if (format == TokenFormat::megatron) return true;
  const auto extension = std::filesystem::path(path).extension();
  if (format != TokenFormat::by_name) return false;
  std::error_code error;
  return extension == ".idx" ||
         (extension == ".bin" && std::filesystem::is_regular_file(megatron_idx(path), error));
}

std::string megatron_bin(const std::string& path) {
  return std::filesystem::path(path).replace_extension(".bin").string();
}

std::string megatron_idx(const std::string& path) {
  return std::filesystem::path(path).replace_extension(".idx").string();
}

Result<TokenLayout> megatron_layout(const std::string& index, std::int64_t bin_size) {
  return MegatronIndex(index, bin_size).layout();
}

}  // namespace tessera
