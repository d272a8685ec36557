// SPDX-License-Identifier: Apache-2.0
// Processes of which one misbehaves: what the others say, how soon, and that none is left.
#include <array>
#include <catch2/catch.hpp>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <string>
#include <thread>

#include "tessera/types.h"

namespace tessera {
namespace {

using Catch::Matchers::Contains;
namespace fs = std::filesystem;

constexpr int deadline_ms = 4000;
// A process that notices something ends within a second; machines that are loaded need more.
constexpr int slack_ms = 15000;

struct Ended {
  std::map<Rank, std::string> why;
  std::map<Rank, int> after_ms;  // since the fault
  int exit_code = 0;
  std::string output;
};

// `marker` is an argument of every process of the run.
int processes_with(const std::string& marker) {
  int found = 0;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator("/proc", ignored)) {
    std::ifstream file(entry.path() / "cmdline");
    const std::string line((std::istreambuf_iterator<char>(file)), {});
    found += line.find(marker) != std::string::npos;
  }
  return found;
}

// The launcher may take a moment to end processes that do not listen.
int left_over(const std::string& marker) {
  int left = processes_with(marker);
  for (int tenth = 0; left > 0 && tenth < 50; ++tenth) {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    left = processes_with(marker);
  }
  return left;
}

Ended run(const std::string& fault, Rank faulty) {
  const std::string marker = "marker-" + fault + "-" + std::to_string(faulty);
  const std::string command = TESSERA_MPIRUN " -n 3 " FAULTY_PROGRAM " " + fault + " " +
                              std::to_string(faulty) + " " + std::to_string(deadline_ms) + " " +
                              marker + " 2>&1";
  Ended ended;
  std::FILE* const pipe = popen(command.c_str(), "r");
  REQUIRE(pipe != nullptr);
  std::array<char, 4096> line{};
  const std::regex form("rank (-?\\d+) ended after (\\d+) ms: (.*)\n");
  while (std::fgets(line.data(), line.size(), pipe) != nullptr) {
    std::cmatch match;
    ended.output += line.data();
    if (!std::regex_match(line.data(), match, form)) continue;
    const Rank rank = std::stoi(match[1]);
    ended.why[rank] = match[3];
    ended.after_ms[rank] = std::stoi(match[2]);
  }
  ended.exit_code = pclose(pipe);
  INFO(ended.output);
  CHECK(left_over(marker) == 0);
  CHECK((fault == "none" || ended.exit_code != 0));
  return ended;
}

// All ranks but `except` say `what`, in time, and those that are asked say the same.
void check_survivors(const Ended& ended, Rank except, const std::string& what, int within_ms) {
  INFO(ended.output);
  for (Rank rank = 0; rank < 3; ++rank) {
    if (rank == except) continue;
    INFO("rank " << rank);
    REQUIRE(ended.why.count(rank) == 1);
    CHECK_THAT(ended.why.at(rank), Contains(what));
    CHECK(ended.after_ms.at(rank) < within_ms + slack_ms);
  }
}

TEST_CASE("without a fault nothing is said", "[mpi][faults]") {
  const Ended ended = run("none", 1);
  CHECK(ended.exit_code == 0);
  check_survivors(ended, -1, "all is well", deadline_ms);
}

TEST_CASE("a process that dies is named by all that are left", "[mpi][faults]") {
  const auto [fault, dying] = GENERATE(table<std::string, Rank>(
      {{"kill", 0}, {"kill", 1}, {"exit", 1}, {"quiet_exit", 1}, {"abort", 1}}));
  INFO(fault << " of rank " << dying);
  check_survivors(run(fault, dying), dying,
                  "rank " + std::to_string(dying) + " is dead: its process ", 0);
}

TEST_CASE("a process that is stopped or hangs is named at the deadline", "[mpi][faults]") {
  const std::string fault = GENERATE("stop", "hang", "hang_in_body");
  const Ended ended = run(fault, 1);
  check_survivors(ended, 1,
                  " waited 4.0 s for collective 42, all_reduce of 100000 float32 of unit unit 20 "
                  "on communicator 0: rank 1 is silent for ",
                  deadline_ms);
  CHECK(ended.why.at(0) == ended.why.at(2));
  if (fault == "hang_in_body") {
    CHECK_THAT(ended.why.at(1), Contains("rank 1 hangs: it is inside of the compute of unit here"));
  }
}

TEST_CASE("a first process that is stopped is named by the others", "[mpi][faults]") {
  check_survivors(run("stop", 0), 0, ": rank 0 does not answer", deadline_ms);
}

TEST_CASE("a first process that comes late still has the verdict", "[mpi][faults]") {
  const Ended ended = run("hang_beside_a_late_first", 1);
  // Which rank is silent rank 0 may not know: it has read old reports just now.
  check_survivors(ended, 1, "rank 2 waited 4.0 s for collective 42, all_reduce", deadline_ms);
  CHECK_THAT(ended.why.at(2), !Contains("rank 0 does not answer"));
  CHECK(ended.why.at(0) == ended.why.at(2));
}

TEST_CASE("a process that fails tells the others why", "[mpi][faults]") {
  const Rank failing = GENERATE(0, 1);
  const Ended ended = run("error", failing);
  check_survivors(ended, failing, "rank " + std::to_string(failing) + " gave up: disk full", 0);
  CHECK(ended.why.at(failing) == "disk full");
}

TEST_CASE("processes that call something else are named by all", "[mpi][faults]") {
  const auto [fault, what] = GENERATE(table<std::string, std::string>(
      {{"size", "rank 1 calls all_reduce of 10 float32 of unit unit 20 on communicator 0;"},
       {"less", "rank 1 calls all_reduce of 100000 float32 of unit unit 21 on communicator 0;"},
       {"order", "rank 1 calls all_reduce of 100000 float32 of unit unit 21 on communicator 0;"}}));
  INFO(fault);
  check_survivors(
      run(fault, 1), -1,
      "ranks differ at collective 42: rank 0 calls all_reduce of 100000 float32 of unit "
      "unit 20 on communicator 0, " +
          what,
      0);
}

}  // namespace
}  // namespace tessera
