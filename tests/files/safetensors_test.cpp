// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch.hpp>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "engine/files/safetensors_header.h"
#include "tests/random.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

// A folder that goes with the test.
struct Scratch {
  fs::path folder = fs::path(TESSERA_BINARY_DIR) / "tests" / "scratch" / "safetensors";
  Scratch() { fs::create_directories(folder); }
  ~Scratch() { fs::remove_all(folder); }
  std::string file(const char* name) const { return (folder / name).string(); }
};

std::vector<std::byte> some_bytes(std::size_t count, int seed) {
  std::vector<std::byte> bytes(count);
  for (std::size_t i = 0; i < count; ++i) bytes[i] = static_cast<std::byte>(31 * i + seed);
  return bytes;
}

void write_text(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

// A whole file of this header and as many data.
std::string file_of(const std::string& header, std::size_t data) {
  const std::uint64_t size = header.size();
  std::string file(sizeof size, '\0');
  std::memcpy(file.data(), &size, sizeof size);
  return file + header + std::string(data, 'x');
}

const std::vector<StoredTensor> tensors = {{"b.weight", DType::bfloat16, {3, 5}},
                                           {"a.weight", DType::float32, {2, 2}},
                                           {"empty", DType::float32, {0, 7}},
                                           {"step", DType::int64, {}}};

TEST_CASE("what was written in parts is read in parts", "[files]") {
  const Scratch scratch;
  const std::string path = scratch.file("model.safetensors");
  auto writer = SafetensorsWriter::create(path, tensors, {{"format", "pt"}});
  REQUIRE(writer.ok());
  const auto weight = some_bytes(30, 1);
  const auto other = some_bytes(16, 2);
  const auto step = some_bytes(8, 3);
  REQUIRE(writer->write("b.weight", Numel{7}, std::span(weight).subspan(14)).ok());
  REQUIRE(writer->write("b.weight", Numel{0}, std::span(weight).first(14)).ok());
  REQUIRE(writer->write("a.weight", Numel{0}, other).ok());
  REQUIRE(writer->write("step", Numel{0}, step).ok());
  CHECK_FALSE(fs::exists(path));
  REQUIRE(writer->finish().ok());
  CHECK_FALSE(fs::exists(path + ".partial"));

  auto file = SafetensorsFile::open(path);
  INFO(file.status().message());
  REQUIRE(file.ok());
  CHECK(file->metadata() == std::map<std::string, std::string>{{"format", "pt"}});
  REQUIRE(file->tensors().size() == 4);
  CHECK(file->tensors()[0].name == "step");  // the widest dtype first, then by name
  const StoredTensor* found = file->find("b.weight");
  REQUIRE(found != nullptr);
  CHECK(found->shape == std::vector<std::int64_t>{3, 5});
  std::vector<std::byte> read(20);
  REQUIRE(file->read(*found, Numel{5}, read).ok());
  CHECK(std::equal(read.begin(), read.end(), weight.begin() + 10));
  CHECK(file->read(*found, Numel{6}, read).code() == Code::invalid_argument);
  CHECK(file->find("c") == nullptr);
}

TEST_CASE("a file that was not finished leaves nothing", "[files]") {
  const Scratch scratch;
  const std::string path = scratch.file("model.safetensors");
  {
    auto writer = SafetensorsWriter::create(path, tensors, {});
    REQUIRE(writer.ok());
    const Status early = writer->finish();
    CHECK(early.message() == path + ": tensor a.weight lacks 16 bytes");
    CHECK(writer->write("c", Numel{0}, {}).message() == path + ": there is no tensor c");
    CHECK(writer->write("step", Numel{1}, some_bytes(8, 0)).code() == Code::invalid_argument);
  }
  CHECK(fs::is_empty(scratch.folder));
  const auto twice = SafetensorsWriter::create(path, {tensors[0], tensors[0]}, {});
  CHECK(twice.status().message() == path + ": there are two tensors b.weight");
  CHECK(SafetensorsWriter::create("/nowhere/x", tensors, {}).status().code() == Code::io_error);
}

TEST_CASE("weights go to the file behind a link", "[files]") {
  const Scratch scratch;
  const std::string file = scratch.file("model.safetensors");
  const std::string link = scratch.file("link");
  fs::create_symlink(file, link);
  auto writer = SafetensorsWriter::create(link, {}, {});
  REQUIRE(writer.ok());
  REQUIRE(writer->finish().ok());
  CHECK(fs::is_symlink(link));
  CHECK(fs::is_regular_file(file));
}

TEST_CASE("weights take the place of weights, and of nothing else", "[files]") {
  const Scratch scratch;
  const std::string path = scratch.file("config.json");
  const auto said = [&] { return SafetensorsWriter::create(path, tensors, {}).status().message(); };
  std::ofstream(path) << R"({"architectures": ["GPT2LMHeadModel"]})";
  CHECK(said() == path +
                      ": is a file of another kind, whose place weights would take: name another "
                      "file, or remove it");
  std::ofstream(path, std::ios::trunc).close();
  CHECK(said().empty());
  std::ofstream(path, std::ios::binary) << std::string("\x02\0\0\0\0\0\0\0{}", 10);
  CHECK(said().empty());
  // Sizes of TiB and what only looks like JSON are other formats: the same as where data are read.
  for (const std::string& other : {std::string("\x02\0\0\0\x01\0\0\0{\"a\"", 12),
                                   std::string("\x02\0\0\0\0\0\0\0{\x01\x02", 11)}) {
    std::ofstream(path, std::ios::binary) << other;
    CHECK_FALSE(said().empty());
    CHECK_FALSE(begins_as_safetensors(other));
  }
}

TEST_CASE("files that are none are refused by a sentence", "[files]") {
  const Scratch scratch;
  const std::string path = scratch.file("bad.safetensors");
  const std::string good = R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})";
  const auto entry = [](const std::string& text) { return "{\"a\":" + text + "}"; };
  struct Case {
    std::string file, hint;
  };
  const std::vector<Case> cases = {
      {"", "0 bytes are too few"},
      {"1234567", "7 bytes are too few"},
      {file_of(good, 8).substr(0, 20), "does not fit, is this a safetensors file?"},
      {file_of(good, 7), "lies in bytes 0 to 8 of 7"},
      {file_of(good, 9), "tensors end at byte 8, but there are 9 bytes of data"},
      {file_of("[]", 0), "the header is no JSON object"},
      {file_of("{", 0), ""},
      {file_of(entry("3"), 8), "needs dtype, shape and data_offsets"},
      {file_of(entry(R"({"dtype":"F8","shape":[8],"data_offsets":[0,8]})"), 8), "the dtype \"F8\""},
      {file_of(entry(R"({"dtype":"F32","shape":[3],"data_offsets":[0,8]})"), 8),
       "has 8 bytes, but its shape and dtype need 12"},
      {file_of(entry(R"({"dtype":"F32","shape":[-2],"data_offsets":[0,8]})"), 8),
       "no list of sizes"},
      {file_of(entry(R"({"dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,8]})"), 8),
       "more elements than any memory"},
      {file_of(entry(R"({"dtype":"F32","shape":[1],"data_offsets":[4,8]})"), 8),
       "begins at byte 4 instead of 0"},
      {file_of(entry(R"({"dtype":"F32","shape":[2],"data_offsets":[0,8],"x":1})"), 8),
       "and nothing else"},
      {file_of(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)"
               R"("a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})",
               8),
       "the key \"a\" is twice"},
      {file_of(R"({"__metadata__":{"a":1}})", 0), "__metadata__ is no object of texts"}};
  for (const Case& bad : cases) {
    INFO(bad.hint);
    write_text(path, bad.file);
    const auto file = SafetensorsFile::open(path);
    REQUIRE_FALSE(file.ok());
    INFO(file.status().message());
    CHECK(file.status().message().find(path) == 0);
    CHECK(file.status().message().find(bad.hint) != std::string::npos);
  }
  CHECK(SafetensorsFile::open(scratch.file("none")).status().code() == Code::io_error);
}

