// SPDX-License-Identifier: Apache-2.0
#include "engine/backends/mpi/mpi_transport.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

namespace tessera {
namespace {

constexpr int spins_before_sleeping = 64;

enum Tag { message_tag = 0, abort_tag = 1 };
constexpr std::ptrdiff_t messages_on_the_way = 8;  // to one rank
constexpr int turns_to_send = 100;                 // of a millisecond
constexpr auto time_to_hear = std::chrono::milliseconds(300);

// Ends MPI when the process does: it cannot be started twice.
struct Session {
  bool ours = false;
  bool broken = false;
  Session() {
    int started = 0;
    MPI_Initialized(&started);
    if (started != 0) return;
    int provided = 0;
    ours = MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided) == MPI_SUCCESS;
  }
  // MPI_Finalize waits for all ranks, also for those that hang. Without it the launcher ends the
  // whole job when the first process goes: the others get a moment to say why themselves.
  ~Session() {
    if (broken) {
      std::this_thread::sleep_for(time_to_hear);
      return;
    }
    int over = 0;
    MPI_Finalized(&over);
    if (ours && over == 0) MPI_Finalize();
  }
};

Session& session() {
  static Session of_this_process;
  return of_this_process;
}

}  // namespace

Result<std::unique_ptr<MpiTransport>> MpiTransport::create() {
  session();
  std::unique_ptr<MpiTransport> transport(new MpiTransport);
  if (int code = MPI_Comm_dup(MPI_COMM_WORLD, &transport->world_); code != MPI_SUCCESS) {
    return mpi_failure(code, "MPI_Comm_dup");
  }
  MPI_Comm_dup(MPI_COMM_WORLD, &transport->messages_);
  MPI_Comm_set_errhandler(transport->world_, MPI_ERRORS_RETURN);
  MPI_Comm_set_errhandler(transport->messages_, MPI_ERRORS_RETURN);
  MPI_Comm_rank(transport->world_, &transport->rank_);
  MPI_Comm_size(transport->world_, &transport->ranks_);
  return transport;
}

MpiTransport::~MpiTransport() {
  if (!ended_.ok()) return;  // others may never answer
  for (auto& [id, group] : groups_) {
    if (group.communicator != MPI_COMM_NULL) MPI_Comm_free(&group.communicator);
  }
  for (Outgoing& message : outgoing_) MPI_Wait(&message.request, MPI_STATUS_IGNORE);
  MPI_Comm_free(&messages_);
  MPI_Comm_free(&world_);
}

Status MpiTransport::add_communicator(CommunicatorId id, const RankGroups& groups) {
  const Index own = groups.group_of(rank_);
  Group group;
  const int color = own < 0 ? MPI_UNDEFINED : own;
  const int key = own < 0 ? 0 : groups.index_of(rank_);
  TESSERA_TRY(ended_);
  const int code = MPI_Comm_split(world_, color, key, &group.communicator);
  if (code != MPI_SUCCESS) return mpi_failure(code, "MPI_Comm_split");
  if (own >= 0) MPI_Comm_set_errhandler(group.communicator, MPI_ERRORS_RETURN);
  if (own >= 0) group.members = static_cast<int>(groups.group_size(own));
  group.index = key;
  groups_[id] = group;
  return {};
}

// All members start the same collectives in the same order: numbers keep those apart that are
// under way at once. Any MPI takes tags up to 32767.
MpiExchange MpiTransport::exchange(Group& group) {
  return {group.communicator, group.started++ % 32768};
}

Transport::Request MpiTransport::started(MpiExchange exchange) {
  pending_.emplace(next_, std::move(exchange));
  idle_turns_ = 0;
  return next_++;
}

Result<Transport::Request> MpiTransport::all_gather(CommunicatorId id,
                                                    std::span<const std::byte> input,
                                                    std::span<std::byte> output) {
  TESSERA_TRY(ended_);
  Group& group = groups_.at(id);
  MpiExchange messages = exchange(group);
  for (int turn = 1; turn < group.members; ++turn) {
    const int from = (group.index - turn + group.members) % group.members;
    messages.receive(output.subspan(static_cast<std::size_t>(from) * input.size(), input.size()),
                     from);
  }
  for (int turn = 1; turn < group.members; ++turn) {
    messages.send(input, (group.index + turn) % group.members);
  }
  const auto own =
      output.subspan(static_cast<std::size_t>(group.index) * input.size(), input.size());
  if (own.data() != input.data()) std::copy(input.begin(), input.end(), own.begin());
  return started(std::move(messages));
}

Result<Transport::Request> MpiTransport::all_to_all(CommunicatorId id,
                                                    std::span<const std::byte> input,
                                                    std::span<std::byte> output) {
  TESSERA_TRY(ended_);
  Group& group = groups_.at(id);
  const std::size_t size = input.size() / static_cast<std::size_t>(group.members);
  const auto place = [size](int member) { return static_cast<std::size_t>(member) * size; };
  MpiExchange messages = exchange(group);
  for (int turn = 1; turn < group.members; ++turn) {
    const int from = (group.index - turn + group.members) % group.members;
    messages.receive(output.subspan(place(from), size), from);
  }
  for (int turn = 1; turn < group.members; ++turn) {
    const int to = (group.index + turn) % group.members;
    messages.send(input.subspan(place(to), size), to);
  }
  const auto own = input.subspan(place(group.index), size);
  std::copy(own.begin(), own.end(),
            output.begin() + static_cast<std::ptrdiff_t>(place(group.index)));
  return started(std::move(messages));
}

