// SPDX-License-Identifier: Apache-2.0
#include "exchange/parse/json_cursor.h"

#include <catch2/catch.hpp>
#include <limits>

namespace tessera::exchange {

TEST_CASE("decimals are exact where doubles are not", "[json]") {
  CHECK(decimal("4549555717194.335", 3) == 4549555717194335);
  CHECK(decimal("1690000000123456.789", 3) == 1690000000123456789);
  CHECK(decimal("-0.5", 3) == -500);
  CHECK(decimal("12", 3) == 12000);
  CHECK(decimal("1.23456", 3) == 1234);
  CHECK(decimal("1e3", 0) == 1000);
  CHECK(decimal("99999999999999999999", 0) == std::numeric_limits<std::int64_t>::max());
  CHECK(decimal("-99999999999999999999", 3) == std::numeric_limits<std::int64_t>::min());
  CHECK(decimal("nonsense", 3) == 0);
  CHECK(decimal("", 3) == 0);
}

TEST_CASE("a cursor passes over what nobody asks for, and says when text is missing", "[json]") {
  const std::string text = R"({"a": [1, {"b": "]}\"\\"}], "ts": 17.5, "name": "x\u00e9"} rest)";
  JsonCursor cursor(text);
  std::string_view ts, name;
  JsonMembers members(cursor);
  while (members.next()) {
    const bool good = members.key() == "ts"     ? cursor.scalar(ts)
                      : members.key() == "name" ? cursor.string(name)
                                                : cursor.skip();
    if (!good) members.fail();
  }
  CHECK(members.whole());
  CHECK(ts == "17.5");
  CHECK(unescaped(name) == "x\xC3\xA9");
  CHECK_FALSE(cursor.starved());
  for (std::size_t cut = 0; cut + 5 < text.size(); ++cut) {
    JsonCursor part(std::string_view(text).substr(0, cut));
    std::string_view ignored;
    INFO("the first " << cut << " characters");
    CHECK_FALSE(part.raw(ignored));
    CHECK(part.starved());
  }
}

}  // namespace tessera::exchange
