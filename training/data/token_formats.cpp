// SPDX-License-Identifier: Apache-2.0
#include "training/data/token_formats.h"

#include <fmt/format.h>

#include <filesystem>
#include <fstream>

namespace tessera {
namespace {

constexpr std::int64_t llm_c_uint16 = 20240520;  // version 1
constexpr std::int64_t llm_c_uint32 = 20240801;  // version 7: Llama 3
constexpr std::string_view megatron_magic("MMIDIDX\0\0", 9);

std::int64_t number_at(std::span<const std::byte> bytes, std::size_t at, std::size_t width) {
  std::uint64_t value = 0;
  for (std::size_t k = width; k-- > 0;) {
    value = value * 256 + std::to_integer<std::uint64_t>(bytes[at + k]);
  }
  return static_cast<std::int64_t>(value);
}

// By the numbers of Megatron-LM's dtypes: uint8, int8, int16, int32, int64, two of floats, uint16.
std::int64_t megatron_width(std::int64_t dtype) {
  switch (dtype) {
    case 1: return 1;
    case 3:
    case 8: return 2;
    case 4: return 4;
    default: return 0;
  }
}

}  // namespace

bool has_wide_tokens(std::span<const std::byte> numbers) {
  constexpr std::size_t enough = 256;  // bytes; fewer may have small tokens by chance
  if (numbers.size() < enough) return false;
  bool any = false;
  for (std::size_t k = 0; k + 4 <= numbers.size(); k += 4) {
    if (numbers[k + 2] != std::byte{0} || numbers[k + 3] != std::byte{0}) return false;
    any = any || numbers[k] != std::byte{0} || numbers[k + 1] != std::byte{0};
  }
  return any;
}

bool begins_as_llm_c(std::span<const std::byte> header) {
  const std::int64_t magic = number_at(header, 0, 4);
  return magic == llm_c_uint16 || magic == llm_c_uint32;
}

Result<TokenLayout> llm_c_layout(const std::string& source, std::span<const std::byte> header,
                                 std::int64_t size) {
  const auto failed = [&](const std::string& what) {
    return Status(
        Code::invalid_argument,
        fmt::format("{}: {}: it is no file of tokens of llm.c, or damaged", source, what));
  };
  if (size < llm_c_header || !begins_as_llm_c(header)) return failed("has not llm.c's header");
  TokenLayout layout{.begins = llm_c_header};
  layout.width = number_at(header, 0, 4) == llm_c_uint16 ? 2 : 4;
  layout.tokens = number_at(header, 8, 4);
  const std::int64_t version = number_at(header, 4, 4);
  if (version != (layout.width == 2 ? 1 : 7)) return failed(fmt::format("version {}", version));
  if (layout.tokens < 1) return failed("has no tokens");
  if (llm_c_header + layout.tokens * layout.width == size) return layout;
  return failed(fmt::format("its header says {} tokens of {} bytes, but it has {} bytes",
                            layout.tokens, layout.width, size));
}

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

// Magic, version (8 bytes), dtype (1), numbers of sequences and of document borders (8 each), then
// lengths, places and borders, of which only the first three are needed here: sequences follow one
// another in the file of tokens.
Result<TokenLayout> megatron_layout(const std::string& index, std::int64_t bin_size) {
  const auto failed = [&](const std::string& what) {
    return Status(Code::invalid_argument, fmt::format("{}: {}", index, what));
  };
  std::ifstream file(index, std::ios::binary);
  std::string header(34, '\0');
  if (!file) {
    return Status(
        Code::io_error,
        fmt::format("{}: cannot be read: Megatron's tokens need an index beside them", index));
  }
  if (!file.read(header.data(), static_cast<std::streamsize>(header.size())) ||
      header.compare(0, megatron_magic.size(), megatron_magic) != 0) {
    return failed("is no index of Megatron-LM");
  }
  const auto bytes = std::as_bytes(std::span(header));
  const std::int64_t version = number_at(bytes, 9, 8);
  const std::int64_t dtype = number_at(bytes, 17, 1);
  if (version != 1) return failed(fmt::format("has version {}, read is 1", version));
  TokenLayout layout{.begins = 0, .width = megatron_width(dtype)};
  if (layout.width == 0) {
    return failed(
        fmt::format("has tokens of type {}, read are uint8, int16, uint16 and int32", dtype));
  }
  layout.documents = number_at(bytes, 26, 8) - 1;  // borders, of which one more than documents
  if (bin_size == 0 || bin_size % layout.width != 0) {
    return failed(fmt::format("has tokens of {} bytes, but {} has {} bytes", layout.width,
                              megatron_bin(index), bin_size));
  }
  layout.tokens = bin_size / layout.width;
  return layout;
}

}  // namespace tessera
