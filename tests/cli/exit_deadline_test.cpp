// SPDX-License-Identifier: Apache-2.0
#include "cli/train/exit_deadline.h"

#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <string>

namespace tessera::cli {
namespace {

TEST_CASE("a process that hangs while it ends says so and ends with exit code 1", "[cli]") {
  int said[2];
  REQUIRE(pipe(said) == 0);
  const pid_t child = fork();
  if (child == 0) {
    dup2(said[1], STDERR_FILENO);
    exit_within(1000, "nobody waits that long");
    exit_within(0.02, "others do not end");
    for (;;) pause();
  }
  close(said[1]);
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  REQUIRE(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 1);
  std::string words(100, ' ');
  const ssize_t length = read(said[0], words.data(), words.size());
  close(said[0]);
  REQUIRE(length > 0);
  CHECK(words.substr(0, static_cast<std::size_t>(length)) == "tessera: others do not end\n");
}

}  // namespace
}  // namespace tessera::cli
