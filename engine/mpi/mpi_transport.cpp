// SPDX-License-Identifier: Apache-2.0
#include "engine/mpi/mpi_transport.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <limits>
#include <thread>

namespace tessera {
namespace {

constexpr int spins_before_sleeping = 64;

enum Tag { letter_tag = 0, abort_tag = 1 };
constexpr std::ptrdiff_t letters_on_the_way = 8;  // to one rank
constexpr int turns_to_tell = 100;                // of a millisecond
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

Status failed(int code, const char* call) {
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  MPI_Error_string(code, text.data(), &length);
  return Status(Code::communication_error,
                fmt::format("{}: {}", call, std::string_view(text.data(), length)));
}

// Counts are int in MPI 3: large messages are one element of a large type.
class Elements {
 public:
  explicit Elements(std::size_t bytes) : count_(static_cast<int>(bytes)) {
    constexpr std::size_t most = std::numeric_limits<int>::max();
    if (bytes <= most) return;
    constexpr std::size_t block = std::size_t{1} << 30;
    const int blocks = static_cast<int>(bytes / block);
    const int rest = static_cast<int>(bytes % block);
    MPI_Datatype big = MPI_BYTE;
    MPI_Type_contiguous(static_cast<int>(block), MPI_BYTE, &big);
    const std::array<int, 2> lengths{blocks, rest};
    const std::array<MPI_Aint, 2> places{0, static_cast<MPI_Aint>(block) * blocks};
    const std::array<MPI_Datatype, 2> types{big, MPI_BYTE};
    MPI_Type_create_struct(2, lengths.data(), places.data(), types.data(), &type_);
    MPI_Type_commit(&type_);
    MPI_Type_free(&big);
    count_ = 1;
    owned_ = true;
  }
  ~Elements() {
    if (owned_) MPI_Type_free(&type_);  // when the last call that uses it is over
  }
  Elements(const Elements&) = delete;
  Elements& operator=(const Elements&) = delete;

  int count() const { return count_; }
  MPI_Datatype type() const { return type_; }

