// SPDX-License-Identifier: Apache-2.0
#include "inspector/model/notes.h"

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>

#include "inspector/model/layout.h"

namespace tessera::inspector {
namespace {

TEST_CASE("notes are read back as they were written, and lines that are none stay in the file",
          "[inspector][notes]") {
  const std::string trace = std::string(TESSERA_BINARY_DIR) + "/notes_test.tessera";
  const std::string file = trace + ".notes";
  std::ofstream(file) << "1000\tfirst\nno note\n-5\t\n";
  Notes notes(trace + ".partial");
  REQUIRE(notes.all().size() == 2);
  CHECK(notes.all()[0].time == -5);
  CHECK(notes.all()[1].text == "first");
  const std::size_t place = notes.add(200);
  CHECK(place == 1);
  CHECK(notes.add(200) == 1);
  notes.set_text(place, "two\nlines");
  REQUIRE(notes.save().ok());
  Notes again(trace);
  REQUIRE(again.all().size() == 3);
  CHECK(again.all()[1].text == "two lines");
  while (!again.all().empty()) again.remove(0);
  REQUIRE(again.save().ok());
  std::string line;
  std::ifstream left(file);
  CHECK(std::getline(left, line));
  CHECK(line == "no note");
  std::filesystem::remove(file);
  Notes unwritable("/nowhere/at/all/run.tessera");
  unwritable.add(1);
  CHECK(unwritable.save().code() == Code::io_error);
}

TEST_CASE("a layout is read back, and what is wrong in its file is as by default",
          "[inspector][notes]") {
  const std::string file = std::string(TESSERA_BINARY_DIR) + "/layout_test/layout";
  const Layout layout{.memory = 300, .details = 280, .hides_memory = true, .hides_details = false};
  write_layout(file, layout);
  CHECK(read_layout(file) == layout);
  std::ofstream(file) << "memory -1\ndetails nan\nhides_memory 1\nmore\n";
  CHECK(read_layout(file) == Layout{.hides_memory = true});
  CHECK(read_layout(file + "/none") == Layout{});
  std::filesystem::remove_all(std::string(TESSERA_BINARY_DIR) + "/layout_test");
}

}  // namespace
}  // namespace tessera::inspector
