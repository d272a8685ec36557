// SPDX-License-Identifier: Apache-2.0
#include "engine/backends/host/thread_transport.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <tuple>
#include <utility>
#include <vector>

namespace tessera {
namespace {

// One collective of one group, in three rounds: no rank reads before all have come, no rank
// leaves before all have read, and the last one to leave removes the meeting.
struct Meeting {
  std::vector<std::span<const std::byte>> inputs;  // by index
  Index come = 0;
  Index read = 0;
  Index left = 0;
};
using MeetingKey = std::tuple<CommunicatorId, Index, std::int64_t>;  // group, sequence number

}  // namespace

struct ThreadWorld::Shared {
  explicit Shared(Rank count) : ranks(count), messages(static_cast<std::size_t>(count)) {}

  const Rank ranks;
  std::mutex mutex;
  std::condition_variable changed;
  std::map<MeetingKey, Meeting> meetings;
  std::vector<std::deque<Transport::Message>> messages;  // by receiver, not taken yet
  Status ended;
};

namespace {

class ThreadTransport final : public Transport {
 public:
  ThreadTransport(std::shared_ptr<ThreadWorld::Shared> world, Rank rank)
      : world_(std::move(world)), rank_(rank) {}

  Rank rank() const override { return rank_; }
  Rank ranks() const override { return world_->ranks; }

  Status add_communicator(CommunicatorId id, const RankGroups& groups) override {
    communicators_.insert_or_assign(id, Communicator{groups, 0});
    return {};
  }

  Result<Request> all_gather(CommunicatorId id, std::span<const std::byte> input,
                             std::span<std::byte> output) override {
    return meet(id, input, [output](const Inputs& inputs, Index /*own*/) {
      auto target = output;
      for (const auto& part : inputs) {
        // In place, the own part is there already.
        if (part.data() != target.data()) std::copy(part.begin(), part.end(), target.begin());
        target = target.subspan(part.size());
      }
    });
  }

  Result<Request> all_to_all(CommunicatorId id, std::span<const std::byte> input,
                             std::span<std::byte> output) override {
    return meet(id, input, [output](const Inputs& inputs, Index own) {
      const std::size_t part = output.size() / inputs.size();
      auto target = output;
      for (const auto& from : inputs) {
        const auto source = from.subspan(static_cast<std::size_t>(own) * part, part);
        std::copy(source.begin(), source.end(), target.begin());
        target = target.subspan(part);
      }
    });
  }

  Result<Request> gather(CommunicatorId id, Index root, std::span<const std::byte> input,
                         std::span<std::byte> output) override {
    return meet(id, input, [root, output](const Inputs& inputs, Index own) {
      if (own != root) return;
      auto target = output;
      for (const auto& part : inputs) {
        std::copy(part.begin(), part.end(), target.begin());
        target = target.subspan(part.size());
      }
    });
  }

  Result<Request> broadcast(CommunicatorId id, Index root, std::span<std::byte> data) override {
    return meet(id, data, [root, data](const Inputs& inputs, Index own) {
      const auto& source = inputs[static_cast<std::size_t>(root)];
      if (own != root) std::copy(source.begin(), source.end(), data.begin());
    });
  }

  Result<bool> test(Request request) override {
    const std::lock_guard lock(world_->mutex);
    TESSERA_TRY(world_->ended);
    const auto found = pending_.find(request);
    TESSERA_ASSERT(found != pending_.end(), "a request that was started and is not done");
    Pending& pending = found->second;
    Meeting& meeting = world_->meetings.at(pending.key);
    const auto members = static_cast<Index>(meeting.inputs.size());
    if (meeting.come < members) return false;
    // MPI_ERR_TRUNCATE, so to speak: what follows relies on it.
    for (const auto& input : meeting.inputs) {
      if (input.size() == meeting.inputs.front().size()) continue;
      return Status(Code::communication_error,
                    fmt::format("rank {} takes part in a collective of {} bytes with {} bytes",
                                rank_, meeting.inputs.front().size(), input.size()));
    }
    if (!std::exchange(pending.has_read, true)) {
      pending.take(meeting.inputs, pending.index);
      ++meeting.read;
      world_->changed.notify_all();
    }
    if (meeting.read < members) return false;
    if (++meeting.left == members) world_->meetings.erase(pending.key);
    pending_.erase(found);
    return true;
  }

  void idle() override {
    std::unique_lock lock(world_->mutex);
    world_->changed.wait_for(lock, std::chrono::microseconds(200));
  }

  bool post(Rank to, std::string message) override {
    const std::lock_guard lock(world_->mutex);
    world_->messages[static_cast<std::size_t>(to)].push_back({rank_, std::move(message)});
    world_->changed.notify_all();
    return true;
  }

  Result<std::optional<Message>> take() override {
    const std::lock_guard lock(world_->mutex);
    TESSERA_TRY(world_->ended);
    auto& messages = world_->messages[static_cast<std::size_t>(rank_)];
    if (messages.empty()) return std::optional<Message>();
    std::optional<Message> next(std::move(messages.front()));
    messages.pop_front();
    return next;
  }

  // Others copy from this rank's memory only while they hold the lock and nothing has ended: so it
  // may go as soon as this returns.
  void abort(const Status& why) override {
    const std::lock_guard lock(world_->mutex);
    if (world_->ended.ok()) world_->ended = why;
    world_->changed.notify_all();
  }

  Status ended() const override {
    const std::lock_guard lock(world_->mutex);
    return world_->ended;
  }

 private:
  using Inputs = std::vector<std::span<const std::byte>>;
  using Take = std::function<void(const Inputs&, Index own)>;
  struct Communicator {
    RankGroups groups;
    std::int64_t started = 0;
  };
  struct Pending {
    MeetingKey key;
    Index index = 0;
    Take take;
    bool has_read = false;
  };

  Result<Request> meet(CommunicatorId id, std::span<const std::byte> input, Take take) {
    Communicator& communicator = communicators_.at(id);
    const Index group = communicator.groups.group_of(rank_);
    const Index index = communicator.groups.index_of(rank_);
    TESSERA_ASSERT(group >= 0 && index >= 0, "members meet");
    const MeetingKey key{id, group, communicator.started++};
    const std::lock_guard lock(world_->mutex);
    TESSERA_TRY(world_->ended);
    auto& meeting = world_->meetings[key];
    meeting.inputs.resize(static_cast<std::size_t>(communicator.groups.group_size(group)));
    TESSERA_ASSERT(meeting.come < std::ssize(meeting.inputs), "a member comes to a meeting once");
    meeting.inputs[static_cast<std::size_t>(index)] = input;
    ++meeting.come;
    world_->changed.notify_all();
    pending_[next_] = {key, index, std::move(take), false};
    return next_++;
  }

  const std::shared_ptr<ThreadWorld::Shared> world_;
  const Rank rank_;
  std::map<CommunicatorId, Communicator> communicators_;
  std::map<Request, Pending> pending_;
  Request next_ = 0;
};

}  // namespace

ThreadWorld::ThreadWorld(Rank ranks) : shared_(std::make_shared<Shared>(ranks)) {}

std::unique_ptr<Transport> ThreadWorld::join(Rank rank) {
  TESSERA_ASSERT(rank >= 0 && rank < shared_->ranks, "a rank of this world");
  return std::make_unique<ThreadTransport>(shared_, rank);
}

}  // namespace tessera
