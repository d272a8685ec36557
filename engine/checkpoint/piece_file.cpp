// SPDX-License-Identifier: Apache-2.0
#include "engine/checkpoint/piece_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstring>

#include "engine/files/block_sum.h"
#include "engine/files/safetensors_header.h"

namespace tessera {
namespace {

Status damaged(const std::string& path, const std::string& what) {
  return Status(Code::corrupt, fmt::format("{}: {}: load another checkpoint", path, what));
}

Result<std::string> read_header(const ReadableFile& file, const std::string& path) {
  std::uint64_t bytes = 0;
  if (file.size() < Bytes{safetensors_size_bytes}) return damaged(path, "is cut short");
  TESSERA_TRY(file.read(0, std::as_writable_bytes(std::span(&bytes, 1))));
  if (bytes > static_cast<std::uint64_t>(file.size().value - safetensors_size_bytes)) {
    return damaged(path, "is cut short, or its header is damaged");
  }
  std::string header(bytes, '\0');
  TESSERA_TRY(file.read(safetensors_size_bytes, std::as_writable_bytes(std::span(header))));
  return header;
}

bool parse_sum(const std::string& text, std::uint64_t& sum) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), sum, 16);
  return error == std::errc{} && end == text.data() + text.size();
}

}  // namespace

Result<std::uint64_t> write_piece_file(FileSystem& files, const std::string& path,
                                       std::vector<PieceData> pieces) {
  // The checksum of a piece is in the header and that of the header in the manifest, so a chain of
  // checksums leads from the manifest to every byte.
  SafetensorsHeader header;
  header.metadata["format"] = "tessera checkpoint";
  Bytes at{};
  for (const PieceData& data : pieces) {
    TESSERA_ASSERT(data.piece.numel == Numel{static_cast<std::int64_t>(data.values.size())},
                   "a piece has a value for every element");
    const std::string name = name_of(data.piece);
    StoredTensor tensor{name, DType::float32, {data.piece.numel.value}, at, {}};
    tensor.end = at += bytes_of(data.piece.numel, DType::float32);
    header.tensors.push_back(std::move(tensor));
    header.metadata[name] = fmt::format("{:016x}", block_sum(std::as_bytes(data.values)));
  }
  const std::string text = safetensors_header(header);
  const std::uint64_t size = text.size();
  TESSERA_ASSIGN(const auto file, files.create(path));
  TESSERA_TRY(file->write(std::as_bytes(std::span(&size, 1))));
  TESSERA_TRY(file->write(std::as_bytes(std::span(text))));
  for (const PieceData& data : pieces) TESSERA_TRY(file->write(std::as_bytes(data.values)));
  TESSERA_TRY(file->sync());
  return block_sum(std::as_bytes(std::span(text)));
}

Result<PieceFile> PieceFile::open(FileSystem& files, const std::string& path, std::uint64_t sum) {
  PieceFile opened;
  opened.path_ = path;
  TESSERA_ASSIGN(opened.file_, files.open(path));
  TESSERA_ASSIGN(const std::string text, read_header(*opened.file_, path));
  if (block_sum(std::as_bytes(std::span(text))) != sum) {
    return damaged(path, "its header is damaged, or the file belongs to another checkpoint");
  }
  const std::int64_t data = safetensors_size_bytes + static_cast<std::int64_t>(text.size());
  TESSERA_ASSIGN(const auto header,
                 parse_safetensors_header(text, opened.file_->size() - Bytes{data}, path));
  for (const StoredTensor& tensor : header.tensors) {
    auto piece = parse_piece(tensor.name, tensor.numel());
    const auto stored = header.metadata.find(tensor.name);
    std::uint64_t piece_sum = 0;
    const bool known = piece && tensor.dtype == DType::float32 && piece->numel <= piece_numel_max &&
                       stored != header.metadata.end() && parse_sum(stored->second, piece_sum);
    if (!known) return damaged(path, fmt::format("tensor {} is no piece", tensor.name));
    opened.pieces_.push_back({std::move(*piece), data + tensor.begin.value, piece_sum});
  }
  return opened;
}

Status PieceFile::read(const StoredPiece& piece, std::vector<float>& into) const {
  into.resize(static_cast<std::size_t>(piece.piece.numel.value));
  const auto bytes = std::as_writable_bytes(std::span(into));
  TESSERA_TRY(file_->read(piece.offset, bytes));
  if (block_sum(bytes) == piece.sum) return {};
  return damaged(path_, fmt::format("the data of {} are damaged", name_of(piece.piece)));
}

}  // namespace tessera
