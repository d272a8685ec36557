// SPDX-License-Identifier: Apache-2.0
#include "cli/train/event_file.h"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <bit>
#include <chrono>
#include <filesystem>

#include "engine/text/protobuf_writer.h"

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

// Event: 1 wall_time, 2 step, 3 file_version, 5 summary, 7 session_log.
ProtoMessage event_at(double now, std::int64_t step) {
  ProtoMessage event;
  event.number64(1, now);
  event.number(2, static_cast<std::uint64_t>(step));
  return event;
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
  ProtoMessage version;
  version.number64(1, made.begin_);
  version.text(3, "brain.Event:2");
  TESSERA_TRY(made.write(version.bytes()));
  if (first > 0) {  // SessionLog: 1 status, START
    ProtoMessage session;
    session.number(1, 1);
    ProtoMessage event = event_at(made.begin_, first + 1);
    event.message(7, session);
    TESSERA_TRY(made.write(event.bytes()));
  }
  return made;
}

Status EventFile::scalars(std::int64_t step, double seconds, const Scalars& values) {
  ProtoMessage summary;  // Summary: 1 value, of 1 tag, 2 simple_value
  for (const auto& [tag, value] : values) {
    ProtoMessage scalar;
    scalar.text(1, tag);
    scalar.number32(2, static_cast<float>(value));
    summary.message(1, scalar);
  }
  ProtoMessage event = event_at(begin_ + seconds, step);
  event.message(5, summary);
  return write(event.bytes());
}

Status EventFile::write(const std::string& event) {
  std::string record;  // length, its checksum, event, its checksum
  append_little_endian(std::uint64_t{event.size()}, record);
  append_little_endian(masked_crc32c(record), record);
  record += event;
  append_little_endian(masked_crc32c(event), record);
  file_ << record << std::flush;
  if (file_) return {};
  return Status(Code::io_error, fmt::format("{}: cannot be written, is the disk full?", path_));
}

}  // namespace tessera::cli
