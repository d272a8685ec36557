// SPDX-License-Identifier: Apache-2.0
#include "tests/exchange/mutated.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <iterator>

#include "tests/exchange/imports.h"
#include "tests/random.h"

namespace tessera::test {
namespace {

std::size_t place(const std::string& bytes, Random& random) {
  return static_cast<std::size_t>(random.below(static_cast<std::int64_t>(bytes.size()) + 1));
}

void mutate(std::string& bytes, Random& random) {
  const std::size_t at = std::min(place(bytes, random), bytes.size() - 1);
  const auto length = static_cast<std::size_t>(random.below(random.chance(10) ? 4096 : 12)) + 1;
  switch (random.below(6)) {
    case 0: bytes[at] = static_cast<char>(random.below(256)); break;
    case 1: bytes[at] = static_cast<char>(bytes[at] ^ (1 << random.below(8))); break;
    case 2: bytes.erase(at, length); break;
    case 3: bytes.insert(at, bytes.substr(place(bytes, random) % bytes.size(), length)); break;
    case 4:  // a number that is as large as numbers get
      for (std::size_t i = at; i < std::min(at + length, bytes.size()); ++i) {
        if (bytes[i] >= '0' && bytes[i] <= '9') bytes[i] = '9';
      }
      break;
    default: bytes.replace(at, length, bytes.substr(place(bytes, random) % bytes.size(), length));
  }
  if (random.chance(3)) bytes.resize(place(bytes, random));
  if (bytes.empty()) bytes = " ";
}

std::uint64_t number(const char* name, std::uint64_t otherwise) {
  const char* const text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

}  // namespace

void check_mutations(const std::string& bytes, int count) {
  const Imports imports;
  const std::uint64_t first = number("TESSERA_MUTATION_SEED", 1);
  const std::uint64_t all =
      number("TESSERA_MUTATIONS", generated(static_cast<std::uint64_t>(count)));
  int read = 0;
  for (std::uint64_t seed = first; seed < first + all; ++seed) {
    INFO("TESSERA_MUTATION_SEED=" << seed);
    Random random(seed);
    std::string mutated = bytes;
    const auto changes = random.below(random.chance(30) ? 40 : 3) + 1;
    for (std::int64_t i = 0; i < changes; ++i) mutate(mutated, random);
    const auto done = imports.import({imports.file("mutated", mutated)});
    if (done.ok()) {
      const auto trace = analysis::Trace::open(imports.path("out.tessera"));
      INFO(trace.status().message());
      REQUIRE(trace.ok());
      ++read;
      std::filesystem::remove(imports.path("out.tessera"));
    } else {
      REQUIRE(!done.status().message().empty());
      REQUIRE(!std::filesystem::exists(imports.path("out.tessera")));
    }
  }
  CHECK(read > 0);
}

std::string bytes_of_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace tessera::test
