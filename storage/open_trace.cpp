// SPDX-License-Identifier: Apache-2.0
#include "storage/open_trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "storage/schema.h"
#include "tessera/storage/begins_as_trace.h"

namespace tessera::storage {
namespace {

// https://www.sqlite.org/fileformat2.html#the_database_header
constexpr std::size_t header_size = 100;
constexpr std::size_t page_size_at = 16, page_count_at = 28, user_version_at = 60,
                      application_id_at = 68;
constexpr std::string_view magic{"SQLite format 3\0", 16};

using Header = std::array<unsigned char, header_size>;

std::uint32_t big_endian(const Header& header, std::size_t at, std::size_t count) {
  std::uint32_t value = 0;
  for (std::size_t i = 0; i < count; ++i) value = value << 8 | header[at + i];
  return value;
}

Status check_header(const std::string& path, const Header& header, std::uint64_t size) {
  const auto corrupt = [&](std::string what) {
    return Status(Code::corrupt, fmt::format("\"{}\" {}", path, what));
  };
  if (size == 0) return corrupt("is empty: nothing was recorded into it.");
  const std::size_t known = std::min<std::size_t>(magic.size(), size);
  if (std::string_view(reinterpret_cast<const char*>(header.data()), known) !=
      magic.substr(0, known)) {
    return corrupt("is not a trace: it is no SQLite database.");
  }
  if (size < header_size) {
    return corrupt(fmt::format("is truncated: {} bytes are left of it.", size));
  }
  const std::uint32_t id = big_endian(header, application_id_at, 4);
  // Of a recording that was killed at its very beginning SQLite has the header, and no table yet.
  if (id == 0 && big_endian(header, page_count_at, 4) <= 1) {
    return corrupt("is empty: nothing was recorded into it.");
  }
  if (id != trace_application_id) {
    return corrupt(
        fmt::format("is not a trace: it is a SQLite database of another application "
                    "(application_id 0x{:08x} instead of 0x{:08x}).",
                    id, trace_application_id));
  }
  const std::uint32_t version = big_endian(header, user_version_at, 4);
  if (version > trace_format_version) {
    return {Code::not_supported,
            fmt::format("\"{}\" has trace format {}; this version reads up to {}. Use a newer "
                        "version of tessera.",
                        path, version, trace_format_version)};
  }
  if (version == 0) return corrupt("is damaged: it claims trace format 0, which never existed.");
  const std::uint32_t page_size = big_endian(header, page_size_at, 2);
  const std::uint64_t expected =
      std::uint64_t{page_size == 1 ? 65536 : page_size} * big_endian(header, page_count_at, 4);
  if (size < expected) {
    return corrupt(fmt::format("is truncated: it has {} of {} bytes.", size, expected));
  }
  return {};
}

}  // namespace

bool begins_as_trace(std::string_view bytes) {
  if (!bytes.starts_with(magic) || bytes.size() < header_size) return false;
  Header header{};
  std::copy_n(bytes.begin(), header_size, header.begin());
  return big_endian(header, application_id_at, 4) == trace_application_id;
}

Result<Database> open_trace(const std::string& path) {
  std::error_code error;
  const std::filesystem::file_status status = std::filesystem::status(path, error);
  if (!std::filesystem::exists(status)) {
    const bool left = std::filesystem::exists(path + ".partial", error);
    return Status(Code::io_error,
                  fmt::format("There is no file \"{}\"{}.", path,
                              left ? ", but its recording, which goes on or was stopped: name \"" +
                                         path + ".partial\""
                                   : ""));
  }
  if (std::filesystem::is_directory(status)) {
    return Status(Code::io_error,
                  fmt::format("\"{}\" is a directory; name a trace file in it.", path));
  }
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  const std::uint64_t size = std::filesystem::file_size(path, error);
  if (!file || error) {
    return Status(Code::io_error,
                  fmt::format("Cannot read \"{}\": {}.", path,
                              error ? error.message() : std::generic_category().message(errno)));
  }
  Header header{};
  file.read(reinterpret_cast<char*>(header.data()), header_size);
  TESSERA_TRY(check_header(path, header, size));
  return Database::open_read_only(path);
}

}  // namespace tessera::storage
