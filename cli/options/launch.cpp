// SPDX-License-Identifier: Apache-2.0
#include "cli/options/launch.h"

#include <fmt/format.h>

#include <charconv>
#include <cstdlib>
#include <initializer_list>
#include <optional>
#include <string_view>

namespace tessera::cli {
namespace {

// The first of these variables that holds a number.
std::optional<Rank> number_in(std::initializer_list<const char*> variables) {
  for (const char* variable : variables) {
    const char* const text = std::getenv(variable);
    if (text == nullptr) continue;
    const std::string_view word(text);
    Rank value = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
    if (error == std::errc{} && end == word.data() + word.size()) return value;
  }
  return {};
}

}  // namespace

Launch read_launch() {
  Launch launch;
  const auto ranks = number_in({"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_NTASKS"});
  launch.by_launcher = ranks.value_or(1) > 1 || std::getenv("OMPI_COMM_WORLD_SIZE") != nullptr ||
                       std::getenv("PMI_SIZE") != nullptr || std::getenv("PMIX_RANK") != nullptr;
  launch.by_torchrun = !launch.by_launcher && number_in({"RANK"}) && number_in({"WORLD_SIZE"});
  if (launch.by_torchrun) {
    launch.by_launcher = true;
    launch.ranks = number_in({"WORLD_SIZE"}).value_or(1);
    launch.rank = number_in({"RANK"}).value_or(0);
    launch.local_ranks = number_in({"LOCAL_WORLD_SIZE"}).value_or(launch.ranks);
    launch.local_rank = number_in({"LOCAL_RANK"}).value_or(launch.rank);
    return launch;
  }
  launch.ranks = ranks.value_or(1);
  launch.rank =
      number_in({"OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK", "SLURM_PROCID"}).value_or(0);
  launch.local_ranks =
      number_in({"OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS"}).value_or(launch.ranks);
  launch.local_rank = number_in({"OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID"})
                          .value_or(launch.rank);
  return launch;
}

Result<std::string> torchrun_meeting() {
  const char* const host = std::getenv("MASTER_ADDR");
  if (host == nullptr || *host == '\0') {
    return Status(Code::invalid_argument,
                  "MASTER_ADDR is not set: with RANK and WORLD_SIZE it names the host of rank 0");
  }
  const auto port = number_in({"MASTER_PORT"});
  if (!port || *port < 1 || *port >= 65535) {
    return Status(Code::invalid_argument,
                  "MASTER_PORT is not set to a port: ranks find each other at the one after it");
  }
  return fmt::format("{}:{}", host, *port + 1);
}

}  // namespace tessera::cli