std::string mutated(std::string text, test::Random& random) {
  for (auto changes = 1 + random.below(3); changes > 0 && !text.empty(); --changes) {
    const auto place =
        static_cast<std::size_t>(random.below(static_cast<std::int64_t>(text.size())));
    const auto what = random.below(3);
    if (what == 0) text[place] = static_cast<char>(random.below(256));
    if (what == 1) text.erase(place, static_cast<std::size_t>(1 + random.below(9)));
    if (what == 2) {
      text.insert(place, text.substr(place / 2, static_cast<std::size_t>(random.below(12))));
    }
  }
  return text;
}

// The header of `tensors`, and how many bytes of data belong to it.
std::pair<std::string, Bytes> good_header() {
  SafetensorsHeader header;
  header.metadata = {{"format", "pt"}};
  Bytes at{};
  for (const StoredTensor& t : tensors) {
    StoredTensor placed = t;
    placed.begin = at;
    at += bytes_of(*checked_numel(t.shape, t.dtype), t.dtype);
    placed.end = at;
    header.tensors.push_back(placed);
  }
  return {safetensors_header(header), at};
}

// Every byte of the data belongs to one tensor, whose shape says as many.
bool fill(const std::vector<StoredTensor>& all, Bytes data) {
  Bytes next{};
  for (const StoredTensor& t : all) {
    const auto numel = checked_numel(t.shape, t.dtype);
    if (t.begin != next || !numel.ok() || bytes_of(*numel, t.dtype) != t.end - t.begin) {
      return false;
    }
    next = t.end;
  }
  return next == data;
}

