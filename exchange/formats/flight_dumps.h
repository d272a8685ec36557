// SPDX-License-Identifier: Apache-2.0
// What dumps of all ranks together say about their collectives.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "exchange/import/imported_run.h"

namespace tessera::exchange {

/// One rank's call of a collective.
struct FlightCall {
  std::string operation;  // "all_gather", without what differs between libraries
  std::int64_t elements_in = 0, elements_out = 0;
  std::string dtype;
  std::string site;  // "forward (train.py:31)"; "" if unknown
  bool finished = false;
  Time created = 0;
};

/// One rank in a process group. Its recorder has a limited length: what is before the first call
/// may have been forgotten.
struct FlightMember {
  std::map<std::int64_t, FlightCall> calls;  // by sequence number
  std::int64_t last_enqueued = -1;           // as the group's status says; -1: unknown

  std::int64_t last() const {
    return calls.empty() ? last_enqueued : std::max(last_enqueued, calls.rbegin()->first);
  }
};

struct FlightGroup {
  std::string name, title;    // "0", "default_pg"
  std::vector<Rank> members;  // ascending; empty: unknown
  std::vector<Rank> listed;   // those by which the run knows it: of the first dump that has it
  std::int64_t size = 0;      // 0: unknown
  bool whole_world = false;   // all ranks of the run
  std::map<Rank, FlightMember> by_rank;
};

struct FlightDumps {
  std::int64_t world = 0;                     // ranks of the run, as far as dumps tell; 0: unknown
  std::vector<Rank> ranks;                    // ascending, of which there are dumps
  std::map<std::string, FlightGroup> groups;  // by name and members
};

/// What is wrong, the earliest first; one finding per group, as what follows from it is no news.
std::vector<ImportedDiagnostic> findings_of(const FlightDumps& dumps);

}  // namespace tessera::exchange
