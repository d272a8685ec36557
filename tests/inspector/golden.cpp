// SPDX-License-Identifier: Apache-2.0
#define CATCH_CONFIG_EXTERNAL_INTERFACES
#include "tests/inspector/golden.h"

#include <catch2/catch.hpp>
#include <filesystem>
#include <string>

namespace tessera::inspector {
namespace {

bool updating = false;

/// Catch2's main is shared and takes no options of ours, so the wish is a tag on the command line.
class UpdateMode : public Catch::TestEventListenerBase {
 public:
  using TestEventListenerBase::TestEventListenerBase;

  void testRunStarting(const Catch::TestRunInfo&) override {
    for (const std::string& word : m_config->getTestsOrTags()) {
      if (word.find("[.update-golden]") != std::string::npos) updating = true;
    }
  }
};

std::string write_evidence(const FrameBuffer& picture, const Difference& apart,
                           const std::string& name) {
  const std::string folder = std::string(TESSERA_BINARY_DIR) + "/tests/golden/";
  std::filesystem::create_directories(folder);
  const std::string actual = folder + name + ".actual.png";
  CHECK(write_png(picture, actual).message().empty());
  std::string sentence = "the picture is now " + actual;
  if (apart.same_size) {
    const std::string differing = folder + name + ".difference.png";
    CHECK(write_png(apart.picture, differing).message().empty());
    sentence += ", " + std::to_string(apart.pixel_count) + " pixels differ, by at most " +
                std::to_string(apart.channel_max) + " of 255: " + differing;
  } else {
    sentence += ", it has another size";
  }
  return sentence;
}

}  // namespace

CATCH_REGISTER_LISTENER(UpdateMode)

void check_golden(const FrameBuffer& picture, const std::string& name, int tolerance) {
  const std::string path =
      std::string(TESSERA_SOURCE_DIR) + "/tests/golden/inspector/" + name + ".png";
  if (updating) {
    const Result<FrameBuffer> before = read_png(path);
    if (before.ok() && difference(*before, picture, tolerance).same()) return;
    CHECK(write_png(picture, path).message().empty());
    WARN("wrote " << path);
    return;
  }
  const Result<FrameBuffer> golden = read_png(path);
  const Difference apart = golden.ok() ? difference(*golden, picture, tolerance) : Difference{};
  if (golden.ok() && apart.same()) {
    SUCCEED();
    return;
  }
  const std::string why = golden.ok() ? "" : golden.status().message() + "; ";
  FAIL_CHECK(name << ": " << why << write_evidence(picture, apart, name)
                  << ". If that is right: build the target update_inspector_golden.");
}

}  // namespace tessera::inspector

TEST_CASE("golden pictures are rewritten", "[.update-golden]") { SUCCEED(); }
