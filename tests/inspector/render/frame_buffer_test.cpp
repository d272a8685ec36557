// SPDX-License-Identifier: Apache-2.0
#include "inspector/render/frame_buffer.h"

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <string>

using namespace tessera;
using namespace tessera::inspector;

namespace {

std::string scratch(const std::string& name) {
  const std::string folder = std::string(TESSERA_BINARY_DIR) + "/tests/scratch/";
  std::filesystem::create_directories(folder);
  return folder + name;
}

FrameBuffer noise(int width, int height) {
  FrameBuffer picture(width, height);
  std::uint32_t state = 1;
  for (std::uint32_t& pixel : picture.pixels) pixel = state = state * 1664525U + 1013904223U;
  return picture;
}

}  // namespace

TEST_CASE("a picture comes back from its PNG bit by bit", "[inspector][png]") {
  const std::string path = scratch("noise.png");
  for (const auto& [width, height] : {std::pair{1, 1}, std::pair{37, 5}, std::pair{3, 200}}) {
    const FrameBuffer picture = noise(width, height);
    REQUIRE(write_png(picture, path).ok());
    const Result<FrameBuffer> back = read_png(path);
    REQUIRE(back.ok());
    CHECK(*back == picture);
  }
  CHECK_FALSE(std::filesystem::exists(path + ".partial"));
}

TEST_CASE("writing a picture into a missing folder says so and leaves nothing",
          "[inspector][png]") {
  const std::string path = scratch("missing") + "/picture.png";
  const Status status = write_png(noise(4, 4), path);
  CHECK(status.code() == Code::io_error);
  CHECK(status.message().find(path) != std::string::npos);
  CHECK_FALSE(std::filesystem::exists(path + ".partial"));
  CHECK(write_png({}, scratch("empty.png")).code() == Code::invalid_argument);
}

TEST_CASE("a picture goes where a link leads", "[inspector][png]") {
  const std::string link = scratch("link.png"), file = scratch("behind.png");
  std::filesystem::remove(link);
  std::filesystem::remove(file);
  std::filesystem::create_symlink("behind.png", link);
  REQUIRE(write_png(noise(4, 4), link).ok());
  CHECK(std::filesystem::is_symlink(link));
  CHECK(read_png(file).ok());
}

TEST_CASE("reading what is no picture names the file and the cause", "[inspector][png]") {
  CHECK(read_png(scratch("nothing-here.png")).status().code() == Code::io_error);
  const std::string path = scratch("text.png");
  std::ofstream(path) << "not a picture";
  CHECK(read_png(path).status().code() == Code::corrupt);
}

TEST_CASE("the difference of pictures counts pixels and finds the largest channel",
          "[inspector][png]") {
  FrameBuffer a(4, 3, 0xFF202020U);
  FrameBuffer b = a;
  CHECK(difference(a, b).same());
  b.pixels[5] = 0xFF202420U;
  b.pixels[7] = 0xFF20FF20U;
  const Difference apart = difference(a, b);
  CHECK(apart.pixel_count == 2);
  CHECK(apart.channel_max == 0xFF - 0x20);
  CHECK(apart.picture.at(3, 1) == 0xFFFF00FFU);
  CHECK(difference(a, b, 4).pixel_count == 1);
  CHECK_FALSE(difference(a, FrameBuffer(3, 4)).same_size);
}
