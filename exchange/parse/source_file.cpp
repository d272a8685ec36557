// SPDX-License-Identifier: Apache-2.0
#include "exchange/parse/source_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#ifdef TESSERA_ZLIB
#include <zlib.h>
#endif

#include "exchange/parse/sqlite_file.h"

namespace tessera::exchange {
namespace {

constexpr std::size_t head_size = 64 << 10;
// What editors and shells of Windows write before UTF-8.
constexpr std::string_view byte_order_mark = "\xEF\xBB\xBF";
#ifdef TESSERA_ZLIB
// Recordings pack to a tenth or a thirtieth of their size.
constexpr std::int64_t times_packed_most = 100, unpacked_anyway = 64 << 20;
#endif

struct CloseFile {
  void operator()(std::FILE* file) const { std::fclose(file); }
};
using File = std::unique_ptr<std::FILE, CloseFile>;

bool starts_with_gzip(std::string_view bytes) { return bytes.starts_with("\x1f\x8b"); }

}  // namespace

/// The bytes of the file, unpacked.
struct SourceFile::Stream {
  std::string path;
  File file;
  Progress progress;
  std::vector<char> packed;        // as read from the file
  std::size_t at = 0, filled = 0;  // what of it is not used yet
  bool compressed = false;
#ifdef TESSERA_ZLIB
  z_stream zlib{};
  bool inside = false;                // of a gzip member
  bool breaks_off = false;            // the file ended there
  std::int64_t taken = 0, given = 0;  // bytes, packed and unpacked
#endif

  Stream() : packed(256 << 10) {}
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  ~Stream() {
#ifdef TESSERA_ZLIB
    if (compressed) inflateEnd(&zlib);
#endif
  }

  Status refill() {
    if (at < filled) return {};
    errno = 0;
    at = 0;
    filled = std::fread(packed.data(), 1, packed.size(), file.get());
    if (filled == 0 && std::ferror(file.get()) != 0) {
      return {Code::io_error, fmt::format("Cannot read \"{}\": {}.", path, std::strerror(errno))};
    }
    if (progress) progress(static_cast<std::int64_t>(filled));
    return {};
  }

  Status begin() {
    TESSERA_TRY(refill());
    compressed = starts_with_gzip({packed.data(), filled});
    if (!compressed) return {};
#ifdef TESSERA_ZLIB
    constexpr int gzip_only = 15 + 16;
    if (inflateInit2(&zlib, gzip_only) == Z_OK) return {};
    compressed = false;
    return {Code::out_of_memory, "There is no memory left to unpack a file."};
#else
    compressed = false;
    return {Code::not_supported,
            fmt::format("\"{}\" is compressed, and this build has no zlib: unpack it with gunzip.",
                        path)};
#endif
  }

  Result<std::size_t> read(std::span<char> buffer) {
#ifdef TESSERA_ZLIB
    if (compressed) return unpack(buffer);
#endif
    TESSERA_TRY(refill());
    const std::size_t size = std::min(buffer.size(), filled - at);
    std::copy_n(packed.data() + at, size, buffer.data());
    at += size;
    return size;
  }

#ifdef TESSERA_ZLIB
  Status damaged() const {
    return {Code::corrupt,
            fmt::format("\"{}\" is damaged: it is gzip, and its codes or its checksum "
                        "are wrong.",
                        path)};
  }

  Status exaggerated() const {
    return {Code::corrupt,
            fmt::format("\"{}\" unpacks to more than {} times its size, as no recording does: if "
                        "it is one, unpack it with gunzip.",
                        path, times_packed_most)};
  }

