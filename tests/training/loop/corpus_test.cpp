// SPDX-License-Identifier: Apache-2.0
#include "tessera/corpus.h"

#include <catch2/catch.hpp>
#include <vector>

namespace tessera {
namespace {

std::string refusal(std::string bytes, const CorpusOptions& options) {
  const auto corpus = Corpus::from_bytes(std::move(bytes), "data.txt", options);
  REQUIRE_FALSE(corpus.ok());
  CHECK(corpus.status().code() == Code::invalid_argument);
  return corpus.status().message();
}

std::vector<std::int32_t> all(const Corpus& corpus) {
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(corpus.tokens()));
  corpus.read(0, tokens);
  return tokens;
}

TEST_CASE("bytes of a text are tokens, those above 127 as well", "[corpus]") {
  const auto corpus = Corpus::from_bytes("a\xFF\n", "data.txt", {});
  REQUIRE(corpus.ok());
  CHECK(all(*corpus) == std::vector<std::int32_t>{97, 255, 10});
}

TEST_CASE("token files are little endian, and .bin means uint16", "[corpus]") {
  const std::string bytes("\x01\x02\xFF\x00\x00\x00\x01\x00", 8);
  const auto by_name = Corpus::from_bytes(bytes, "data.bin", {.vocabulary = 600});
  REQUIRE(by_name.ok());
  CHECK(all(*by_name) == std::vector<std::int32_t>{513, 255, 0, 1});
  const auto wide = Corpus::from_bytes(
      bytes, "data.txt", {.format = TokenFormat::uint32, .vocabulary = std::int64_t{1} << 32});
  REQUIRE(wide.ok());
  CHECK(all(*wide) == std::vector<std::int32_t>{0x00FF0201, 0x00010000});
}

TEST_CASE("a token beyond the vocabulary is refused with its place", "[corpus]") {
  CHECK(refusal("abcz", {.vocabulary = 122}) ==
        "data.txt: token 122 at place 3 is beyond the model's vocabulary of 122: choose another "
        "model or another format");
}

TEST_CASE("files without data, with half a token, or none at all are refused", "[corpus]") {
  CHECK(refusal("", {}) == "data.txt: is empty: nothing to train on");
  CHECK(refusal("abc", {.format = TokenFormat::uint16}).find("3 bytes are no whole number") !=
        std::string::npos);
  for (const char* path : {"/nowhere/data.txt", "/"}) {
    const auto corpus = Corpus::open(path, {});
    REQUIRE_FALSE(corpus.ok());
    CHECK(corpus.status().code() == Code::io_error);
    CHECK(corpus.status().message().find(path) == 0);
  }
}

TEST_CASE("validation takes the end of the corpus", "[corpus]") {
  const auto [training, validation] = split(1000, 0.1);
  CHECK(training.first == 0);
  CHECK(training.count == 900);
  CHECK(validation.first == 900);
  CHECK(validation.count == 100);
  CHECK(split(10, 0).first.count == 10);
}

}  // namespace
}  // namespace tessera
