// SPDX-License-Identifier: Apache-2.0
// Damaged checkpoints are refused with one sentence, or read as they were.
#include "tests/checkpoint/memory_files.h"
#include "tests/checkpoint/written_files.h"
#include "tests/random.h"

namespace tessera {
namespace {

using test::MemoryFiles;
using test::Random;

MemoryFiles saved() {
  MemoryFiles files;
  const Status status = test::write_files(files, 3, 2);
  INFO(status.message());
  REQUIRE(status.ok());
  return files;
}

void mutate(std::string& bytes, Random& random) {
  const auto at = [&] { return static_cast<std::size_t>(random.below(std::ssize(bytes))); };
  for (std::int64_t n = 1 + random.below(3); n > 0 && !bytes.empty(); --n) {
    switch (random.below(6)) {
      case 0: bytes[at()] = static_cast<char>(random.below(256)); break;
      case 1: bytes[at()] = "0123456789\"{}[],:-"[random.below(18)]; break;
      case 2: bytes.resize(at()); break;
      case 3: bytes.erase(at(), static_cast<std::size_t>(1 + random.below(8))); break;
      case 4:
        bytes.insert(at(), std::string(static_cast<std::size_t>(1 + random.below(8)), '9'));
        break;
      default: {
        const std::string part = bytes.substr(at(), static_cast<std::size_t>(random.below(40)));
        bytes.insert(at(), part);
      }
    }
  }
}

TEST_CASE("a mutated file is refused or means the same", "[checkpoint][property]") {
  const MemoryFiles whole = saved();
  const auto expected = test::expected_files(3);
  int refused = 0;
  constexpr std::uint64_t count = test::generated(6000);
  for (std::uint64_t seed = 1; seed <= count; ++seed) {
    INFO("seed " << seed);
    Random random(seed);
    MemoryFiles files = whole.copy();
    const auto paths = files.paths();
    std::string& bytes =
        files.bytes(paths[static_cast<std::size_t>(random.below(std::ssize(paths)))]);
    const std::string before = bytes;
    mutate(bytes, random);
    const auto read = test::read_files(files);
    if (read.ok()) {
      REQUIRE(*read == expected);
      continue;
    }
    REQUIRE(bytes != before);
    REQUIRE(read.status().message().starts_with("run"));  // names the file
    REQUIRE(read.status().message().find('\n') == std::string::npos);
    ++refused;
  }
  CHECK(refused > static_cast<int>(count) / 2);
}

// What reading says after `change`.
std::string refusal(const std::function<void(MemoryFiles&)>& change) {
  MemoryFiles files = saved();
  change(files);
  const auto read = test::read_files(files);
  REQUIRE(!read.ok());
  return read.status().message();
}

const std::string manifest = "run/step-000003/manifest.json";
const std::string first_rank = "run/step-000003/rank-00000.0.safetensors";

// Another manifest with a checksum that is right.
std::string edited(MemoryFiles& files, const std::function<void(Manifest&)>& change) {
  auto parsed = parse_manifest(files.bytes(manifest), manifest);
  REQUIRE(parsed.ok());
  change(*parsed);
  return to_json(*parsed);
}

TEST_CASE("what is wrong with a checkpoint is said in one sentence", "[checkpoint]") {
  CHECK(refusal([](MemoryFiles& f) { REQUIRE(f.remove(first_rank).ok()); }) ==
        first_rank + ": is missing: load another checkpoint");
  CHECK(refusal([](MemoryFiles& f) { f.bytes(first_rank).resize(100); }) ==
        first_rank + ": is cut short, or its header is damaged: load another checkpoint");
  CHECK(refusal([](MemoryFiles& f) { f.bytes(first_rank)[20] ^= 1; }) ==
        first_rank +
            ": its header is damaged, or the file belongs to another checkpoint: load another "
            "checkpoint");
  CHECK(refusal([](MemoryFiles& f) { f.bytes(first_rank).back() ^= 1; }) ==
        first_rank + ": the data of value/0/b.bias are damaged: load another checkpoint");
  CHECK(refusal([](MemoryFiles& f) {
          std::string& text = f.bytes(manifest);
          text.replace(text.find("\"step\": 3"), 9, "\"step\": 4");
        }) == manifest +
                  ": checksum does not match what it says: it was damaged or edited; load another "
                  "checkpoint");
  CHECK(refusal([](MemoryFiles& f) {
          std::string& text = f.bytes(manifest);
          text.replace(text.find("\"tessera_checkpoint\": 2"), 23, "\"tessera_checkpoint\": 3");
        }) == manifest + ": tessera_checkpoint is 3, this version reads 2: use a newer tessera");
  CHECK(refusal([](MemoryFiles& f) {
          std::string& text = f.bytes(manifest);
          text.replace(text.find("\"tessera_checkpoint\": 2"), 23, "\"tessera_checkpoint\": 1");
        }) == manifest +
                  ": tessera_checkpoint is 1, this version reads 2: export its weights with the "
                  "older tessera");
  CHECK(refusal([](MemoryFiles& f) { f.bytes(manifest) = "{\"a\": 1}"; }) ==
        manifest + ": has no key tessera_checkpoint, so it is no checkpoint of tessera");
  CHECK(refusal([](MemoryFiles& f) { REQUIRE(f.remove(manifest).ok()); }) ==
        "run is no checkpoint and has none: there is no manifest.json, and no folder step-... with "
        "one");
}

TEST_CASE("a manifest that contradicts its files is refused", "[checkpoint]") {
  auto edit = [](const std::function<void(Manifest&)>& change) {
    return refusal([&](MemoryFiles& f) { f.bytes(manifest) = edited(f, change); });
  };
  CHECK(edit([](Manifest& m) { m.files.pop_back(); }) ==
        "run/step-000003: exp_avg of a.weight from element 8 on is in no file: load another "
        "checkpoint");
  CHECK(edit([](Manifest& m) {
          m.parameters[0].shape = {3, 4};
        }) ==
        "run/step-000003/rank-00001.0.safetensors: value/8/a.weight belongs to no parameter: load "
        "another checkpoint");
  CHECK(edit([](Manifest& m) {
          m.parameters[0].shape = {3, 6};
        }) ==
        "run/step-000003: exp_avg of a.weight from element 15 on is in no file: load another "
        "checkpoint");
  CHECK(edit([](Manifest& m) { m.parameters[1].steps = 1; }) ==
        "run/step-000003: exp_avg of b.bias from element 0 on is in no file: load another "
        "checkpoint");
  CHECK(edit([](Manifest& m) { m.files[0].bytes = Bytes{7}; }).starts_with(first_rank + ": has "));
  CHECK(edit([](Manifest& m) { m.files[1].name = "../x"; }) ==
        manifest + ": files[1]: name is no name of a file");
}

}  // namespace
}  // namespace tessera
