// SPDX-License-Identifier: Apache-2.0
#include "cli/train/event_file.h"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <bit>
#include <chrono>
#include <filesystem>

namespace tessera::cli {
namespace {

constexpr std::array<std::uint32_t, 256> castagnoli_table() {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    std::uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0x82F63B78U : 0);
    table[byte] = crc;
  }
  return table;
}

template <class Word>
std::string little_endian(Word word) {
  std::string bytes;
  for (std::size_t k = 0; k < sizeof(word); ++k) bytes += static_cast<char>(word >> (8 * k));
  return bytes;
}

// Fields of a protocol buffer's message: a number of seven bits a byte, the kind in front.
std::string varint(std::uint64_t value) {
  std::string bytes;
  for (; value >= 128; value >>= 7) bytes += static_cast<char>(value | 128);
  return bytes + static_cast<char>(value);
}
std::string field(unsigned number, unsigned kind) { return varint(number * 8 + kind); }
std::string number_field(unsigned number, std::int64_t value) {
  return field(number, 0) + varint(static_cast<std::uint64_t>(value));
}
std::string double_field(unsigned number, double value) {
  return field(number, 1) + little_endian(std::bit_cast<std::uint64_t>(value));
}
std::string float_field(unsigned number, float value) {
  return field(number, 5) + little_endian(std::bit_cast<std::uint32_t>(value));
}
std::string bytes_field(unsigned number, std::string_view bytes) {
  return field(number, 2) + varint(bytes.size()) + std::string(bytes);
}

// Event: 1 wall_time, 2 step, 3 file_version, 5 summary, 7 session_log.
std::string event_at(double now, std::int64_t step) {
  return double_field(1, now) + number_field(2, step);
}

}  // namespace

std::uint32_t masked_crc32c(std::string_view data) {
  static constexpr auto table = castagnoli_table();
  std::uint32_t crc = 0xFFFFFFFFU;
  for (const char c : data) crc = table[(crc ^ static_cast<unsigned char>(c)) & 255] ^ (crc >> 8);
  crc = ~crc;
  return std::rotr(crc, 15) + 0xA282EAD8U;
}

// TensorBoard reads the files of a folder in the order of their names, so these begin with the
// time.
Result<EventFile> EventFile::create(const std::string& folder, const std::string& host,
                                    std::int64_t first) {
  namespace fs = std::filesystem;
  std::error_code error;
  fs::create_directories(folder, error);
  EventFile made;
  const fs::path unnamed = fs::path(folder) / fmt::format("new.{}.{}", host, getpid());
  made.file_.open(unnamed, std::ios::binary | std::ios::trunc);
  const auto written = fs::last_write_time(unnamed, error);
  if (!made.file_ || error) {
    return Status(Code::io_error, fmt::format("{}: no file can be made in it", folder));
  }
  const auto since_1970 = std::chrono::file_clock::to_sys(written).time_since_epoch();
  made.begin_ = std::chrono::duration<double>(since_1970).count();
  made.path_ =
      (fs::path(folder) / fmt::format("events.out.tfevents.{:010}.{}.{}",
                                      static_cast<std::int64_t>(made.begin_), host, getpid()))
          .string();
  fs::rename(unnamed, made.path_, error);
  if (error) {
    return Status(Code::io_error, fmt::format("{}: {}", made.path_, error.message()));
  }
  TESSERA_TRY(made.write(double_field(1, made.begin_) + bytes_field(3, "brain.Event:2")));
  if (first > 0) {  // SessionLog: 1 status, START
    TESSERA_TRY(made.write(event_at(made.begin_, first + 1) + bytes_field(7, number_field(1, 1))));
  }
  return made;
}

Status EventFile::scalars(std::int64_t step, double seconds, const Scalars& values) {
  std::string summary;  // Summary: 1 value, of 1 tag, 2 simple_value
  for (const auto& [tag, value] : values) {
    summary += bytes_field(1, bytes_field(1, tag) + float_field(2, static_cast<float>(value)));
  }
  return write(event_at(begin_ + seconds, step) + bytes_field(5, summary));
}

Status EventFile::write(const std::string& event) {
  const std::string length = little_endian(std::uint64_t{event.size()});
  file_ << length << little_endian(masked_crc32c(length)) << event
        << little_endian(masked_crc32c(event)) << std::flush;
  if (file_) return {};
  return Status(Code::io_error, fmt::format("{}: cannot be written, is the disk full?", path_));
}

}  // namespace tessera::cli
