// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <iterator>
#include <tuple>
#include <utility>

#include "engine/files/safetensors_header.h"
#include "engine/text/text_file.h"

namespace tessera {
namespace {

// Falling size of dtype keeps every tensor aligned.
bool lies_before(const StoredTensor& a, const StoredTensor& b) {
  return std::tuple(-size_of(a.dtype).value, a.name) < std::tuple(-size_of(b.dtype).value, b.name);
}

Status lay_out(std::vector<StoredTensor>& tensors, const std::string& path) {
  std::sort(tensors.begin(), tensors.end(), lies_before);
  Bytes at{};
  for (StoredTensor& tensor : tensors) {
    const auto numel = checked_numel(tensor.shape, tensor.dtype);
    if (!numel.ok()) {
      return Status(Code::invalid_argument,
                    fmt::format("{}: tensor {}: {}", path, tensor.name, numel.status().message()));
    }
    if (tensor.name == "__metadata__") {
      return Status(Code::invalid_argument,
                    fmt::format("{}: no tensor may be called __metadata__", path));
    }
    tensor.begin = at;
    at += bytes_of(*numel, tensor.dtype);
    tensor.end = at;
  }
  return {};
}

bool is_safetensors(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::array<char, 10> begin{};
  file.read(begin.data(), begin.size());
  return begins_as_safetensors({begin.data(), static_cast<std::size_t>(file.gcount())});
}

}  // namespace

Status check_safetensors_place(const std::string& path) {
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) {
    return Status(Code::invalid_argument,
                  fmt::format("{}: is a folder: name the file that is to be written", path));
  }
  TESSERA_TRY(check_replaceable(path));
  const auto bytes = std::filesystem::file_size(path, error);
  if (error || bytes == 0 || is_safetensors(path)) return {};
  return Status(Code::invalid_argument,
                fmt::format("{}: is a file of another kind, whose place weights would take: name "
                            "another file, or remove it",
                            path));
}

Result<SafetensorsWriter> SafetensorsWriter::create(
    const std::string& path, std::vector<StoredTensor> tensors,
    const std::map<std::string, std::string>& metadata) {
  TESSERA_TRY(lay_out(tensors, path));
  TESSERA_TRY(check_safetensors_place(path));
  SafetensorsWriter writer;
  for (const StoredTensor& tensor : tensors) {
    if (writer.tensors_.emplace(tensor.name, tensor).second) continue;
    return Status(Code::invalid_argument,
                  fmt::format("{}: there are two tensors {}", path, tensor.name));
  }
  const std::string header = safetensors_header({std::move(tensors), metadata});
  const std::uint64_t size = header.size();
  writer.data_ = static_cast<std::int64_t>(sizeof size + header.size());
  writer.path_ = behind_links(path);
  writer.file_.open(writer.partial(), std::ios::binary | std::ios::trunc);
  writer.file_.write(reinterpret_cast<const char*>(&size), sizeof size);
  writer.file_ << header;
  if (!writer.file_) {
    return Status(
        Code::io_error,
        fmt::format("{}: cannot be written: is there the folder, and room?", writer.partial()));
  }
  return writer;
}

SafetensorsWriter::SafetensorsWriter(SafetensorsWriter&& other) noexcept
    : path_(std::exchange(other.path_, {})),
      file_(std::move(other.file_)),
      data_(other.data_),
      tensors_(std::move(other.tensors_)),
      written_(std::move(other.written_)) {}

SafetensorsWriter::~SafetensorsWriter() {
  if (path_.empty()) return;
  file_.close();
  std::error_code ignored;
  std::filesystem::remove(partial(), ignored);
}

Status SafetensorsWriter::write(const std::string& name, Numel first,
                                std::span<const std::byte> bytes) {
  const auto found = tensors_.find(name);
  if (found == tensors_.end()) {
    return Status(Code::invalid_argument, fmt::format("{}: there is no tensor {}", path_, name));
  }
  const StoredTensor& tensor = found->second;
  const Bytes begin = tensor.begin + bytes_of(first, tensor.dtype);
  const Bytes size{static_cast<std::int64_t>(bytes.size())};
  if (first < Numel{0} || begin + size > tensor.end) {
    return Status(Code::invalid_argument,
                  fmt::format("{}: tensor {} has {} elements, {} bytes from element {} on are more",
                              path_, name, tensor.numel().value, size.value, first.value));
  }
  file_.seekp(data_ + begin.value);
  file_.write(reinterpret_cast<const char*>(bytes.data()), size.value);
  if (!file_) {
    return Status(Code::io_error, fmt::format("{}: tensor {} cannot be written: is the disk full?",
                                              partial(), name));
  }
  written_[name] += size;
  return {};
}

Status SafetensorsWriter::finish() {
  for (const auto& [name, tensor] : tensors_) {
    const Bytes missing = tensor.end - tensor.begin - written_[name];
    if (missing == Bytes{0}) continue;
    return Status(Code::invalid_argument,
                  fmt::format("{}: tensor {} lacks {} bytes", path_, name, missing.value));
  }
  file_.close();
  std::error_code failed;
  if (file_) std::filesystem::rename(partial(), path_, failed);
  if (!file_ || failed) {
    return Status(Code::io_error, fmt::format("{}: cannot be written: {}", path_,
                                              failed ? failed.message() : "is the disk full?"));
  }
  path_.clear();
  return {};
}

}  // namespace tessera