Result<Transport::Request> MpiTransport::gather(CommunicatorId id, Index root,
                                                std::span<const std::byte> input,
                                                std::span<std::byte> output) {
  TESSERA_TRY(ended_);
  Group& group = groups_.at(id);
  MpiExchange messages = exchange(group);
  if (group.index != root) {
    messages.send(input, root);
    return started(std::move(messages));
  }
  for (int from = 0; from < group.members; ++from) {
    const auto part = output.subspan(static_cast<std::size_t>(from) * input.size(), input.size());
    if (from != root) {
      messages.receive(part, from);
    } else {
      std::copy(input.begin(), input.end(), part.begin());
    }
  }
  return started(std::move(messages));
}

// A binomial tree: counted from the root, member i has its bytes from i without its lowest bit.
Result<Transport::Request> MpiTransport::broadcast(CommunicatorId id, Index root,
                                                   std::span<std::byte> data) {
  TESSERA_TRY(ended_);
  Group& group = groups_.at(id);
  MpiExchange messages = exchange(group);
  const int own = (group.index - root + group.members) % group.members;
  int lowest = 1;
  while (lowest < group.members && (own & lowest) == 0) lowest <<= 1;
  const auto pass_on = [data, own, lowest, root, members = group.members](MpiExchange& to) {
    for (int bit = lowest >> 1; bit > 0; bit >>= 1) {
      if (own + bit < members) to.send(data, (own + bit + root) % members);
    }
  };
  if (own != 0) messages.receive(data, (own - lowest + root) % group.members);
  messages.then(pass_on);
  return started(std::move(messages));
}

Result<bool> MpiTransport::test(Request request) {
  TESSERA_TRY(ended_);
  const auto found = pending_.find(request);
  TESSERA_ASSERT(found != pending_.end(), "a request that was started and is not done");
  TESSERA_ASSIGN(const bool done, found->second.test());
  if (done) pending_.erase(found);
  return done;
}

// First only let others run, then sleep: with more ranks than cores a rank that polls keeps its
// peers from what it waits for.
void MpiTransport::idle() {
  if (++idle_turns_ < spins_before_sleeping) {
    std::this_thread::yield();
  } else {
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
}

void MpiTransport::forget_sent() {
  std::erase_if(outgoing_, [](Outgoing& message) {
    int done = 0;
    MPI_Test(&message.request, &done, MPI_STATUS_IGNORE);
    return done != 0;
  });
}

void MpiTransport::send(Rank to, int tag, std::string text) {
  Outgoing& message = outgoing_.emplace_back(Outgoing{to, std::move(text), MPI_REQUEST_NULL});
  MPI_Isend(message.text.data(), static_cast<int>(message.text.size()), MPI_CHAR, to, tag,
            messages_, &message.request);
}

bool MpiTransport::post(Rank to, std::string message) {
  if (!ended_.ok()) return false;
  forget_sent();
  const auto waiting = std::count_if(outgoing_.begin(), outgoing_.end(),
                                     [to](const Outgoing& other) { return other.to == to; });
  if (waiting >= messages_on_the_way) return false;
  send(to, message_tag, std::move(message));
  return true;
}

Result<std::optional<Transport::Message>> MpiTransport::take() {
  TESSERA_TRY(ended_);
  int there = 0;
  MPI_Status envelope;
  int code = MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, messages_, &there, &envelope);
  if (code != MPI_SUCCESS) return mpi_failure(code, "MPI_Iprobe");
  if (there == 0) return std::optional<Message>();
  int length = 0;
  MPI_Get_count(&envelope, MPI_CHAR, &length);
  std::string text(static_cast<std::size_t>(length), ' ');
  code = MPI_Recv(text.data(), length, MPI_CHAR, envelope.MPI_SOURCE, envelope.MPI_TAG, messages_,
                  MPI_STATUS_IGNORE);
  if (code != MPI_SUCCESS) return mpi_failure(code, "MPI_Recv");
  if (envelope.MPI_TAG == message_tag) {
    return std::optional<Message>(Message{envelope.MPI_SOURCE, std::move(text)});
  }
  session().broken = true;
  ended_ = Status(static_cast<Code>(text.front()), text.substr(1));
  return ended_;
}

void MpiTransport::abort(const Status& why) {
  if (!ended_.ok()) return;
  session().broken = true;
  for (Rank other = 0; other < ranks_; ++other) {
    if (other != rank_) send(other, abort_tag, static_cast<char>(why.code()) + why.message());
  }
  for (int turn = 0; turn < turns_to_send; ++turn) {
    forget_sent();
    if (outgoing_.empty()) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  ended_ = why;
  // Memory of requests that are still under way belongs to MPI until the process ends.
  static std::list<Outgoing> kept;
  kept.splice(kept.end(), outgoing_);
}

}  // namespace tessera
