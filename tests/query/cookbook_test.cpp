// SPDX-License-Identifier: Apache-2.0
#include <fstream>
#include <sstream>

#include "tests/query/answers.h"

namespace tessera {
namespace {

/// The text between "```word" and the next "```", from `at` on, which moves behind it; "" at the
/// end.
std::string next_block(const std::string& page, const std::string& word, std::size_t& at) {
  const std::string fence = "\n```" + word + "\n";
  const std::size_t begin = page.find(fence, at);
  if (begin == std::string::npos) return "";
  const std::size_t end = page.find("```", begin + fence.size());
  REQUIRE(end != std::string::npos);
  at = end + 3;
  return page.substr(begin + fence.size(), end - begin - fence.size());
}

TEST_CASE("the questions of docs/query.md have the answers that it shows", "[query]") {
  std::ifstream file(std::string(TESSERA_SOURCE_DIR) + "/docs/query.md");
  std::ostringstream text;
  text << file.rdbuf();
  const std::string page = text.str();
  query::Query query = test::open_example();
  int questions = 0;
  for (std::size_t at = 0;; ++questions) {
    const std::string sql = next_block(page, "sql", at);
    if (sql.empty()) break;
    INFO(sql);
    CHECK(test::answer(query, sql) == next_block(page, "csv", at));
  }
  CHECK(questions >= 20);
}

}  // namespace
}  // namespace tessera