 private:
  int count_;
  MPI_Datatype type_ = MPI_BYTE;
  bool owned_ = false;
};

}  // namespace

Result<std::unique_ptr<MpiTransport>> MpiTransport::create() {
  session();
  std::unique_ptr<MpiTransport> transport(new MpiTransport);
  if (int code = MPI_Comm_dup(MPI_COMM_WORLD, &transport->world_); code != MPI_SUCCESS) {
    return failed(code, "MPI_Comm_dup");
  }
  MPI_Comm_dup(MPI_COMM_WORLD, &transport->letters_);
  MPI_Comm_set_errhandler(transport->world_, MPI_ERRORS_RETURN);
  MPI_Comm_set_errhandler(transport->letters_, MPI_ERRORS_RETURN);
  MPI_Comm_rank(transport->world_, &transport->rank_);
  MPI_Comm_size(transport->world_, &transport->ranks_);
  return transport;
}

MpiTransport::~MpiTransport() {
  if (!ended_.ok()) return;  // others may never answer
  for (auto& [id, group] : groups_) {
    if (group.communicator != MPI_COMM_NULL) MPI_Comm_free(&group.communicator);
  }
  for (Outgoing& letter : outgoing_) MPI_Wait(&letter.request, MPI_STATUS_IGNORE);
  MPI_Comm_free(&letters_);
  MPI_Comm_free(&world_);
}

Status MpiTransport::add_communicator(CommunicatorId id, const RankGroups& groups) {
  const Index own = groups.group_of(rank_);
  Group group;
  const int color = own < 0 ? MPI_UNDEFINED : own;
  const int key = own < 0 ? 0 : groups.index_of(rank_);
  TESSERA_TRY(ended_);
  const int code = MPI_Comm_split(world_, color, key, &group.communicator);
  if (code != MPI_SUCCESS) return failed(code, "MPI_Comm_split");
  if (own >= 0) MPI_Comm_set_errhandler(group.communicator, MPI_ERRORS_RETURN);
  if (own >= 0) group.members = static_cast<std::size_t>(groups.group_size(own));
  groups_[id] = group;
  return {};
}

Result<Transport::Request> MpiTransport::started(int code, const char* call, MPI_Request request) {
  if (code != MPI_SUCCESS) return failed(code, call);
  pending_[next_] = request;
  idle_turns_ = 0;
  return next_++;
}

Result<Transport::Request> MpiTransport::all_gather(CommunicatorId id,
                                                    std::span<const std::byte> input,
                                                    std::span<std::byte> output) {
  TESSERA_TRY(ended_);
  const Group& group = groups_.at(id);
  const Elements part(input.size());
  const bool in_place =
      input.data() >= output.data() && input.data() < output.data() + output.size();
  MPI_Request request = MPI_REQUEST_NULL;
  const int code =
      MPI_Iallgather(in_place ? MPI_IN_PLACE : input.data(), part.count(), part.type(),
                     output.data(), part.count(), part.type(), group.communicator, &request);
  return started(code, "MPI_Iallgather", request);
}

Result<Transport::Request> MpiTransport::all_to_all(CommunicatorId id,
                                                    std::span<const std::byte> input,
                                                    std::span<std::byte> output) {
  TESSERA_TRY(ended_);
  const Group& group = groups_.at(id);
  const Elements part(input.size() / group.members);
  MPI_Request request = MPI_REQUEST_NULL;
  const int code = MPI_Ialltoall(input.data(), part.count(), part.type(), output.data(),
                                 part.count(), part.type(), group.communicator, &request);
  return started(code, "MPI_Ialltoall", request);
}

Result<Transport::Request> MpiTransport::gather(CommunicatorId id, Index root,
                                                std::span<const std::byte> input,
                                                std::span<std::byte> output) {
  TESSERA_TRY(ended_);
  const Elements part(input.size());
  MPI_Request request = MPI_REQUEST_NULL;
  const int code = MPI_Igather(input.data(), part.count(), part.type(), output.data(), part.count(),
                               part.type(), root, groups_.at(id).communicator, &request);
  return started(code, "MPI_Igather", request);
}

Result<Transport::Request> MpiTransport::broadcast(CommunicatorId id, Index root,
                                                   std::span<std::byte> data) {
  TESSERA_TRY(ended_);
  const Elements all(data.size());
  MPI_Request request = MPI_REQUEST_NULL;
  const int code =
      MPI_Ibcast(data.data(), all.count(), all.type(), root, groups_.at(id).communicator, &request);
  return started(code, "MPI_Ibcast", request);
}

Result<bool> MpiTransport::test(Request request) {
  TESSERA_TRY(ended_);
  const auto found = pending_.find(request);
  TESSERA_ASSERT(found != pending_.end(), "a request that was started and is not done");
  int done = 0;
  const int code = MPI_Test(&found->second, &done, MPI_STATUS_IGNORE);
  if (code != MPI_SUCCESS) return failed(code, "MPI_Test");
  if (done == 0) return false;
  pending_.erase(found);
  return true;
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
  std::erase_if(outgoing_, [](Outgoing& letter) {
    int done = 0;
    MPI_Test(&letter.request, &done, MPI_STATUS_IGNORE);
    return done != 0;
  });
}

void MpiTransport::send(Rank to, int tag, std::string text) {
  Outgoing& letter = outgoing_.emplace_back(Outgoing{to, std::move(text), MPI_REQUEST_NULL});
  MPI_Isend(letter.text.data(), static_cast<int>(letter.text.size()), MPI_CHAR, to, tag, letters_,
            &letter.request);
}

bool MpiTransport::post(Rank to, std::string letter) {
  if (!ended_.ok()) return false;
  forget_sent();
  const auto waiting = std::count_if(outgoing_.begin(), outgoing_.end(),
                                     [to](const Outgoing& other) { return other.to == to; });
  if (waiting >= letters_on_the_way) return false;
  send(to, letter_tag, std::move(letter));
  return true;
}

Result<std::optional<Transport::Letter>> MpiTransport::take() {
  TESSERA_TRY(ended_);
  int there = 0;
  MPI_Status envelope;
  int code = MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, letters_, &there, &envelope);
  if (code != MPI_SUCCESS) return failed(code, "MPI_Iprobe");
  if (there == 0) return std::optional<Letter>();
  int length = 0;
  MPI_Get_count(&envelope, MPI_CHAR, &length);
  std::string text(static_cast<std::size_t>(length), ' ');
  code = MPI_Recv(text.data(), length, MPI_CHAR, envelope.MPI_SOURCE, envelope.MPI_TAG, letters_,
                  MPI_STATUS_IGNORE);
  if (code != MPI_SUCCESS) return failed(code, "MPI_Recv");
  if (envelope.MPI_TAG == letter_tag) {
    return std::optional<Letter>(Letter{envelope.MPI_SOURCE, std::move(text)});
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
  for (int turn = 0; turn < turns_to_tell; ++turn) {
    forget_sent();
    if (outgoing_.empty()) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  ended_ = why;
  // What is still under way belongs to MPI until the process ends.
  static std::list<Outgoing> kept;
  kept.splice(kept.end(), outgoing_);
}

}  // namespace tessera
