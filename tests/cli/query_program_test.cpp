// SPDX-License-Identifier: Apache-2.0
// What `tessera query` prints, and when it ends.
#include <catch2/catch.hpp>
#include <fstream>

#include "tests/cli/program.h"

namespace tessera::test {
namespace {

void write_trace(const std::string& flags = "") {
  std::ofstream(run_folder() + "asked.json")
      << R"({"tessera_model": 1, "name": "asked", "root": {"class": "Net", "parameters":
             [{"name": "weight", "shape": [16, 8]}], "flops_per_sample": [0, 1000, 9]}})";
  REQUIRE(run_tessera("simulate asked.json -q -o asked.tessera " + flags).exit_code == 0);
}

}  // namespace

TEST_CASE("a query without an end ends at its deadline, with what was found", "[cli]") {
  write_trace();
  const std::string endless =
      "'WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT x FROM c'";
  const auto run = run_tessera("query asked.tessera " + endless + " --deadline 0.1");
  CHECK(run.exit_code == 2);
  CHECK(run.messages == "tessera: query: was not done within 0.1 s (--deadline)\n");
  CHECK(run.output.find("The query was stopped before it was done") != std::string::npos);
  const auto sum =
      run_tessera("query asked.tessera --json --deadline 0.1 " +
                  ("'SELECT sum(x) FROM (" + endless.substr(1, endless.size() - 2) + ")'"));
  CHECK(sum.exit_code == 2);
  CHECK(sum.output.empty());
  const auto none = run_tessera("query asked.tessera 'SELECT 1' --deadline 0");
  CHECK(none.exit_code == 2);
  CHECK(none.messages.find("--deadline") != std::string::npos);
}

TEST_CASE("an answer without rows says that not all ranks were recorded", "[cli]") {
  write_trace("--record-ranks 3");
  const std::string ask = "query asked.tessera --csv 'SELECT op FROM span WHERE rank = ";
  CHECK(run_tessera(ask + "0'").messages ==
        "tessera: warning: no row, and only 1 of 8 ranks recorded spans and memory\n");
  CHECK(run_tessera(ask + "3'").messages.empty());
}

TEST_CASE("no column and no digit of an answer is lost on the way to a file", "[cli]") {
  write_trace();
  const std::string ask = "query asked.tessera 'SELECT 1 AS a, 2 AS a, 12345678901234.5 AS t' ";
  CHECK(run_tessera(ask + "--json").output ==
        "[\n  {\"a\":1,\"a:1\":2,\"t\":12345678901234.5}\n]\n");
  CHECK(run_tessera(ask + "--csv").output == "a,a,t\n1,2,12345678901234.5\n");
}

}  // namespace tessera::test
