// SPDX-License-Identifier: Apache-2.0
// Opcodes that push numbers and texts. The letters are those of Python's pickletools.
#include <array>
#include <bit>
#include <charconv>

#include "exchange/parse/pickle_machine.h"

namespace tessera::exchange {
namespace pickle_op {
namespace {

using Machine = PickleMachine;

template <std::uint32_t value>
void constant(Machine& machine) {
  machine.push(value);
}

template <std::size_t bytes>
void unsigned_integer(Machine& machine) {
  machine.push_integer(static_cast<std::int64_t>(machine.number(bytes)));
}

void signed_integer(Machine& machine) {
  machine.push_integer(static_cast<std::int32_t>(machine.number(4)));
}

/// Two's complement; what has more than 8 bytes becomes the nearest real.
void push_long(Machine& machine, std::string_view bytes) {
  if (bytes.empty()) return machine.push_integer(0);
  const bool negative = (static_cast<unsigned char>(bytes.back()) & 0x80) != 0;
  if (bytes.size() <= 8) {
    std::uint64_t value = negative ? ~std::uint64_t{0} : 0;
    for (std::size_t i = bytes.size(); i > 0; --i) {
      value = value << 8 | static_cast<unsigned char>(bytes[i - 1]);
    }
    return machine.push_integer(static_cast<std::int64_t>(value));
  }
  double value = negative ? -1 : 0;
  for (std::size_t i = bytes.size(); i > 0; --i) {
    value = value * 256 + static_cast<unsigned char>(bytes[i - 1]);
  }
  machine.push_real(value);
}

template <std::size_t length_bytes>
void long_integer(Machine& machine) {
  push_long(machine, machine.take(machine.number(length_bytes)));
}

void push_decimal(Machine& machine, std::string_view text) {
  if (text.ends_with('L')) text.remove_suffix(1);
  std::int64_t integer = 0;
  const char* const end = text.data() + text.size();
  const auto whole = std::from_chars(text.data(), end, integer);
  if (whole.ec == std::errc() && whole.ptr == end) return machine.push_integer(integer);
  double real = 0;
  const auto read = std::from_chars(text.data(), end, real);
  const bool known = read.ec != std::errc::invalid_argument && read.ptr == end;
  if (!known) machine.fail("it has a number that is none");
  machine.push_real(real);
}

void integer_line(Machine& machine) {
  const std::string_view text = machine.line();
  if (text == "00" || text == "01") return machine.push(text == "01" ? word::yes : word::no);
  push_decimal(machine, text);
}

void decimal_line(Machine& machine) { push_decimal(machine, machine.line()); }

void binary_float(Machine& machine) {
  std::uint64_t bits = 0;
  for (const char c : machine.take(8)) bits = bits << 8 | static_cast<unsigned char>(c);
  machine.push_real(std::bit_cast<double>(bits));
}

template <std::size_t length_bytes>
void counted_text(Machine& machine) {
  machine.push_text(machine.take(machine.number(length_bytes)));
}

void append_utf8(std::string& to, std::uint32_t code) {
  const auto byte = [&](std::uint32_t value) { to += static_cast<char>(value); };
  const auto more = [&](int shift) { byte(0x80 | (code >> shift & 0x3F)); };
  if (code < 0x80) return byte(code);
  if (code < 0x800) return byte(0xC0 | code >> 6), more(0);
  if (code < 0x10000) return byte(0xE0 | code >> 12), more(6), more(0);
  byte(0xF0 | (code >> 18 & 7)), more(12), more(6), more(0);
}

/// The hexadecimal digits from `at`, which it moves behind them; nothing if there are fewer.
std::optional<std::uint32_t> hexadecimal(std::string_view text, std::size_t& at,
                                         std::size_t digits) {
  std::uint32_t value = 0;
  const std::string_view part = text.substr(std::min(at, text.size()), digits);
  const auto read = std::from_chars(part.data(), part.data() + part.size(), value, 16);
  if (part.size() < digits || read.ptr != part.data() + digits) return {};
  at += digits;
  return value;
}

std::size_t digits_of(char escape) {
  return escape == 'x' ? 2 : escape == 'u' ? 4 : escape == 'U' ? 8 : 0;
}

/// Without the escapes of Python 2's repr, or of "raw-unicode-escape", which has but two.
std::string unescaped(std::string_view text, bool raw) {
  constexpr std::string_view letters = "nrtab\\'\"", meant = "\n\r\t\a\b\\'\"";
  std::string plain;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char next = i + 1 < text.size() ? text[i + 1] : ' ';
    std::size_t after = i + 2;
    const std::size_t digits = raw == (next != 'x') ? digits_of(next) : 0;
    const std::size_t letter = letters.find(next);
    if (text[i] != '\\') {
      raw ? append_utf8(plain, static_cast<unsigned char>(text[i])) : plain.push_back(text[i]);
    } else if (const auto code = digits > 0 ? hexadecimal(text, after, digits) : std::nullopt) {
      append_utf8(plain, *code);
      i = after - 1;
    } else if (!raw && letter != std::string_view::npos) {
      plain += meant[letter];
      ++i;
    } else {
      plain += '\\';
    }
  }
  return plain;
}

void push_line(Machine& machine, std::string_view text, bool raw) {
  bool plain = text.find('\\') == std::string_view::npos;
  for (const char c : text) plain = plain && (!raw || static_cast<unsigned char>(c) < 0x80);
  plain ? machine.push_text(text) : machine.push_owned(unescaped(text, raw));
}

void unicode_line(Machine& machine) { push_line(machine, machine.line(), true); }

void string_line(Machine& machine) {
  std::string_view text = machine.line();
  const bool quoted = text.size() >= 2 && text.front() == text.back() &&
                      (text.front() == '\'' || text.front() == '"');
  if (!quoted) machine.fail("it has a text without quotes");
  push_line(machine, quoted ? text.substr(1, text.size() - 2) : text, false);
}

constexpr auto value_opcodes = std::to_array<PickleOpcode>({
    {'N', constant<word::none>}, {0x88, constant<word::yes>}, {0x89, constant<word::no>},
    {'I', integer_line},         {'J', signed_integer},       {'K', unsigned_integer<1>},
    {'M', unsigned_integer<2>},  {'L', decimal_line},         {0x8A, long_integer<1>},
    {0x8B, long_integer<4>},     {'F', decimal_line},         {'G', binary_float},
    {'S', string_line},          {'T', counted_text<4>},      {'U', counted_text<1>},
    {'V', unicode_line},         {'X', counted_text<4>},      {0x8C, counted_text<1>},
    {0x8D, counted_text<8>},     {'B', counted_text<4>},      {'C', counted_text<1>},
    {0x8E, counted_text<8>},     {0x96, counted_text<8>},
});

}  // namespace
}  // namespace pickle_op

std::span<const PickleOpcode> pickle_value_opcodes() { return pickle_op::value_opcodes; }

}  // namespace tessera::exchange
