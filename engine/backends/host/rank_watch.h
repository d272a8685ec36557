// SPDX-License-Identifier: Apache-2.0
// What a rank knows of the others while they work together: whether all do the same, and who is
// dead or silent.
//
// The idea: every rank tells rank 0 what it has called (CollectiveLog), a few calls at a time, by
// letters that nobody waits for; rank 0 compares, call by call, with what it did itself. A rank in
// trouble tells rank 0, which knows more, and repeats what that says; only if rank 0 is silent it
// has to end the run by itself. So all ranks end with the same sentence.
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

  /// Deaths of these are noticed at once.
  void watch(PeerProcesses peers) { processes_ = std::move(peers); }

  CollectiveLog& log() { return log_; }
  /// After something was logged: reports now and then.
  Status logged();
  /// Reports everything now.
  void report();
  /// Once per turn in which nothing else could be done. Fails when the run is over.
  Status turn();
  /// The run cannot go on because of `guess`. Ends it on all ranks; returns why.
  Status conclude(const Status& guess);

 private:
  struct Peer {
    std::deque<LoggedCall> ahead;  // calls that rank 0 has not made yet
    std::int64_t same = 0;         // so many calls are the same as here
    LoggedCall last;
    std::int64_t count = 0;
    Time heard = 0;
  };

  Time time() const { return options_.clock ? options_.clock() : 0; }
  Status hear();
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
  std::int64_t sent_ = 0;    // so many calls have been reported
  Time sent_at_ = 0;
  int turns_ = 0;
  Status trouble_;  // of another rank
};

}  // namespace tessera
