// SPDX-License-Identifier: Apache-2.0
// Messages of one collective between this rank and members of its group.
//
// The idea: MPI trusts that all ranks ask for the same. In Open MPI a message that is longer than
// what is there for it damages memory, in collectives and alone, if it is long enough to be read
// from the sender's memory. So every message is probed before it is received.
#pragma once

#include <mpi.h>

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "tessera/status.h"

namespace tessera {

/// "MPI_Isend: what MPI says about `code`".
Status mpi_failure(int code, const std::string& call);

class MpiExchange {
 public:
  MpiExchange(MPI_Comm communicator, int tag) : communicator_(communicator), tag_(tag) {}

  void send(std::span<const std::byte> bytes, int to);
  void receive(std::span<std::byte> bytes, int from);
  /// Runs once all of the above is done; it may send and receive more.
  void then(std::function<void(MpiExchange&)> next) { next_ = std::move(next); }

  /// Whether all is done. Fails: communication_error, also where another size came.
  Result<bool> test();

 private:
  struct Expected {
    std::span<std::byte> bytes;
    int from = 0;
  };
  void started(int code, const char* call, MPI_Request request);
  Status receive_what_came();
  Result<bool> test_messages();

  MPI_Comm communicator_;
  int tag_;
  std::vector<Expected> expected_;  // not yet there
  std::vector<MPI_Request> requests_;
  std::function<void(MpiExchange&)> next_;
  Status failed_;
};

}  // namespace tessera
