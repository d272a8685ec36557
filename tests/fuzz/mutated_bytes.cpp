// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/mutated_bytes.h"

#include <algorithm>
#include <array>
#include <string_view>

namespace tessera::test {
namespace {

using std::string_view_literals::operator""sv;

// Of JSON, pickles, varints, SQL and terminals.
constexpr std::array interesting_words = {"\xff\xff\xff\xff\xff\xff\xff\xff"sv,
                                          "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"sv,
                                          "\0\0\0\0"sv,
                                          "\x7f\xff\xff\xff"sv,
                                          "\xff\xff\xff\x7f"sv,
                                          "\x80\x80\x80\x80\x80\x80\x80\x80\x80"sv,
                                          "1e308"sv,
                                          "-1e999"sv,
                                          "NaN"sv,
                                          "\"\""sv,
                                          "[[[[[[[["sv,
                                          "{\"a\":{\"a\":{\"a\":"sv,
                                          "]"sv,
                                          "}"sv,
                                          "h\x01"sv,
                                          "q\x01"sv,
                                          "N"sv,
                                          "("sv,
                                          "u"sv,
                                          "t"sv,
                                          "R"sv,
                                          "0"sv,
                                          "2"sv,
                                          "cos\nsystem\n"sv,
                                          "\x8d\xff\xff\xff\xff\xff\xff\xff\x7f"sv,
                                          "\x8a\x09\xff\xff\xff\xff\xff\xff\xff\xff\x7f"sv,
                                          "\\ud800"sv,
                                          "\\u0000"sv,
                                          "\x1b[2J"sv,
                                          "\xed\xa0\x80"sv,
                                          "SELECT"sv,
                                          "\x80\x05"sv,
                                          "null"sv,
                                          "true"sv,
                                          "//"sv};

std::size_t place_in(const std::string& bytes, Random& random) {
  return static_cast<std::size_t>(random.below(std::ssize(bytes)));
}

std::string interesting_word(Random& random) {
  if (random.chance(30)) return odd_number(random);
  return std::string(
      interesting_words[static_cast<std::size_t>(random.below(std::ssize(interesting_words)))]);
}

/// The number at or after a place, in text; without one, whatever is there.
void replace_number(std::string& bytes, std::size_t at, Random& random) {
  constexpr const char* digits = "0123456789";
  const std::size_t begin = std::min(bytes.find_first_of(digits, at), bytes.size());
  const std::size_t end = std::min(bytes.find_first_not_of(digits, begin), bytes.size());
  bytes.replace(begin, end - begin, odd_number(random));
}

}  // namespace

std::string odd_number(Random& random) {
  constexpr std::array numbers = {"-1"sv,
                                  "0"sv,
                                  "1"sv,
                                  "255"sv,
                                  "65536"sv,
                                  "99999999"sv,
                                  "2147483647"sv,
                                  "-2147483648"sv,
                                  "4294967296"sv,
                                  "9223372036854775807"sv,
                                  "-9223372036854775808"sv,
                                  "18446744073709551615"sv,
                                  "99999999999999999999999"sv};
  if (random.chance(30)) return std::to_string(random.below(40));
  if (random.chance(20)) {
    return std::to_string((std::int64_t{1} << random.below(62)) + random.below(3) - 1);
  }
  return std::string(numbers[static_cast<std::size_t>(random.below(std::ssize(numbers)))]);
}

void mutate_bytes(std::string& bytes, Random& random) {
  if (bytes.empty()) bytes = " ";
  const std::size_t at = place_in(bytes, random);
  const auto wanted = static_cast<std::size_t>(random.below(random.chance(10) ? 4096 : 16)) + 1;
  const std::size_t count = std::min(wanted, bytes.size() - at);
  switch (random.below(10)) {
    case 0: bytes[at] = static_cast<char>(random.next()); break;
    case 1: bytes[at] = static_cast<char>(bytes[at] ^ (1 << random.below(8))); break;
    case 2: bytes.erase(at, count); break;
    case 3: bytes.replace(at, count, count, static_cast<char>(random.next())); break;
    case 4: bytes.insert(at, interesting_word(random)); break;
    case 5: {
      const std::string word = interesting_word(random);
      bytes.replace(at, std::min(word.size(), bytes.size() - at), word);
      break;
    }
    case 6: {  // again and again
      const std::string part = bytes.substr(at, count);
      const std::int64_t times = random.chance(3) ? 2000 : random.below(20);
      std::string all;
      for (std::int64_t i = 0; i < times; ++i) all += part;
      bytes.insert(at, all);
      break;
    }
    case 7: bytes.replace(at, count, bytes.substr(place_in(bytes, random), wanted)); break;
    case 8: replace_number(bytes, at, random); break;
    default:
      for (std::int64_t i = random.below(20); i >= 0; --i) {
        bytes[place_in(bytes, random)] = static_cast<char>(random.next());
      }
  }
  if (bytes.size() > 1 && random.chance(3)) bytes.resize(place_in(bytes, random));
  if (bytes.empty()) bytes = " ";
}

}  // namespace tessera::test
