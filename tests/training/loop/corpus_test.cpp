// SPDX-License-Identifier: Apache-2.0
#include "tessera/corpus.h"

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <map>
#include <vector>

#include "tessera/sampler.h"
#include "tests/require_ok.h"

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
  REQUIRE(corpus.read(0, tokens).ok());
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

namespace {

std::string little_endian(const std::vector<std::int64_t>& numbers, std::size_t width) {
  std::string bytes;
  for (const std::int64_t n : numbers) {
    for (std::size_t k = 0; k < width; ++k) bytes += static_cast<char>(n >> (8 * k) & 0xFF);
  }
  return bytes;
}

std::string written(const std::string& name, const std::string& bytes) {
  const auto folder = std::filesystem::path(TESSERA_BINARY_DIR) / "tests" / "scratch" / "corpus";
  std::filesystem::create_directories(folder);
  const std::string path = (folder / name).string();
  std::ofstream(path, std::ios::binary) << bytes;
  return path;
}

std::string llm_c(std::int64_t magic, std::int64_t version, std::int64_t tokens) {
  std::string header = little_endian({magic, version, tokens}, 4);
  header.resize(1024, '\0');
  return header;
}

// Of four tokens in two sequences.
struct MegatronTables {
  std::vector<std::int64_t> lengths = {3, 1}, places = {0, 6}, borders = {0, 1, 2};
};

std::string megatron_index(std::int64_t dtype, const MegatronTables& tables = {}) {
  const auto count = [](const auto& list) { return static_cast<std::int64_t>(list.size()); };
  return std::string("MMIDIDX\0\0", 9) + little_endian({1}, 8) + little_endian({dtype}, 1) +
         little_endian({count(tables.lengths), count(tables.borders)}, 8) +
         little_endian(tables.lengths, 4) + little_endian(tables.places, 8) +
         little_endian(tables.borders, 8);
}

}  // namespace

TEST_CASE("files of llm.c and Megatron are known by what they begin with and what lies beside them",
          "[corpus]") {
  const std::vector<std::int64_t> tokens = {5, 300, 70, 1};
  const std::vector<std::int32_t> expected = {5, 300, 70, 1};
  const CorpusOptions options{.vocabulary = 301};
  const auto check = [&](const std::string& path, std::int64_t documents) {
    const auto corpus = Corpus::open(path, options);
    INFO(path << ": " << corpus.status().message());
    REQUIRE(corpus.ok());
    CHECK(all(*corpus) == expected);
    CHECK(corpus->documents() == documents);
  };
  check(written("gpt2.bin", llm_c(20240520, 1, 4) + little_endian(tokens, 2)), 0);
  check(written("llama3.bin", llm_c(20240801, 7, 4) + little_endian(tokens, 4)), 0);
  for (const auto& [dtype, width] : std::map<int, std::int64_t>{{8, 2}, {4, 4}}) {
    written("megatron.idx", megatron_index(dtype, {.places = {0, 3 * width}}));
    const std::string bin =
        written("megatron.bin", little_endian(tokens, static_cast<std::size_t>(width)));
    check(bin, 2);
    check(bin.substr(0, bin.size() - 3) + "idx", 2);
  }
  const auto said = [&](const std::string& path, TokenFormat format = TokenFormat::by_name) {
    const auto corpus = Corpus::open(path, {.format = format, .vocabulary = 301});
    REQUIRE_FALSE(corpus.ok());
    return corpus.status().message();
  };
  CHECK(said(written("short.bin", llm_c(20240520, 1, 5) + little_endian(tokens, 2)))
            .find("its header says 5 tokens of 2 bytes, but it has 1032 bytes") !=
        std::string::npos);
  CHECK(said(written("new.bin", llm_c(20240520, 2, 4) + little_endian(tokens, 2)))
            .find("version 2") != std::string::npos);
  CHECK(said(written("plain.txt", "text"), TokenFormat::llm_c).find("has not llm.c's header") !=
        std::string::npos);
  written("float.idx", megatron_index(7));
  CHECK(said(written("float.bin", "12345678")).find("tokens of type 7, read are") !=
        std::string::npos);
  CHECK(said(written("alone.bin", "12345678"), TokenFormat::megatron)
            .find("alone.idx: cannot be read") != std::string::npos);
}