  Result<std::size_t> unpack(std::span<char> buffer) {
    zlib.next_out = reinterpret_cast<Bytef*>(buffer.data());
    zlib.avail_out = static_cast<uInt>(buffer.size());
    while (zlib.avail_out > 0) {
      TESSERA_TRY(refill());
      if (at == filled) {
        breaks_off = inside;
        break;
      }
      zlib.next_in = reinterpret_cast<Bytef*>(packed.data() + at);
      zlib.avail_in = static_cast<uInt>(filled - at);
      inside = true;
      const uInt room = zlib.avail_out;
      const int code = inflate(&zlib, Z_NO_FLUSH);
      taken += static_cast<std::int64_t>(filled - at) - zlib.avail_in;
      given += room - zlib.avail_out;
      at = filled - zlib.avail_in;
      if (given > unpacked_anyway && given > times_packed_most * taken) return exaggerated();
      if (code == Z_STREAM_END) {  // another member may follow
        inside = false;
        if (inflateReset(&zlib) != Z_OK) return damaged();
        TESSERA_TRY(refill());
        if (at < filled && packed[at] != '\x1f') at = filled = 0;  // padding
        continue;
      }
      if (code != Z_OK && code != Z_BUF_ERROR) return damaged();
    }
    return buffer.size() - zlib.avail_out;
  }
#endif
};

SourceFile::SourceFile(std::string path, std::unique_ptr<Stream> stream)
    : path_(std::move(path)), stream_(std::move(stream)) {}
SourceFile::SourceFile(SourceFile&&) noexcept = default;
SourceFile::~SourceFile() = default;

Result<SourceFile> SourceFile::open(const std::string& path, Progress progress) {
  auto stream = std::make_unique<Stream>();
  stream->path = path;
  stream->file.reset(std::fopen(path.c_str(), "rb"));
  if (!stream->file) {
    return Status(Code::io_error,
                  fmt::format("Cannot open \"{}\": {}.", path, std::strerror(errno)));
  }
  stream->progress = std::move(progress);
  TESSERA_TRY(stream->begin());
  SourceFile source(path, std::move(stream));
  std::string head(head_size, '\0');
  while (source.head_read_ < head_size) {
    TESSERA_ASSIGN(const std::size_t size,
                   source.stream_->read(std::span(head).subspan(source.head_read_)));
    if (size == 0) break;
    source.head_read_ += size;
  }
  head.resize(source.head_read_);
  if (head.empty() && source.breaks_off()) return source.error(Code::corrupt, "it breaks off");
  if (head.starts_with(byte_order_mark)) head.erase(0, byte_order_mark.size());
  source.head_ = std::move(head);
  source.head_read_ = 0;
  if (!source.head_.starts_with(std::string_view("SQLite format 3\0", 16))) return source;
  if (source.stream_->compressed) {
    return source.error(Code::not_supported,
                        "it is a compressed database: unpack it with gunzip first");
  }
  TESSERA_ASSIGN(const SqliteFile database, SqliteFile::open(path));
  source.tables_ = database.tables();
  return source;
}

bool SourceFile::breaks_off() const {
#ifdef TESSERA_ZLIB
  return stream_->breaks_off;
#else
  return false;
#endif
}

std::string SourceFile::name() const { return path_.substr(path_.find_last_of('/') + 1); }

bool SourceFile::has_table(std::string_view name) const {
  return std::find(tables_.begin(), tables_.end(), name) != tables_.end();
}

Result<std::size_t> SourceFile::read(std::span<char> buffer) {
  if (head_read_ == head_.size()) return stream_->read(buffer);
  const std::size_t size = std::min(buffer.size(), head_.size() - head_read_);
  std::copy_n(head_.data() + head_read_, size, buffer.data());
  head_read_ += size;
  return size;
}

Result<std::string> SourceFile::read_all(std::int64_t most) {
  std::string all;
  std::array<char, 64 << 10> part{};
  while (true) {
    TESSERA_ASSIGN(const std::size_t size, read(part));
    if (size == 0) return all;
    if (static_cast<std::int64_t>(all.size() + size) > most) {
      return error(Code::out_of_memory, fmt::format("it has more than {} MiB", most >> 20));
    }
    all.append(part.data(), size);
  }
}

Status SourceFile::error(Code code, std::string_view what) const {
  return {code, fmt::format("Cannot import \"{}\": {}.", path_, what)};
}

}  // namespace tessera::exchange
