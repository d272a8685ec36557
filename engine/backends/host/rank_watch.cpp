// SPDX-License-Identifier: Apache-2.0
#include "engine/backends/host/rank_watch.h"

#include <fmt/format.h>

#include <algorithm>

namespace tessera {
namespace {

constexpr std::int64_t calls_per_report = 16;  // small enough for MPI to send it at once
constexpr int turns_per_look = 32;             // other processes are checked in every so many turns
constexpr int patient_turns = 4000;  // of a rank that waits for rank 0's verdict without a clock
constexpr Time heartbeat_at_most = 1'000'000'000;

// How long a rank waits for rank 0's verdict. Rank 0 may be starved on a loaded machine: who waits
// long for operations waits long for the verdict, too, or ranks end with different sentences.
Time patience(const HostOptions& options) {
  return std::clamp<Time>(options.deadline, 800'000'000, 10'000'000'000);
}

}  // namespace

RankWatch::RankWatch(Transport& transport, const HostOptions& options)
    : transport_(transport), options_(options), rank_(transport.rank()) {
  const Time now = time();
  sent_at_ = now;
  if (rank_ == 0) peers_.resize(static_cast<std::size_t>(transport.ranks()));
  for (Peer& peer : peers_) peer.heard = now;
}

Status RankWatch::logged() {
  if (transport_.ranks() == 1) return log_.forget_until(log_.count()), Status{};
  const bool due = log_.count() % calls_per_report == 0;
  if (!due) return {};
  if (rank_ != 0) send({});
  return receive();
}

void RankWatch::report() {
  if (rank_ != 0 && sent_ < log_.count()) send({});
}

void RankWatch::send(const Status& trouble) {
  TESSERA_ASSERT(rank_ != 0, "rank 0 compares reports and sends none");
  LogReport report{.first = sent_ + 1, .calls = {}, .trouble = trouble};
  for (std::int64_t number = report.first; number <= log_.count(); ++number) {
    const LoggedCall* const call = log_.find(number);
    TESSERA_ASSERT(call != nullptr, "what was not reported is in the log");
    report.calls.push_back(*call);
  }
  // If rank 0 has not taken earlier reports, the calls stay in the log and go with the next one.
  if (!transport_.post(0, report.to_bytes())) return;
  sent_ = log_.count();
  log_.forget_until(sent_);
  sent_at_ = time();
}

bool RankWatch::heartbeat_is_due() const {
  return options_.clock && time() - sent_at_ > std::min(heartbeat_at_most, options_.deadline / 8);
}

Status RankWatch::turn() {
  TESSERA_TRY(receive());
  if (++turns_ % turns_per_look != 0) return {};
  if (rank_ != 0 && (sent_ < log_.count() || heartbeat_is_due())) send({});
  const Rank dead = processes_.dead();
  if (dead >= 0) {
    // The dead rank may have sent its reason before it ended: that is the better sentence.
    TESSERA_TRY(receive());
    const Status lost(Code::communication_error,
                      fmt::format("rank {} is dead: its process {} has ended in the middle of the "
                                  "run; look at what it printed last",
                                  dead, processes_.id_of(dead)));
    transport_.abort(lost);
    return transport_.ended();
  }
  if (!trouble_.ok()) return conclude(trouble_);
  if (options_.interrupted && options_.interrupted()) {
    return conclude(
        Status(Code::cancelled, fmt::format("rank {} was told to stop while it waited", rank_)));
  }
  return {};
}

Status RankWatch::receive() {
  for (;;) {
    TESSERA_ASSIGN(auto message, transport_.take());
    if (!message) return compare();
    if (peers_.empty()) continue;  // reports go to rank 0 only
    auto report = LogReport::from_bytes(message->text);
    if (!report) continue;
    Peer& peer = peers_[static_cast<std::size_t>(message->from)];
    peer.heard = time();
    if (!report->calls.empty()) {
      peer.last = report->calls.back();
      peer.count = report->first + static_cast<std::int64_t>(report->calls.size()) - 1;
      peer.ahead.insert(peer.ahead.end(), report->calls.begin(), report->calls.end());
    }
    if (!report->trouble.ok() && trouble_.ok()) trouble_ = report->trouble;
  }
}

// Compares call by call as far as both rank 0 and the other rank have got. Rolling hashes make one
// comparison enough: equal hashes mean equal histories, and the first that differs is the first
// call that differs.
Status RankWatch::compare() {
  if (peers_.empty()) return {};
  std::int64_t same_for_all = log_.count();
  for (Rank other = 1; other < transport_.ranks(); ++other) {
    Peer& peer = peers_[static_cast<std::size_t>(other)];
    while (!peer.ahead.empty()) {
      const LoggedCall* own = log_.find(peer.same + 1);
      if (own == nullptr) break;  // not yet
      if (own->hash != peer.ahead.front().hash) {
        transport_.abort(differs(other, *own));
        return transport_.ended();
      }
      peer.ahead.pop_front();
      ++peer.same;
    }
    same_for_all = std::min(same_for_all, peer.same);
  }
  log_.forget_until(same_for_all);  // calls that all ranks have made are not needed any more
  return {};
}

Status RankWatch::differs(Rank other, const LoggedCall& own) const {
  const Peer& peer = peers_[static_cast<std::size_t>(other)];
  return Status(Code::divergent,
                fmt::format("ranks differ at collective {}: rank 0 calls {}, rank {} calls {}; all "
                            "ranks must run the same program with the same model and options",
                            peer.same + 1, describe(own), other, describe(peer.ahead.front())));
}

Status RankWatch::conclude(const Status& guess) {
  TESSERA_TRY(transport_.ended());
  if (rank_ != 0) send(guess);
  // Rank 0 waits for reports of the others, for a shorter time than they wait for its verdict:
  // otherwise each would end the run with a guess of its own.
  const Time start = time();
  const int share = rank_ == 0 ? 3 : 1;
  const auto patient = [&](int turn) {
    return options_.clock ? time() - start <= patience(options_) / share
                          : turn < patient_turns / share;
  };
  for (int turn = 0; patient(turn); ++turn) {
    if (!receive().ok()) break;  // it is over, or nobody can be heard
    transport_.idle();
  }
  transport_.abort(explain(guess));
  return transport_.ended();
}

// Adds to a deadline's message which ranks are silent, and since which call. A rank that only waits
// still sends heartbeats, so a silent one is stuck or slow; if none is silent, a message was lost.
Status RankWatch::explain(const Status& guess) const {
  if (guess.code() != Code::timed_out) return guess;
  if (rank_ != 0) return Status(guess.code(), guess.message() + ": rank 0 does not answer");
  std::string silent;
  const Time now = time();
  for (Rank other = 1; other < transport_.ranks(); ++other) {
    const Peer& peer = peers_[static_cast<std::size_t>(other)];
    const Time silence = now - peer.heard;
    if (silence <= options_.deadline / 2) continue;
    const std::string last =
        peer.count == 0 ? ""
                        : fmt::format(" since collective {}, {}", peer.count, describe(peer.last));
    silent += fmt::format("{}rank {} is silent for {:.1f} s{}", silent.empty() ? ": " : "; ", other,
                          static_cast<double>(silence) * 1e-9, last);
  }
  if (silent.empty()) silent = ": no rank is silent, so messages are lost or ranks are too slow";
  return Status(guess.code(), guess.message() + silent);
}

}  // namespace tessera
