// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>

#include "exchange/parse/json_tree.h"
#include "exchange/parse/pickle.h"
#include "tests/require_ok.h"

namespace tessera::exchange {
namespace {

std::string file(const std::string& name) {
  std::ifstream in(std::string(TESSERA_SOURCE_DIR "/tests/exchange/data/") + name,
                   std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

Tree parsed(std::string bytes) {
  Result<Tree> tree = parse_pickle(std::move(bytes));
  INFO((tree.ok() ? "" : tree.status().message()));
  REQUIRE(tree.ok());
  return std::move(tree).value();
}

std::string why(std::string bytes) {
  const Result<Tree> tree = parse_pickle(std::move(bytes));
  REQUIRE_FALSE(tree.ok());
  return tree.status().message();
}

std::vector<TreeValue> entries(TreeValue list) {
  std::vector<TreeValue> all;
  for (TreeItems items(list); items.next();) all.push_back(items.value());
  return all;
}

TEST_CASE("pickles of all protocols say what Python wrote into them", "[exchange]") {
  const int protocol = GENERATE(range(0, 6));
  CAPTURE(protocol);
  const Tree tree = parsed(file("values.p" + std::to_string(protocol)));
  const TreeValue root = tree.root();
  std::vector<std::int64_t> integers;
  for (const TreeValue number : entries(root["numbers"])) {
    if (number.is(TreeKind::integer)) integers.push_back(number.integer());
  }
  constexpr std::int64_t two29 = 1 << 29, two31 = std::int64_t{1} << 31;
  constexpr auto least = std::numeric_limits<std::int64_t>::min();
  CHECK(integers == std::vector<std::int64_t>{0, 1, -1, 255, 256, 65535, 65536, two29 - 1, two29,
                                              -two29, -two29 - 1, two31 - 1, -two31,
                                              std::int64_t{1} << 40, std::int64_t{1} << 62,
                                              -(least + 1), least});
  const std::vector<TreeValue> numbers = entries(root["numbers"]);
  CHECK(numbers[17].integer() == 1);
  CHECK(numbers[18].is(TreeKind::boolean));
  CHECK(numbers[19].is(TreeKind::none));
  CHECK(numbers[20].real() == 1.5);
  CHECK(numbers[22].real() == 1e300);
  CHECK(root["beyond"].real() == 1180591620717411303424.0);
  const std::vector<TreeValue> texts = entries(root["texts"]);
  CHECK(texts[2].text() == "tab\t line\n quote' \\ back");
  CHECK(texts[3].text() == "\u00e9\u6f22\U0001f600");
  std::int64_t size = 0;
  for (const TreeValue tuple : entries(root["tuples"])) CHECK(tuple.size() == size++);
  for (const TreeValue set : entries(root["sets"])) CHECK(set.size() == 1);
  const std::vector<TreeValue> shared = entries(root["shared"]);
  CHECK(shared[0].identity() == shared[1].identity());
  std::int64_t at = 0;
  for (const TreeValue entry : entries(root["long"])) CHECK(entry.integer() == at++);
  CHECK(at == 2500);
  CHECK(root["ordered"]["b"].integer() == 2);
  CHECK(root["counted"]["x"].integer() == 3);
  CHECK(root["thing"]["size"].integer() == 7);
  CHECK_FALSE(root["absent"].present());
}

TEST_CASE("what a pickle would call is remembered and not called", "[exchange]") {
  const Tree tree = parsed("cos\nsystem\n(S'touch /tmp/x'\ntR.");
  CHECK(tree.root().name() == "os.system");
  CHECK(entries(tree.root().arguments())[0].text() == "touch /tmp/x");
}

TEST_CASE("pickles that Python would refuse are refused, with the place", "[exchange]") {
  CHECK(why(file("values.p2") + file("values.p2")).find("goes on behind its end") !=
        std::string::npos);
  CHECK(why("") ==
        "it is no pickle, or a damaged one: it ends in the middle of a value, at byte 0"
        " of 0");
  CHECK(why("\x80\x06N.").find("protocol is newer") != std::string::npos);
  CHECK(why("\xff").find("no protocol has") != std::string::npos);
  CHECK(why(std::string("\x8d\xff\xff\xff\xff\xff\xff\xff\xff", 9)).find("ends in the middle") !=
        std::string::npos);
  CHECK(why("Nr\xff\xff\xff\x7f.").find("beyond all") != std::string::npos);
  CHECK(why("h\x01.").find("has not given") != std::string::npos);
  CHECK(why("Na.").find("takes more values") != std::string::npos);
  CHECK(why("NNa.").find("no list") != std::string::npos);
  CHECK(why("}(Nu.").find("without a value") != std::string::npos);
  CHECK(why("e.").find("mark") != std::string::npos);
  CHECK(why("(0.").find("takes more values") != std::string::npos);
}

TEST_CASE("trees take no more than three times their file and 24 MB", "[exchange]") {
  const std::string opcode = GENERATE(as<std::string>(), "N", "]", "}", "(", "Nq\x01", "cA\nB\n",
                                      "K\x01", "VA\\u0041\n", "]\x94", "J\xff\xff\xff\x7f");
  CAPTURE(opcode);
  std::string bytes = "N";
  while (bytes.size() < (8 << 20)) bytes += opcode;
  const std::size_t size = bytes.size();
  const Result<Tree> tree = parse_pickle(bytes + ".");
  if (tree.ok()) {
    CHECK(tree->memory() <= static_cast<std::int64_t>(3 * size + (25 << 20)));
  } else {
    CHECK((tree.status().code() == Code::out_of_memory || opcode == "("));
  }
}

TEST_CASE("containers within containers a thousandfold end", "[exchange]") {
  std::string bytes = "]q\x01(";
  for (int i = 0; i < 40; ++i) bytes += "h\x01";
  bytes += "e";  // a list of 40 times itself
  const Tree tree = parsed(bytes + ".");
  std::vector<TreeItems> path{TreeItems(tree.root())};
  while (!path.empty() && path.size() < 1000) {
    if (path.back().next()) {
      path.emplace_back(path.back().value());
    } else {
      path.pop_back();
    }
  }
  std::int64_t steps = 0;
  while (!tree.exhausted() && steps < 10'000'000) {
    for (TreeItems items(tree.root()); items.next();) ++steps;
  }
  CHECK(steps < 1'000'000);
}

TEST_CASE("JSON becomes the same tree", "[exchange]") {
  const Result<Tree> tree = parse_json_tree(
      R"({"a": [1, -2, 1.5, true, null], "b": {"c": "\u00e9\n"}, "big": 18446744073709551615})");
  REQUIRE(tree.ok());
  CHECK(entries(tree->root()["a"])[1].integer() == -2);
  CHECK(tree->root()["b"]["c"].text() == "\u00e9\n");
  CHECK(tree->root()["big"].real() == 18446744073709551616.0);
  const Result<Tree> broken = parse_json_tree(R"({"a": [1, )");
  REQUIRE_FALSE(broken.ok());
  CHECK(broken.status().message().find("it is no JSON, or a damaged one") == 0);
  CHECK_FALSE(parse_json_tree(std::string(1 << 20, '[')).ok());
}

}  // namespace
}  // namespace tessera::exchange
