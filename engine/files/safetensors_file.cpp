// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <filesystem>

#include "engine/files/safetensors_header.h"
#include "engine/text/text_file.h"

namespace tessera {
namespace {

static_assert(std::endian::native == std::endian::little, "sizes and data are little-endian");

// The largest header that the reference implementation accepts.
constexpr std::int64_t header_bytes_max = 100'000'000;

}  // namespace

Result<SafetensorsFile> SafetensorsFile::open(const std::string& path) {
  SafetensorsFile opened;
  opened.path_ = path;
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) {
    return Status(Code::invalid_argument,
                  fmt::format("{}: is a folder: name a safetensors file, or an index of several "
                              "(`tessera checkpoint export` makes one of a checkpoint)",
                              path));
  }
  TESSERA_TRY(check_no_stream(path));
  opened.file_.open(path, std::ios::binary | std::ios::ate);
  if (!opened.file_) return Status(Code::io_error, fmt::format("{}: cannot be opened", path));
  const std::int64_t file_bytes = opened.file_.tellg();
  std::array<char, safetensors_size_bytes> raw{};
  opened.file_.seekg(0);
  opened.file_.read(raw.data(), raw.size());
  if (file_bytes < safetensors_size_bytes || !opened.file_) {
    return Status(Code::corrupt,
                  fmt::format("{}: {} bytes are too few for a safetensors file", path, file_bytes));
  }
  std::uint64_t header_bytes = 0;
  std::memcpy(&header_bytes, raw.data(), raw.size());
  const auto most =
      static_cast<std::uint64_t>(std::min(header_bytes_max, file_bytes - safetensors_size_bytes));
  if (header_bytes > most) {
    return Status(Code::corrupt, fmt::format("{}: a header of {} bytes does not fit, is this a "
                                             "safetensors file?",
                                             path, header_bytes));
  }
  std::string text(header_bytes, '\0');
  opened.file_.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (!opened.file_) return Status(Code::io_error, fmt::format("{}: cannot be read", path));
  opened.data_ = safetensors_size_bytes + static_cast<std::int64_t>(header_bytes);
  TESSERA_ASSIGN(auto header,
                 parse_safetensors_header(text, Bytes{file_bytes - opened.data_}, path));
  opened.tensors_ = std::move(header.tensors);
  opened.metadata_ = std::move(header.metadata);
  return opened;
}

const StoredTensor* SafetensorsFile::find(const std::string& name) const {
  const auto found = std::find_if(tensors_.begin(), tensors_.end(),
                                  [&](const StoredTensor& t) { return t.name == name; });
  return found == tensors_.end() ? nullptr : &*found;
}

Status SafetensorsFile::read(const StoredTensor& tensor, Numel first, std::span<std::byte> into) {
  const Bytes begin = tensor.begin + bytes_of(first, tensor.dtype);
  const auto size = static_cast<std::int64_t>(into.size());
  if (first < Numel{0} || begin + Bytes{size} > tensor.end) {
    return Status(Code::invalid_argument,
                  fmt::format("{}: tensor {} has {} elements, {} bytes from element {} on are more",
                              path_, tensor.name, tensor.numel().value, size, first.value));
  }
  file_.clear();
  file_.seekg(data_ + begin.value);
  file_.read(reinterpret_cast<char*>(into.data()), size);
  if (file_.gcount() == size) return {};
  return Status(Code::io_error, fmt::format("{}: tensor {}: {} bytes were read instead of {}",
                                            path_, tensor.name, file_.gcount(), size));
}

}  // namespace tessera
