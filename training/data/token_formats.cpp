// SPDX-License-Identifier: Apache-2.0
#include "training/data/token_formats.h"

#include <fmt/format.h>

namespace tessera {
namespace {

constexpr std::int64_t llm_c_uint16 = 20240520;  // version 1
constexpr std::int64_t llm_c_uint32 = 20240801;  // version 7: Llama 3

}  // namespace

std::int64_t number_at(std::span<const std::byte> bytes, std::size_t at, std::size_t width) {
  std::uint64_t value = 0;
  for (std::size_t k = width; k-- > 0;) {
    value = value * 256 + std::to_integer<std::uint64_t>(bytes[at + k]);
  }
  return static_cast<std::int64_t>(value);
}

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

}  // namespace tessera