TEST_CASE("an index of Megatron that is damaged or of other tokens is refused", "[corpus]") {
  const std::string bin = written("index.bin", little_endian({5, 300, 70, 1}, 2));
  const auto said = [&](const std::string& index) {
    written("index.idx", index);
    return Corpus::open(bin, {.vocabulary = 301}).status().message();
  };
  const auto says = [&](const MegatronTables& tables, const std::string& what) {
    const std::string sentence = said(megatron_index(8, tables));
    INFO(sentence);
    CHECK(sentence.find("index.idx: " + what + ": it is damaged") != std::string::npos);
  };
  REQUIRE(said(megatron_index(8)).empty());
  says({.lengths = {-3, 7}}, "sequence 0 has -3 tokens");
  says({.places = {6, 0}}, "sequence 0 begins at byte 6 instead of 0");
  says({.places = {0, -6}}, "sequence 1 begins at byte -6 instead of 6");
  says({.lengths = {3, 2}}, "its sequences end at byte 10, but " + bin + " has 8 bytes");
  says({.borders = {0, 3, 2}}, "document 1 begins with sequence 3");
  says({.borders = {0, 2, 1}}, "document 2 begins with sequence 1");
  says({.borders = {1, 2}}, "document 0 begins with sequence 1");
  says({.borders = {}}, "says that there are 2 sequences and 0 borders, but has 58 bytes");
  const std::string whole = megatron_index(8);
  CHECK(said(whole.substr(0, whole.size() - 1)).find("but has 81 bytes: it is damaged") !=
        std::string::npos);
  CHECK(said(whole + std::string(2, '\0')).find("has modes of sequences") != std::string::npos);
}

TEST_CASE("what a file's content contradicts is not taken for what its name says", "[corpus]") {
  std::vector<std::int64_t> tokens(200);
  for (std::size_t k = 0; k < tokens.size(); ++k) tokens[k] = static_cast<std::int64_t>(k);
  const auto said = [](const std::string& path, TokenFormat format = TokenFormat::by_name) {
    return Corpus::open(path, {.format = format, .vocabulary = 65536}).status().message();
  };
  CHECK(said(written("narrow.bin", little_endian(tokens, 2))).empty());
  for (const std::size_t width : {4, 8}) {
    const std::string wide = written("wide.bin", little_endian(tokens, width));
    CHECK(said(wide).find("so its tokens have 4 or 8: say --data-format") != std::string::npos);
    CHECK(said(wide, TokenFormat::uint16).empty());
  }
  CHECK(said(written("few.bin", little_endian({5, 7}, 4))).empty());  // by chance
  CHECK(said(written("zeros.bin", std::string(4000, '\0'))).empty());
  const std::vector<std::pair<std::string, std::string>> binaries = {
      {"\x93NUMPY\x01", "is a NumPy array, no text"},
      {"\x1f\x8b\x08", "is packed by gzip, no text"},
      {std::string("h\0i\0", 4), "has zero bytes, so it is binary or UTF-16, no text"}};
  for (const auto& [bytes, message] : binaries) {
    const std::string path = written("some.txt", bytes);
    CHECK(said(path).find(message) != std::string::npos);
    CHECK(said(path, TokenFormat::bytes).empty());
  }
}

TEST_CASE("what is something else than tokens is not taken for them, whoever says so", "[corpus]") {
  const std::string tokens = little_endian(std::vector<std::int64_t>(200, 300), 2);
  const std::string text(300, 'a');
  const std::vector<std::pair<std::string, std::string>> others = {
      {"\x93NUMPY" + tokens, "is a NumPy array"},
      {std::string("\x1f\x8b\x08\0", 4) + tokens, "is packed by gzip"},
      {"PAR1" + tokens, "is a Parquet table"},
      {std::string("\x40\0\0\0\0\0\0\0{\"", 10) + tokens, "is a safetensors file"},
      {std::string("\x02\0\0\0\0\0\0\0{}", 10) + tokens, "is a safetensors file"},
      {text, "is text"},
      {"{\"text\": \"" + text + "\"}", "is text"}};
  for (const auto& [bytes, kind] : others) {
    const std::string path = written("other.bin", bytes);
    for (const TokenFormat format : {TokenFormat::by_name, TokenFormat::uint16}) {
      const std::string said =
          Corpus::open(path, {.format = format, .vocabulary = 65536}).status().message();
      CHECK(said.find(kind + ", no tokens of 2 bytes") != std::string::npos);
    }
  }
  const std::string line = written("line.bin", std::string("\t\n", 2) + little_endian({5}, 2));
  CHECK(Corpus::open(line, {.vocabulary = 65536}).ok());
}