// Either refused, or every tensor can be read: never a crash, whatever the header says.
TEST_CASE("changed headers are refused or consistent", "[files][property]") {
  const auto [good, data] = good_header();
  REQUIRE(parse_safetensors_header(good, data, "good").ok());
  int accepted = 0;
  for (std::uint64_t seed = 1; seed <= test::generated(100'000); ++seed) {
    test::Random random(seed);
    const std::string bad = mutated(good, random);
    const auto parsed = parse_safetensors_header(bad, data, "bad");
    accepted += parsed.ok() ? 1 : 0;
    const bool right =
        parsed.ok() ? fill(parsed->tensors, data) : parsed.status().message().starts_with("bad");
    if (!right) FAIL("seed=" << seed << ": " << bad << ": " << parsed.status().message());
  }
  CHECK(accepted > 0);  // a changed name is still a header
}

TEST_CASE("changed files are refused or can be read whole", "[files][property]") {
  const Scratch scratch;
  const std::string path = scratch.file("changed.safetensors");
  const auto [header, data] = good_header();
  const std::string good = file_of(header, static_cast<std::size_t>(data.value));
  for (std::uint64_t seed = 1; seed <= test::generated(2'000); ++seed) {
    test::Random random(seed);
    std::string bad = mutated(good, random);
    if (random.chance(50)) {  // where the header's size is said
      bad = good;
      bad[static_cast<std::size_t>(random.below(8))] = static_cast<char>(random.below(256));
    }
    if (random.chance(50)) {
      bad.resize(static_cast<std::size_t>(random.below(static_cast<std::int64_t>(bad.size()) + 1)));
    }
    write_text(path, bad);
    INFO("seed=" << seed);
    auto file = SafetensorsFile::open(path);
    if (!file.ok()) {
      REQUIRE(file.status().message().starts_with(path));
      continue;
    }
    for (const StoredTensor& t : file->tensors()) {
      std::vector<std::byte> all(static_cast<std::size_t>((t.end - t.begin).value));
      REQUIRE(file->read(t, Numel{0}, all).ok());
    }
  }
}

}  // namespace
}  // namespace tessera
