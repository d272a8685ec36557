// SPDX-License-Identifier: Apache-2.0
// What TensorBoard reads, taken apart again by another reader of the two formats.
#include "cli/train/event_file.h"

#include <bit>
#include <catch2/catch.hpp>
#include <cstring>
#include <filesystem>
#include <map>

#include "tests/cli/program.h"

namespace tessera::test {
namespace {

std::string content(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// Records without their frames.
std::vector<std::string> records(const std::string& bytes) {
  std::vector<std::string> found;
  for (std::size_t at = 0; at < bytes.size();) {
    std::uint64_t length = 0;
    std::uint32_t sums[2] = {};
    REQUIRE(at + 12 <= bytes.size());
    std::memcpy(&length, bytes.data() + at, 8);
    std::memcpy(&sums[0], bytes.data() + at + 8, 4);
    REQUIRE(at + 16 + length <= bytes.size());
    std::memcpy(&sums[1], bytes.data() + at + 12 + length, 4);
    CHECK(cli::masked_crc32c(bytes.substr(at, 8)) == sums[0]);
    found.push_back(bytes.substr(at + 12, length));
    CHECK(cli::masked_crc32c(found.back()) == sums[1]);
    at += 16 + length;
  }
  return found;
}

// Fields of a message by number, those of four and eight bytes as they are.
std::multimap<unsigned, std::string> fields(const std::string& message) {
  std::multimap<unsigned, std::string> found;
  std::size_t at = 0;
  const auto varint = [&] {
    std::uint64_t value = 0;
    for (unsigned shift = 0;; shift += 7) {
      const auto byte = static_cast<unsigned char>(message.at(at++));
      value |= std::uint64_t{byte & 127U} << shift;
      if (byte < 128) return value;
    }
  };
  while (at < message.size()) {
    const std::uint64_t key = varint();
    std::size_t size = key % 8 == 1 ? 8 : 4;
    if (key % 8 == 0) {
      found.emplace(key / 8, std::to_string(varint()));
      continue;
    }
    if (key % 8 == 2) size = varint();
    found.emplace(key / 8, message.substr(at, size));
    at += size;
  }
  CHECK(at == message.size());
  return found;
}

std::string only(const std::multimap<unsigned, std::string>& all, unsigned number) {
  REQUIRE(all.count(number) == 1);
  return all.find(number)->second;
}

std::map<std::string, float> scalars(const std::string& event) {
  std::map<std::string, float> found;
  const auto all = fields(only(fields(event), 5));
  for (const auto& [number, value] : all) {
    const auto one = fields(value);
    float number_of = 0;
    std::memcpy(&number_of, only(one, 2).data(), 4);
    found[only(one, 1)] = number_of;
  }
  return found;
}

}  // namespace

TEST_CASE("records have the checksum that RFC 3720 shows", "[cli][events]") {
  const auto unmasked = [](const std::string& data) {
    return std::rotl(cli::masked_crc32c(data) - 0xA282EAD8U, 15);
  };
  CHECK(unmasked(std::string(32, '\0')) == 0x8A9136AAU);
  CHECK(unmasked(std::string(32, '\xFF')) == 0x62A8AB43U);
  CHECK(unmasked("123456789") == 0xE3069283U);
}

TEST_CASE("an event file has the numbers of steps by their tags", "[cli][events]") {
  const std::string folder = run_folder() + "events/deep";
  std::filesystem::remove_all(run_folder() + "events");
  auto file = cli::EventFile::create(folder, "host", 300);
  REQUIRE(file.ok());
  REQUIRE(file->scalars(301, 1.5, {{"loss/train", 2.5}, {"speed/ms", 1e-3}}).ok());
  const auto all = records(content(file->path()));
  REQUIRE(all.size() == 3);
  CHECK(only(fields(all[0]), 3) == "brain.Event:2");
  CHECK(only(fields(all[1]), 2) == "301");
  CHECK(only(fields(only(fields(all[1]), 7)), 1) == "1");  // steps from 301 on begin anew
  CHECK(only(fields(all[2]), 2) == "301");
  double times[2] = {};
  for (int k = 0; k < 2; ++k)
    std::memcpy(&times[k], only(fields(all[k == 0 ? 0 : 2]), 1).data(), 8);
  CHECK(times[0] > 1.7e9);
  CHECK(times[1] - times[0] == Approx(1.5).margin(1e-5));
  CHECK(scalars(all[2]) == std::map<std::string, float>{{"loss/train", 2.5F}, {"speed/ms", 1e-3F}});
  CHECK(cli::EventFile::create("/proc/none", "host", 0).status().message() ==
        "/proc/none: no file can be made in it");
}

}  // namespace tessera::test
