// SPDX-License-Identifier: Apache-2.0
// Finds ranks that call something else than the others, that are dead or silent.
//
// The idea: every rank sends rank 0 its calls (CollectiveLog), a few at a time, in messages for
// which no rank waits; rank 0 compares them, call by call, with its own. A rank that cannot go on
// reports it to rank 0, which knows more, and repeats rank 0's verdict; only if rank 0 is silent it
// ends the run by itself. So all ranks end with the same sentence.
#pragma once

#include <deque>
#include <string>
#include <vector>

#include "engine/backends/host/collective_log.h"
#include "engine/backends/host/peer_processes.h"
#include "engine/backends/host/transport.h"
#include "tessera/host_runtime.h"

namespace tessera {

class RankWatch {
 public:
  RankWatch(Transport& transport, const HostOptions& options);

  /// Sets the processes whose death is noticed at once.
  void watch(PeerProcesses peers) { processes_ = std::move(peers); }

  CollectiveLog& log() { return log_; }
  /// Call it after each logged call; it sends a report every few calls. Fails when the run is over.
  Status logged();
  /// Sends all calls that were not sent yet.
  void report();
  /// Call it in every turn of a wait in which no operation could go on. Fails when the run is over.
  Status turn();
  /// Ends the run on all ranks because of `guess`. Returns the reason that they agree on, which may
  /// be another one.
  Status conclude(const Status& guess);

 private:
  struct Peer {
    std::deque<LoggedCall> ahead;  // calls that are not compared yet
    std::int64_t same = 0;         // the number of calls that are equal to rank 0's
    LoggedCall last;               // the last call that it has reported
    std::int64_t count = 0;        // the number of calls that it has reported
    Time heard = 0;                // when its last report arrived
  };

  Time time() const { return options_.clock ? options_.clock() : 0; }
  Status receive();
  Status compare();
  Status differs(Rank other, const LoggedCall& own) const;
  void send(const Status& trouble);
  bool heartbeat_is_due() const;
  Status explain(const Status& guess) const;

  Transport& transport_;
  const HostOptions options_;
  const Rank rank_;
  CollectiveLog log_;
  PeerProcesses processes_;
  std::vector<Peer> peers_;  // by rank; only rank 0 compares
  std::int64_t sent_ = 0;    // the number of calls that have been reported
  Time sent_at_ = 0;
  int turns_ = 0;
  Status trouble_;  // the first error that another rank has reported
};

}  // namespace tessera