TEST_CASE("a mark before UTF-8 is no text, and what is no plain text by name or content is refused",
          "[corpus]") {
  const std::string words = "\xEF\xBB\xBFto see";
  const auto corpus = [](const std::string& path, TokenFormat format = TokenFormat::by_name) {
    return Corpus::open(path, {.format = format, .vocabulary = 256});
  };
  const std::string marked = written("marked.txt", words);
  CHECK(test::require_value(corpus(marked)).tokens() == 6);
  std::vector<std::int32_t> read(3);
  test::require_ok(test::require_value(corpus(marked)).read(0, read));
  CHECK(read == std::vector<std::int32_t>{'t', 'o', ' '});
  CHECK(test::require_value(corpus(marked, TokenFormat::bytes)).tokens() == 9);
  CHECK(corpus(written("mark.txt", "\xEF\xBB\xBF")).status().message().find("is empty") !=
        std::string::npos);
  const std::string line = "{ \"text\": \"a\"}\n";
  const std::vector<std::pair<std::string, std::string>> others = {
      {"lines.txt", line},
      {"lines.JSONL", "\xEF\xBB\xBF" + line},
      {"list.json", "[\n" + line + "]"}};
  for (const auto& [name, text] : others) {
    const std::string path = written(name, text);
    CHECK(corpus(path).status().message().find(
              "is JSON, no plain text: convert it, or say --data-format bytes") !=
          std::string::npos);
    CHECK(corpus(path, TokenFormat::bytes).ok());
  }
  CHECK(corpus(written("a.CSV", "a,b\n")).status().message().find("is a table by its name") !=
        std::string::npos);
  for (const char* text : {"[1] Smith", "{a}", "[[Links]]", "\"quoted\""}) {
    CHECK(corpus(written("plain.txt", text)).ok());
  }
}

TEST_CASE("several files are one row, each with its weight, and one that is cut short is noticed",
          "[corpus]") {
  const std::string a = written("a.txt", std::string(100, 'a'));
  const std::string b = written("b.txt", std::string(50, 'b'));
  const auto corpus = Corpus::open({{a, 1}, {b, 2.5}}, {});
  REQUIRE(corpus.ok());
  CHECK(corpus->tokens() == 150);
  std::vector<std::int32_t> tokens(3);
  REQUIRE(corpus->read(100, tokens).ok());
  CHECK(tokens == std::vector<std::int32_t>(3, 'b'));
  const auto [training, validation] = corpus->split(0.1);
  REQUIRE(training.size() == 2);
  CHECK(training[1].tokens.first == 100);
  CHECK(training[1].tokens.count == 45);
  CHECK(training[1].weight == 2.5);
  CHECK(validation[0].tokens.first == 90);
  CHECK(Corpus::open({{a, 1}, {b, 1}}, {})->fingerprint() != corpus->fingerprint());
  CHECK(Corpus::open({{a, 0}}, {}).status().message().find("its weight is 0") != std::string::npos);
  std::filesystem::resize_file(b, 20);
  REQUIRE(corpus->read(100, tokens).ok());
  const Status gone = corpus->read(140, tokens);
  CHECK(gone.code() == Code::io_error);
  CHECK(gone.message().find("b.txt: cannot be read at byte 40: it has become shorter") !=
        std::string::npos);
}

TEST_CASE("a file far larger than memory should hold is opened at once and read by place",
          "[corpus]") {
  const std::string path = written("large.bin", "");
  std::filesystem::resize_file(path, std::uintmax_t{10} << 30);  // sparse
  std::fstream(path, std::ios::binary | std::ios::in | std::ios::out)
      .seekp((std::streamoff{9} << 30) + 2)
      .write("\x07\x00\x58\x02", 4);
  const auto resident = [] {
    std::ifstream file("/proc/self/statm");
    std::int64_t all = 0;
    std::int64_t in_memory = 0;
    file >> all >> in_memory;
    return in_memory * 4096;
  };
  const std::int64_t before = resident();
  const auto corpus = Corpus::open(path, {.vocabulary = 600});
  REQUIRE(corpus.ok());
  CHECK(corpus->tokens() == std::int64_t{5} << 30);
  std::vector<std::int32_t> tokens(1025);
  for (std::int64_t k = 0; k < 2000; ++k) {
    REQUIRE(corpus->read(permuted(k, corpus->tokens() - 1025, 3), tokens).ok());
  }
  CHECK(resident() - before < std::int64_t{64} << 20);
  REQUIRE(corpus->read((std::int64_t{9} << 29) + 1, std::span(tokens).first(1)).ok());
  CHECK(tokens[0] == 7);
  CHECK(corpus->read((std::int64_t{9} << 29) + 1, tokens)
            .message()
            .find("token 600 at place 4831838210 is beyond the model's vocabulary of 600") !=
        std::string::npos);
  std::filesystem::remove(path);
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
